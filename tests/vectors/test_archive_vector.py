"""An archive that a JavaScript program wrote: its text, its digests, and the log that it holds."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Final, cast

import pytest

from yielded_core.digest import EMPTY_TAIL_DIGEST, epoch_seal
from yielded_core.log.archive import ArchiveReader
from yielded_core.log.dependencies import dependencies_of
from yielded_core.log.pages import FACT_SECTIONS, FIRST_PAGE_DIGEST, Page, read_page, seal_page
from yielded_core.log.verifier import LogVerifier
from yielded_core.ports.values import CapturedThread, StoredBatch, ThreadTail
from yielded_core.records.bounds import LAST_EPOCH
from yielded_core.records.envelope import encoded_from_wire
from yielded_core.records.identifiers import BatchId, Cursor, Digest, ProducerId, ThreadId
from yielded_testing.suites.archive_pages import parsed_pages, sealed_lines

HERE: Final = Path(__file__).parent
GENERATOR: Final = HERE / "generate_archive.js"
FILE: Final = HERE / "archive.json"
FILE_DIGEST: Final = "a491b6a462eb08a9be4b6d8aeceecb4ce26642ca3058cc70361682c767e1037c"
"""Of `archive.json`, which nothing but `generate_archive.js` writes."""

LINES: Final = [line.encode() for line in cast("list[str]", json.loads(FILE.read_bytes()))]
THREAD: Final = ThreadId("thread \U0001f600")


@pytest.mark.rule("ARC-1", "ARC-2")
def test_the_archive_is_what_the_generator_writes() -> None:
    """Where Node.js is on the machine it runs again; the recorded digest is compared anyway."""
    assert hashlib.sha256(FILE.read_bytes()).hexdigest() == FILE_DIGEST
    node = shutil.which("node")
    if node is not None:
        again = subprocess.run([node, GENERATOR], capture_output=True, check=True, timeout=60)
        assert again.stdout == FILE.read_bytes()


@pytest.mark.rule("ARC-1", "ARC-2", "REC-7")
def test_the_same_pages_are_written_here() -> None:
    vectors = json.loads((HERE / "vectors.json").read_bytes())["thread"]
    batches: list[StoredBatch] = []
    sequence = 0
    for batch in vectors:
        wires = [record["canonical"].encode() for record in batch["records"]]
        records = tuple((encoded_from_wire(wire).record.record_id, wire) for wire in wires)
        first, sequence = sequence + 1, sequence + len(wires)
        batches.append(
            StoredBatch(
                BatchId(batch["batchId"]),
                ProducerId(batch["producerId"]),
                LAST_EPOCH,
                first,
                sequence,
                Digest(batch["contentDigest"]),
                Digest(batch["tailDigest"]),
                records,
                epoch_seal(LAST_EPOCH, batch["contentDigest"], batch["tailDigest"]),
            )
        )
    tail = ThreadTail(THREAD, sequence, batches[-1].tail_digest, LAST_EPOCH)
    captured = CapturedThread(tail, 7)
    previous, previous_tail = FIRST_PAGE_DIGEST, EMPTY_TAIL_DIGEST
    written: list[bytes] = []
    for number, content in enumerate((*batches, *FACT_SECTIONS), 1):
        batch = content if isinstance(content, StoredBatch) else None
        page = Page(
            thread_id=THREAD,
            number=number,
            captured=captured,
            section="batches" if isinstance(content, StoredBatch) else content,
            batch=batch,
            previous_tail_digest=previous_tail,
            facts=(),
            dependencies=() if batch is None else dependencies_of(batch),
            cursor=Cursor(f"cursor-{number}") if number < len(LINES) else None,
            previous_page_digest=previous,
        )
        sealed = seal_page(page)
        written.append(sealed.text)
        previous = sealed.digest
        previous_tail = previous_tail if batch is None else batch.tail_digest
        assert read_page(sealed.text, number) == (page, sealed.digest)
    assert written == LINES


@pytest.mark.rule("ARC-3", "REC-4", "REC-7")
def test_the_archive_verifies() -> None:
    reader = ArchiveReader()
    with LogVerifier(THREAD) as verifier:
        for page in map(reader.read, LINES):
            if page.batch is not None:
                assert verifier.feed(page.batch) is not None
        findings = verifier.finish(reader.finish().tail)
        assert verifier.records == 6
        assert verifier.obligation() is None
    assert {finding.outcome for finding in findings[:6]} == {"passed"}


def test_the_forger_of_the_test_kit_computes_the_same_digests() -> None:
    assert sealed_lines(parsed_pages(LINES)) == LINES
