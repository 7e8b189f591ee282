"""`yielded export`: a thread becomes an archive file (ARC-2, ARC-5)."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from yielded_core.cli.options import Chosen, JsonOption, StoreOption, ThreadArgument, chosen
from yielded_core.cli.output import progress, write_bytes
from yielded_core.cli.safe_text import count
from yielded_core.cli.stores import existing_store
from yielded_core.errors import InvalidArgument
from yielded_core.records.identifiers import ThreadId
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.files import write_archive
from yielded_core.transfer.offload import off_loop

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.storage import Storage

_STANDARD_OUTPUT: Final = "-"


def command(
    context: typer.Context,
    thread: ThreadArgument,
    file: Annotated[
        str,
        typer.Argument(
            metavar="FILE",
            help="The archive: .jsonl, .jsonl.zst or .jsonl.gz; - is standard output.",
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write a thread to an archive file.

    The thread as it is now, compressed as the name of the file says. The file has its name only
    once it is complete.
    """
    options = chosen(context, store, as_json)
    if file == _STANDARD_OUTPUT and options.as_json:
        message = "the archive goes to standard output, where --json would write too"
        raise typer.BadParameter(message, param_hint="FILE")
    if file != _STANDARD_OUTPUT and os.path.lexists(file) and not force:
        raise InvalidArgument("FILE", "it exists; give --force to replace it")
    asyncio.run(_export(options, ThreadId(thread), file))


async def _export(options: Chosen, thread: ThreadId, file: str) -> None:
    async with existing_store(options.url) as storage:
        if file == _STANDARD_OUTPUT:
            await _pages(storage, thread, _to_standard_output)
            sys.stdout.buffer.flush()
            return
        async with write_archive(file) as archive:
            pages, records = await _pages(storage, thread, archive.write)
    size = await off_loop(lambda: Path(file).stat().st_size)
    output = options.output()
    if output.as_json:
        counts = {"pages": pages, "records": records, "bytes": size}
        output.document({"thread": thread, "file": file, **counts})
        return
    output.paragraph(
        f"Exported {count(records, 'record')} in {count(pages, 'page')}, {size:,} bytes."
    )


async def _pages(
    storage: Storage, thread: ThreadId, write: Callable[[bytes], Awaitable[None]]
) -> tuple[int, int]:
    """Hand over every page; return how many there were, and how many records they held."""
    pages, records = 0, 0
    tail = await storage.threads.tail(thread)
    with progress(f"export {thread}", tail.sequence) as advance:
        async with aclosing(export_pages(storage, thread)) as exported:
            async for page in exported:
                await write(page.text)
                pages += 1
                records = page.last_sequence or records
                advance(records)
    return pages, records


async def _to_standard_output(page: bytes) -> None:
    write_bytes(page + b"\n")
