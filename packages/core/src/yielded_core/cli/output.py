"""Where a command writes: what was asked for to standard output, everything else to the other."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import orjson
import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from yielded_core.cli.exits import ExitCode
from yielded_core.cli.safe_text import ascii_json, one_line, visible
from yielded_core.errors import StoreRefused

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping

    from rich.console import RenderableType

    from yielded_core.errors import YieldedError

_PIPE_COLUMNS: Final = 250
"""How wide a line may be that no terminal limits."""
_TITLE_CHARACTERS: Final = 32
_MOST_DIFFERENCES: Final = 20


class Output:
    """Standard output of one command, for people or, as JSON, for machines."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self._console = Console(highlight=False, markup=False, emoji=False)

    @property
    def columns(self) -> int:
        """How wide a line may be."""
        return self._console.width if self._console.is_terminal else _PIPE_COLUMNS

    def document(self, value: Mapping[str, object]) -> None:
        """Write one JSON document on a line of its own."""
        write(_one_document(value))

    def line(self, text: Text | str) -> None:
        """Write one line as it is, cut to the width of the terminal where there is one."""
        shown = Text(text) if isinstance(text, str) else text
        if self._console.is_terminal:
            shown.truncate(self.columns, overflow="ellipsis")
        self._render(shown, soft_wrap=True)

    def paragraph(self, text: Text | str) -> None:
        """Write text that goes on in the next line where the terminal ends."""
        shown = Text(text) if isinstance(text, str) else text
        self._render(shown, soft_wrap=not self._console.is_terminal)

    def item(self, mark: Text, text: str) -> None:
        """Write text beside a mark; it goes on below itself where the terminal ends."""
        if not self._console.is_terminal:
            self.paragraph(Text.assemble(mark, f" {visible(text)}"))
            return
        grid = Table.grid(padding=(0, 1))
        grid.add_row(mark, Text(visible(text)))
        self._render(grid, soft_wrap=False)

    def pairs(self, pairs: Mapping[str, str]) -> None:
        """Write names and their values below one another."""
        width = max(map(len, pairs))
        for name, value in pairs.items():
            self.item(Text(f"{name:{width}} ", "bold"), value)

    def _render(self, shown: RenderableType, *, soft_wrap: bool) -> None:
        with self._console.capture() as captured:
            self._console.print(shown, soft_wrap=soft_wrap)
        write(captured.get().removesuffix("\n"))


def write(text: str) -> None:
    """Write a line to standard output; end the command when nobody reads it any more."""
    try:
        sys.stdout.write(text + "\n")
    except BrokenPipeError:
        leave_closed_output()
        raise typer.Exit(ExitCode.OUTPUT_CLOSED) from None


def write_bytes(text: bytes) -> None:
    """Write bytes to standard output; end the command when nobody reads it any more."""
    try:
        sys.stdout.buffer.write(text)
    except BrokenPipeError:
        leave_closed_output()
        raise typer.Exit(ExitCode.OUTPUT_CLOSED) from None


def flush() -> None:
    """Hand over what was written so far; end the command when nobody reads it any more."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        leave_closed_output()
        raise typer.Exit(ExitCode.OUTPUT_CLOSED) from None


def leave_closed_output() -> None:
    """Point standard output to nowhere, so that the interpreter can end without complaint."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def note(text: str) -> None:
    """Write one line for people to standard error."""
    sys.stderr.write(f"{visible(text)}\n")


def report(error: YieldedError, *, as_json: bool) -> None:
    """Write an error to standard error: a line, or `{"error": {…}}`."""
    if as_json:
        _report_json(error_document(error))
        return
    note(f"yielded: {error}")
    if isinstance(error, StoreRefused):
        for difference in error.differences[:_MOST_DIFFERENCES]:
            note(f"  {difference}")
        if len(error.differences) > _MOST_DIFFERENCES:
            note(f"  and {len(error.differences) - _MOST_DIFFERENCES} more")


def report_other(code: str, message: str, *, as_json: bool) -> None:
    """Write an error that is none of the storage layer as `report` does."""
    if as_json:
        _report_json({"error": {"code": code, "message": message, "retryable": False}})
    else:
        note(f"yielded: {message}")


def error_document(error: YieldedError) -> dict[str, object]:
    """Return an error for machines: its code, its message and its fields."""
    head = {"code": error.code, "message": str(error), "retryable": error.retryable}
    return {"error": {**head, **error.fields()}}


def _report_json(document: Mapping[str, object]) -> None:
    sys.stderr.write(_one_document(document) + "\n")


def _one_document(value: Mapping[str, object]) -> str:
    try:
        return ascii_json(orjson.dumps(value))
    except TypeError:  # the name of a file that is no text, which only the standard library takes
        return json.dumps(value, default=str)


@contextmanager
def progress(title: str, total: int | None) -> Generator[Callable[[int], None], None, None]:
    """Show how far long work has come, on standard error and only if that is a terminal.

    The function that is lent takes how much is done so far.
    """
    if not sys.stderr.isatty():
        yield _ignore
        return
    from rich.progress import (  # noqa: PLC0415 - slow to load, and rarely needed
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True, markup=False, emoji=False)
    with Progress(*columns, console=console, transient=True) as shown:
        task = shown.add_task(one_line(title, _TITLE_CHARACTERS), total=total)

        def advance(done: int) -> None:
            shown.update(task, completed=done)

        yield advance


def _ignore(done: int) -> None:
    """Show nothing."""
    del done
