"""`yielded verify`: the whole log again, from the empty tail on (ARC-3)."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from yielded_core.cli.exits import ExitCode
from yielded_core.cli.listing import counted, threads_of
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.output import Output, error_document, progress
from yielded_core.cli.safe_text import count, short, visible
from yielded_core.cli.stores import existing_store
from yielded_core.errors import ArchiveRefused, ThreadDeleted
from yielded_core.records.identifiers import ThreadId
from yielded_core.transfer.files import read_archive
from yielded_core.transfer.verify import verify_archive, verify_thread

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from yielded_core.ports.values import Verification
    from yielded_core.storage import Storage

_STYLES = {"passed": "green", "failed": "bold red", "skipped": "dim"}


def command(
    context: typer.Context,
    threads: Annotated[
        list[str] | None, typer.Argument(metavar="[THREAD]...", help="The ids of the threads.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every thread.")] = False,
    file: Annotated[
        Path | None,
        typer.Option("--file", metavar="ARCHIVE", help="Verify an archive file, without a store."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Verify threads, or an archive file, from the first record on.

    Recomputes the digest chain and checks every record and every rule that spans records. Ends with
    exit code 1 if anything is wrong.
    """
    options = chosen(context, store, as_json)
    named = [ThreadId(thread) for thread in threads or ()]
    if bool(named) + every + (file is not None) != 1:
        raise typer.BadParameter("name threads, or give --all or --file", param_hint="THREAD")
    if not asyncio.run(_verify(options, named, file)):
        raise typer.Exit(ExitCode.CHECK_FAILED)


async def _verify(options: Chosen, named: list[ThreadId], file: Path | None) -> bool:
    output = options.output()
    if file is not None:
        return await _verify_file(output, file)
    right = True
    async with existing_store(options.url) as storage:
        async for thread in _chosen_threads(storage, named):
            try:
                tail = await storage.threads.tail(thread)
                with progress(f"verify {thread}", tail.sequence) as advance:
                    found = await verify_thread(storage, thread, on_records=advance)
            except ThreadDeleted:
                if named:
                    raise
                continue  # since it was listed
            _show(output, found)
            right = right and found.ok
    return right


async def _chosen_threads(
    storage: Storage, named: list[ThreadId]
) -> AsyncGenerator[ThreadId, None]:
    for thread in named:
        yield thread
    if not named:
        async for tail in threads_of(storage):
            yield tail.thread_id


async def _verify_file(output: Output, file: Path) -> bool:
    try:
        with progress(f"verify {file.name}", None) as advance:
            async with aclosing(counted(read_archive(file), advance)) as lines:
                found = await verify_archive(lines)
    except ArchiveRefused as error:
        if output.as_json:
            output.document({"file": str(file), "ok": False, **error_document(error)})
        else:
            output.paragraph(Text.assemble(("failed", "bold red"), f"  {visible(str(error))}"))
        return False
    _show(output, found, file=file)
    return found.ok


def _show(output: Output, found: Verification, file: Path | None = None) -> None:
    if output.as_json:
        output.document(_document(found, file))
        return
    outcome = ("ok", "bold green") if found.ok else ("DAMAGED", "bold red")
    extent = f"{count(found.records, 'record')}, {found.wire_bytes:,} bytes"
    output.paragraph(Text.assemble((visible(found.thread_id), "bold"), ": ", outcome))
    output.paragraph(f"  {extent}, tail {short(found.tail.digest)}")
    width = max(len(finding.invariant) for finding in found.findings)
    for finding in found.findings:
        outcome = (f"{finding.outcome:8}", _STYLES[finding.outcome])
        output.item(Text.assemble("  ", outcome, f"{finding.invariant:{width}} "), finding.detail)


def _document(found: Verification, file: Path | None) -> dict[str, object]:
    return {
        **({} if file is None else {"file": str(file)}),
        "thread": found.thread_id,
        "ok": found.ok,
        "records": found.records,
        "batches": found.batches,
        "wireBytes": found.wire_bytes,
        "tailDigest": found.tail.digest,
        "findings": [
            {"invariant": each.invariant, "outcome": each.outcome, "detail": each.detail}
            for each in found.findings
        ],
    }
