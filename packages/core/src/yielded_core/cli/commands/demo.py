"""`yielded demo`: the main job, done before the eyes of a newcomer."""

from __future__ import annotations

import shlex
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.text import Text

from yielded_core.cli.demo.story import Story
from yielded_core.cli.demo.transcript import read_transcript
from yielded_core.cli.exits import ExitCode
from yielded_core.cli.options import JsonOption, StoreOption, chosen
from yielded_core.cli.output import Output, flush
from yielded_core.cli.safe_text import visible
from yielded_core.cli.stores import redacted
from yielded_core.errors import InvalidArgument

if TYPE_CHECKING:
    from yielded_core.cli.demo.story import Step


class Ending(NamedTuple):
    """How the demonstration ended, and what is left of it."""

    held: bool
    seconds: float
    thread: str
    store: str | None
    archive: Path | None


def command(
    context: typer.Context,
    transcript: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE", help="JSON Lines of role and content messages."),
    ] = None,
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="DIR", help="Keep the files, in a new folder.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Kill a writer in mid-append and see the log survive it.

    A process writes a chat to a thread and is killed. Another one takes over, the late append of
    the first is refused, and the thread is verified, exported, imported and verified again.
    """
    options = chosen(context, store, as_json)
    messages = read_transcript(transcript)
    began = time.monotonic()
    with ExitStack() as resources:
        folder = _folder(keep, resources)
        story = Story(messages, options.store, folder)
        output = options.output()
        held = True
        for step in story.steps():
            _tell(output, step)
            held = held and step.ok
        _end(
            output,
            Ending(
                held=held,
                seconds=time.monotonic() - began,
                thread=story.order.thread,
                store=redacted(story.url) if keep or options.store else None,
                archive=story.archive if keep else None,
            ),
        )
    if not held:
        raise typer.Exit(ExitCode.CHECK_FAILED)


def _folder(keep: Path | None, resources: ExitStack) -> Path:
    if keep is None:
        return Path(resources.enter_context(tempfile.TemporaryDirectory(prefix="yielded-demo-")))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InvalidArgument("--keep", "it exists and is no empty folder")
    keep.mkdir(parents=True, exist_ok=True)
    return keep


def _tell(output: Output, step: Step) -> None:
    if output.as_json:
        output.document({"step": step.name, "ok": step.ok, "text": step.text, **step.facts})
    else:
        output.item(_mark(ok=step.ok), step.text)
    flush()


def _end(output: Output, ending: Ending) -> None:
    if output.as_json:
        output.document(
            {
                "step": "end",
                "ok": ending.held,
                "seconds": round(ending.seconds, 3),
                "thread": ending.thread,
                "store": ending.store,
            }
        )
        return
    if ending.held:
        output.paragraph(Text(f"Every step held, in {ending.seconds:.1f} s.", style="bold"))
    if ending.store is None:
        output.paragraph("To keep the files and look around: yielded demo --keep demo")
        return
    output.paragraph("Look around:")
    for line in _next_commands(ending.store, ending.thread, ending.archive):
        output.paragraph(f"  {visible(line)}")


def _next_commands(store: str, thread: str, archive: Path | None) -> list[str]:
    file = [] if archive is None else [f"yielded verify --file {shlex.quote(str(archive))}"]
    return [
        f"export YIELDED_STORE={shlex.quote(store)}",
        f"yielded log {thread}",
        f"yielded verify {thread}",
        *file,
        "yielded info",
    ]


def _mark(*, ok: bool) -> Text:
    """Return a mark that the terminal's encoding has."""
    mark = "✓" if ok else "✗"
    try:
        mark.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        mark = "ok" if ok else "FAILED"
    return Text(mark, "green" if ok else "bold red")
