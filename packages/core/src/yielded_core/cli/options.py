"""The options that every command has, given to it or to `yielded` itself."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Annotated, Final, TypeAlias, cast

import typer

from yielded_core.cli.exits import ExitCode
from yielded_core.cli.output import Output, note
from yielded_core.cli.safe_text import visible
from yielded_core.errors import InvalidArgument

STORE_VARIABLE: Final = "YIELDED_STORE"
_STORE_HELP: Final = f"The store, such as sqlite:///agents.db; otherwise {STORE_VARIABLE} says it."
_JSON_HELP: Final = "Print JSON for machines."

StoreOption: TypeAlias = Annotated[
    str | None, typer.Option("--store", metavar="URL", help=_STORE_HELP)
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help=_JSON_HELP)]
YesOption: TypeAlias = Annotated[bool, typer.Option("--yes", help="Do not ask.")]
ThreadArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="THREAD", help="The id of the thread.")
]


@dataclass(frozen=True, slots=True)
class Chosen:
    """The store and the form of output that were chosen."""

    store: str | None
    """As the command line names it."""
    as_json: bool

    @property
    def url(self) -> str:
        """The URL of the store, by the environment if need be; it must be named somewhere."""
        named = self.store or os.environ.get(STORE_VARIABLE)
        if not named:
            message = f"say which store: --store URL, or the environment variable {STORE_VARIABLE}"
            raise typer.BadParameter(message, param_hint="--store")
        return named

    def output(self) -> Output:
        """Return where the command writes."""
        return Output(as_json=self.as_json)


def chosen(context: typer.Context, store: str | None, as_json: bool) -> Chosen:
    """Put together what a command was given and what `yielded` was given before it."""
    before = cast("Chosen | None", context.obj) or Chosen(None, as_json=False)
    return Chosen(store or before.store, as_json=as_json or before.as_json)


def confirm(options: Chosen, question: str) -> None:
    """Ask a person on a terminal; a no ends the command. Raises InvalidArgument without one."""
    if options.as_json or not sys.stdin.isatty():
        raise InvalidArgument("--yes", "nobody is there to be asked, so it must be given")
    if not typer.confirm(visible(question), err=True):
        note("Nothing was changed.")
        raise typer.Exit(ExitCode.REFUSED)
