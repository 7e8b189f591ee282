"""The steps of the demonstration; each one is carried out for real and then told in one line."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from yielded_core.cli.demo.plan import Order, make_plan
from yielded_core.cli.demo.process import Finished, Killed, WriterFailed, WriterProcess
from yielded_core.cli.demo.transcript import lines_of
from yielded_core.cli.safe_text import count, short
from yielded_core.errors import FenceRejected, InvalidArgument, RecordNotFound
from yielded_core.records.bounds import PAGE_RECORDS
from yielded_core.records.fields import instant_now
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage
from yielded_core.transfer.export import export_pages
from yielded_core.transfer.files import read_archive, write_archive
from yielded_core.transfer.importing import import_archive
from yielded_core.transfer.offload import off_loop
from yielded_core.transfer.verify import verify_thread

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from yielded_core.cli.demo.transcript import Message
    from yielded_core.ports.values import Verification
    from yielded_core.records.identifiers import RecordId

ATTEMPTS: Final = 12
"""How often a writer is started until a kill falls inside an append and not between two."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, whether it held, a line for people, and the numbers for machines."""

    name: str
    ok: bool
    text: str
    facts: dict[str, object] = field(default_factory=dict[str, object])


class Story:
    """One run of the demonstration on a store, with its other files in a folder."""

    def __init__(self, messages: Sequence[Message], store: str | None, folder: Path) -> None:
        self._messages = messages
        self._lines = lines_of(messages)
        self.archive = folder / "demo.jsonl.zst"
        self._copy = sqlite_url(folder / "copy.db")
        thread = "demo" if store is None else f"demo-{uuid.uuid4().hex[:8]}"
        self.url = store or sqlite_url(folder / "demo.db")
        self.order = Order(ThreadId(thread), 1, instant_now())
        self._plan = make_plan(messages, self.order.started)

    def steps(self) -> Iterator[Step]:
        """Carry out the steps in order and tell each; after one that failed there is no other.

        Raises YieldedError where the store itself fails.
        """
        try:
            with WriterProcess(self.url) as first, WriterProcess(self.url) as second:
                asyncio.run(self._check_store())  # while the two get ready
                for step in self._in_order(first, second):
                    yield step
                    if not step.ok:
                        return
        except WriterFailed as error:
            yield Step("writer", ok=False, text=f"A writer failed: {error}")

    def _in_order(self, first: WriterProcess, second: WriterProcess) -> Iterator[Step]:
        yield self._read_step()
        killed = self._kill(first)
        yield self._killed_step(killed)
        if killed.inside is None:
            return
        yield asyncio.run(self._reopened(killed.inside))
        finished = second.finish(replace(self.order, epoch=self._next_epoch), self._lines)
        yield asyncio.run(self._taken_over(finished))
        yield asyncio.run(self._fenced(killed))
        original = asyncio.run(_verified(self.url, self.order.thread))
        yield _verified_step("verify", "Verified the chain", original)
        yield asyncio.run(self._moved())
        copied = asyncio.run(_verified(self._copy, self.order.thread))
        yield _compared_step(original, copied)

    async def _check_store(self) -> None:
        async with open_storage(self.url) as storage:
            if (await storage.info()).durability == "non-durable":
                reason = "two processes must be able to open it; take sqlite:///demo.db"
                raise InvalidArgument("--store", reason)

    def _read_step(self) -> Step:
        messages, appends = len(self._messages), len(self._plan.appends)
        return Step(
            "read",
            ok=True,
            text=f"Read {count(messages, 'message')}, to be written in {count(appends, 'append')}",
            facts={"messages": messages, "appends": appends},
        )

    def _kill(self, first: WriterProcess) -> Killed:
        """Kill a writer inside an append; where a kill fell between two, go on with another one.

        Each writer has a thread of its own. It is killed in the first third, so that one that is
        quicker than the kill is still appending when it comes.
        """
        append = (len(self._plan.appends) + 2) // 3
        thread = self.order.thread
        killed = first.kill_inside(append, self.order, self._lines)
        for attempt in range(2, ATTEMPTS + 1):
            if killed.inside is not None:
                break
            self.order = replace(self.order, thread=ThreadId(f"{thread}-{attempt}"))
            with WriterProcess(self.url) as writer:
                killed = writer.kill_inside(append, self.order, self._lines)
        return killed

    def _killed_step(self, killed: Killed) -> Step:
        appends = len(self._plan.appends)
        if killed.inside is None:
            text = f"No kill fell inside an append in {ATTEMPTS} attempts; try again"
            return Step("kill", ok=False, text=text)
        text = (
            f"Process {killed.pid} appended {killed.acknowledged} of {appends}, "
            f"and was killed (SIGKILL) inside append {killed.inside}"
        )
        facts = {"process": killed.pid, "acknowledged": killed.acknowledged}
        return Step("kill", ok=True, text=text, facts={**facts, "inside": killed.inside})

    async def _reopened(self, inside: int) -> Step:
        """Look at what the killed writer left: the append that it was in is there whole or not."""
        append = self._plan.appends[inside - 1]
        async with open_storage(self.url) as storage:
            tail = await storage.threads.tail(self.order.thread)
            self.order = replace(self.order, epoch=tail.epoch)  # higher in a restored store
            there: list[RecordId] = []
            for encoded in append.records:
                try:
                    found = await storage.threads.get_record(
                        self.order.thread, encoded.record.record_id
                    )
                except RecordNotFound:
                    continue
                there.append(found.record.record_id)
        committed = len(there) == len(append.records)
        whole = committed or not there
        expected = self._plan.ends[inside - 1] if committed else self._ended(inside - 1)
        ok = whole and tail.sequence == expected
        fate = "is there whole" if committed else "left no trace"
        return Step(
            "reopen",
            ok=ok,
            text=f"Opened the store again: append {inside} {fate if whole else 'is partial'}, "
            f"the log ends at record {tail.sequence}",
            facts={"append": inside, "committed": committed, "sequence": tail.sequence},
        )

    async def _taken_over(self, finished: Finished) -> Step:
        """Compare every record of the log with the transcript."""
        found: list[RecordId] = []
        async with open_storage(self.url) as storage:
            while page := await storage.threads.read(self.order.thread, after=len(found)):
                found += [stored.record.record_id for stored in page]
                if len(page) < PAGE_RECORDS:
                    break
        ok = tuple(found) == self._plan.records
        return Step(
            "take-over",
            ok=ok,
            text=f"Process {finished.pid} took over (epoch {self._next_epoch}): "
            f"{finished.found} found, {finished.appended} appended, "
            f"{'no gap, no repeat' if ok else 'the log is wrong'}",
            facts={
                "process": finished.pid,
                "found": finished.found,
                "replayed": finished.replayed,
                "appended": finished.appended,
            },
        )

    async def _fenced(self, killed: Killed) -> Step:
        """Send what the killed writer was sending, once more and as late as can be."""
        number = killed.inside or 1
        late = self._plan.appends[number - 1]
        async with open_storage(self.url) as storage:
            before = await storage.threads.tail(self.order.thread)
            try:
                await storage.threads.append(
                    self.order.thread, late, expected=before.tail, epoch=self.order.epoch
                )
            except FenceRejected as error:
                after = await storage.threads.tail(self.order.thread)
                return Step(
                    "fence",
                    ok=after == before,
                    text=f"A late append {number} from the killed writer (epoch "
                    f"{error.attempted}) was fenced: {type(error).__name__}",
                    facts={"code": error.code, **error.fields()},
                )
        return Step("fence", ok=False, text=f"The late append {number} was not refused")

    async def _moved(self) -> Step:
        """Export the thread to a file, and import that into a new store."""
        thread = self.order.thread
        pages = 0
        async with (
            open_storage(self.url) as storage,
            write_archive(self.archive) as archive,
            aclosing(export_pages(storage, thread)) as exported,
        ):
            async for page in exported:
                await archive.write(page.text)
                pages += 1
        async with open_storage(self._copy) as copy, aclosing(read_archive(self.archive)) as lines:
            imported = await import_archive(copy, lines)
        size = await off_loop(lambda: self.archive.stat().st_size)
        return Step(
            "move",
            ok=True,
            text=f"Exported {count(pages, 'page')} ({size:,} bytes), and imported them "
            "into a new store",
            facts={"pages": pages, "bytes": size, "sequence": imported.sequence},
        )

    @property
    def _next_epoch(self) -> int:
        return self.order.epoch + 1

    def _ended(self, append: int) -> int:
        return self._plan.ends[append - 1] if append else 0


async def _verified(url: str, thread: ThreadId) -> Verification:
    async with open_storage(url) as storage:
        return await verify_thread(storage, thread)


def _verified_step(name: str, what: str, found: Verification) -> Step:
    failed = [finding.invariant for finding in found.findings if finding.outcome == "failed"]
    outcome = f"broken: {', '.join(failed)}" if failed else f"tail {short(found.tail.digest)}"
    return Step(
        name,
        ok=found.ok,
        text=f"{what}: {count(found.records, 'record')}, {outcome}",
        facts={"records": found.records, "tailDigest": found.tail.digest, "failed": failed},
    )


def _compared_step(original: Verification, copied: Verification) -> Step:
    step = _verified_step("verify-copy", "Verified the copy", copied)
    same = original.tail == copied.tail
    text = f"{step.text}, {'the same' if same else 'NOT the same'}"
    return replace(step, ok=step.ok and same, text=text, facts={**step.facts, "same": same})


def sqlite_url(path: Path) -> str:
    """Return the URL of a SQLite file."""
    return f"sqlite:///{quote(str(path.absolute()))}"
