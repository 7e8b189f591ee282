"""`yielded import`: an archive file becomes a thread (ARC-4, ARC-5)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from yielded_core.cli.commands.threads import tail_document
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.output import progress
from yielded_core.cli.safe_text import count, short, visible
from yielded_core.errors import ImportRefused
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage
from yielded_core.transfer.files import read_archive
from yielded_core.transfer.importing import import_archive

if TYPE_CHECKING:
    from yielded_core.ports.values import ThreadTail
    from yielded_core.storage import Storage


def command(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The archive file.")],
    discard: Annotated[
        bool,
        typer.Option("--discard", help="Forget another import of the thread that did not end."),
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Install an archive file as a thread of a store.

    The store is created if need be. All of the archive is verified before anything is visible; an
    import that was interrupted goes on where it was when it is called again.
    """
    asyncio.run(_import(chosen(context, store, as_json), file, discard=discard))


async def _import(options: Chosen, file: Path, *, discard: bool) -> None:
    with file.open("rb"):
        pass  # a file that is not there must not leave an empty store behind
    async with open_storage(options.url) as storage:
        try:
            tail = await _installed(storage, file)
        except ImportRefused as refusal:
            if refusal.reason != "in-progress" or not discard:
                raise
            await storage.archives.discard_import(ThreadId(refusal.thread))
            tail = await _installed(storage, file)
    output = options.output()
    if output.as_json:
        output.document(tail_document(tail))
        return
    output.paragraph(
        f"Imported {visible(tail.thread_id)}: {count(tail.sequence, 'record')}, "
        f"tail {short(tail.digest)}."
    )


async def _installed(storage: Storage, file: Path) -> ThreadTail:
    with progress(f"import {file.name}", None) as advance:
        async with aclosing(read_archive(file)) as lines:
            return await import_archive(storage, lines, on_page=advance)
