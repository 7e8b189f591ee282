"""The `yielded` command: its commands are found by name and loaded only when they are called."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.metadata import entry_points, version
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Protocol, cast

import typer
from typer.core import TyperCommand, TyperGroup

from yielded_core.cli.exits import MEANINGS, ExitCode, exit_code
from yielded_core.cli.options import Chosen, JsonOption, StoreOption
from yielded_core.cli.output import leave_closed_output, report, report_other
from yielded_core.errors import YieldedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

ENTRY_POINTS: Final = "yielded.commands"
"""Entry-point group: command name -> a `typer.Typer`, or a function to make a command of."""


class BuiltIn(NamedTuple):
    """A command of core: where it is, and what it does in one line."""

    module: str
    help: str


BUILT_IN: Final[Mapping[str, BuiltIn]] = MappingProxyType(
    {
        "demo": BuiltIn("demo", "Kill a writer in mid-append and see the log survive it."),
        "threads": BuiltIn("threads", "List the threads of a store."),
        "tail": BuiltIn("tail", "Show where a thread ends."),
        "log": BuiltIn("timeline", "Show what happened in a thread, as a timeline."),
        "queue": BuiltIn("queue", "List accepted work that is not settled, lane by lane."),
        "show": BuiltIn("show", "Show everything about one submission."),
        "abort": BuiltIn("abort", "Ask that a submission be aborted."),
        "approve": BuiltIn("approve", "Approve a tool call."),
        "deny": BuiltIn("deny", "Deny a tool call."),
        "resolve": BuiltIn("resolve", "Resolve a tool call of unknown outcome."),
        "verify": BuiltIn(
            "verify", "Verify threads, or an archive file, from the first record on."
        ),
        "export": BuiltIn("exporting", "Write a thread to an archive file."),
        "import": BuiltIn("importing", "Install an archive file as a thread of a store."),
        "info": BuiltIn("info", "Say what a store is, and how much is in it."),
        "archive": BuiltIn("archive", "Move the oldest records of a thread to compact ranges."),
        "rebuild": BuiltIn("rebuild", "Rebuild the indexes of a thread from its records."),
        "delete": BuiltIn("delete", "Delete a thread and leave a tombstone."),
        "restored": BuiltIn("restored", "Begin a new timeline in a store restored from a backup."),
    }
)
"""The commands of core; the function is called `command` in its module of `cli.commands`."""

_EXIT_CODES: Final = "\n".join(f"  {code:3d}  {meaning}" for code, meaning in MEANINGS.items())
_HELP: Final = (
    "Look at stores of thread logs and accepted work, check them, and move their threads."
)
_EPILOG: Final = f"\b\nExit codes:\n{_EXIT_CODES}"


class LazyCommand(TyperCommand):
    """Stands for a command in the list of commands until it is called."""

    def __init__(self, name: str, help_line: str, load: Callable[[], object]) -> None:
        super().__init__(name, help=help_line)
        self._load = load

    def make_context(self, *args: object, **kwargs: object) -> typer.Context:
        """Load the command, and let it take over."""
        return _command(str(self.name), self._load()).make_context(*args, **kwargs)


class Command(Protocol):
    """What is used of a command, whose own type typer does not export."""

    def make_context(self, *args: object, **kwargs: object) -> typer.Context:
        """Read the arguments of a call."""
        ...

    def main(self, args: Sequence[str], *, prog_name: str, standalone_mode: bool) -> object:
        """Run a command line; outside of the standalone mode errors are raised."""
        ...


def application() -> Command:
    """Return the command with everything that is installed below it."""
    app = _typer()
    app.callback(invoke_without_command=True, help=_HELP, epilog=_EPILOG)(_globals)
    group = cast("TyperGroup", typer.main.get_command(app))
    for name, found in BUILT_IN.items():
        group.add_command(LazyCommand(name, found.help, _loader(found)))
    for entry in sorted(entry_points(group=ENTRY_POINTS)):
        if entry.name not in BUILT_IN:
            origin = entry.dist.name if entry.dist else "another distribution"
            group.add_command(LazyCommand(entry.name, f"Added by {origin}.", entry.load))
    return cast("Command", cast("object", group))


def run(arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code; every error is reported on standard error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    as_json = _asks_for_json(arguments)
    try:
        code = _run(arguments, as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        leave_closed_output()
        return ExitCode.OUTPUT_CLOSED
    return code


def _run(arguments: Sequence[str], as_json: bool) -> int:
    try:
        code = application().main(args=list(arguments), prog_name="yielded", standalone_mode=False)
    except YieldedError as error:
        report(error, as_json=as_json)
        return exit_code(error)
    except _USAGE_ERROR as error:
        message = cast("Any", error).format_message()
        report_other("usage", f"{message} (see `yielded --help`)", as_json=as_json)
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        raise
    except OSError as error:
        return _file_error(error, as_json)
    except Exception as error:  # noqa: BLE001 - exit code 1 would say that a check failed
        return _defect(error, as_json)
    return code if isinstance(code, int) else ExitCode.OK


def _file_error(error: OSError, as_json: bool) -> int:
    place = f"{error.filename}: " if error.filename else ""
    report_other("file", f"{place}{error.strerror or error}", as_json=as_json)
    if isinstance(error, FileNotFoundError):
        return ExitCode.NOT_FOUND
    refused = isinstance(error, (PermissionError, IsADirectoryError, NotADirectoryError))
    return ExitCode.REFUSED if refused else ExitCode.UNAVAILABLE


def _defect(error: Exception, as_json: bool) -> int:
    """Show where an error came from that nobody foresaw; for machines only what it is."""
    if not as_json:
        traceback.print_exception(error)
    report_other("defect", f"this is a defect: {type(error).__name__}", as_json=as_json)
    return ExitCode.DEFECT


def _globals(
    context: typer.Context,
    store: StoreOption = None,
    as_json: JsonOption = False,
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version.", is_eager=True)
    ] = False,
) -> None:
    context.obj = Chosen(store, as_json)
    if show_version:
        typer.echo(f"yielded {version('yielded-core')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


def _typer() -> typer.Typer:
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None)


def _loader(found: BuiltIn) -> Callable[[], object]:
    return lambda: import_module(f"yielded_core.cli.commands.{found.module}").command


def _command(name: str, loaded: object) -> Command:
    """Return the command that was found under a name."""
    if isinstance(loaded, typer.Typer):
        return _made(loaded)
    app = _typer()
    app.command(name)(cast("Callable[..., object]", loaded))
    return _made(app)


def _made(app: typer.Typer) -> Command:
    return cast("Command", cast("object", typer.main.get_command(app)))


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Say whether errors are to be JSON, even where the command line cannot be understood."""
    given = list(arguments)
    return "--json" in (given[: given.index("--")] if "--" in given else given)


def _usage_error() -> type[Exception]:
    """Return the base of the errors of a command line, which typer does not export."""
    bases = [each for each in typer.BadParameter.__mro__ if hasattr(each, "format_message")]
    return cast("type[Exception]", bases[-1])


_USAGE_ERROR: Final = _usage_error()
