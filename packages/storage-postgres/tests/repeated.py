"""Operations that are repeated with the same identifiers, and how often they took effect."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias, cast

from yielded_core.records.identifiers import AttemptId, ThreadId
from yielded_testing.suites.builders import EMPTY, PRODUCER, batch, notes
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import LEASE, settlement_of, token

if TYPE_CHECKING:
    from server_side import Place

    from yielded_core.ports.values import Appended
    from yielded_core.ports.work import Grant, Published
    from yielded_storage_postgres.store import PostgresStorage

Answer: TypeAlias = "Appended | Grant | Published"


class Case(Protocol):
    """An operation that can be done once, on a thread of its own."""

    async def run(self, storage: PostgresStorage) -> Answer:
        """Do it, or do it again: always with the same identifiers."""
        ...

    async def check(self, place: Place, answer: Answer) -> None:
        """Find exactly one effect in the tables, and that it is what was answered."""
        ...


@dataclass(frozen=True)
class Append:
    """A batch of two records."""

    thread: ThreadId

    @staticmethod
    async def prepared(storage: PostgresStorage, thread: ThreadId) -> Append:
        """Make the thread, empty."""
        await storage.threads.materialize(thread, epoch=1)
        return Append(thread)

    async def run(self, storage: PostgresStorage) -> Answer:
        given = batch("batch", *notes("note", 2, "some details"))
        return await storage.threads.append(self.thread, given, expected=EMPTY, epoch=1)

    async def check(self, place: Place, answer: Answer) -> None:
        assert await log_of(place, self.thread) == [("batch", "note-1"), ("batch", "note-2")]
        assert answer.tail.sequence == 2
        assert await digest_of(place, self.thread) == answer.tail.digest


@dataclass(frozen=True)
class Claim:
    """The one ready submission of a lane."""

    lane: LaneScript

    @staticmethod
    async def prepared(storage: PostgresStorage, thread: ThreadId) -> Claim:
        """Bring a submission to be ready."""
        lane = await LaneScript.begin(storage, thread)
        await lane.ready("key-1")
        return Claim(lane)

    async def run(self, storage: PostgresStorage) -> Answer:
        found = await storage.ledger.claim(
            self.lane.thread, attempt=AttemptId("attempt-1"), token=token("1-1"), lease=LEASE
        )
        assert found is not None, "the claim is neither granted nor repeated"
        return found

    async def check(self, place: Place, answer: Answer) -> None:
        row = await place.raw.fetchrow(
            "SELECT epoch, owner_epoch, owner_attempt, owner_submission, lease_expires_at"
            " FROM yielded_threads WHERE thread_id = $1",
            self.lane.thread,
        )
        expires = getattr(answer, "expires_at", 0)
        assert row is not None
        assert tuple(row) == (2, 2, "attempt-1", self.lane.id("key-1"), expires)
        assert (await self.lane.see("key-1")).state == "running"


@dataclass(frozen=True)
class Publish:
    """The settlement of an owned submission, finalized in the same transaction."""

    lane: LaneScript

    @staticmethod
    async def prepared(storage: PostgresStorage, thread: ThreadId) -> Publish:
        """Bring a submission to be owned."""
        lane = await LaneScript.begin(storage, thread)
        await lane.run("key-1")
        return Publish(lane)

    async def run(self, storage: PostgresStorage) -> Answer:
        return await storage.settlements.publish(
            self.lane.thread,
            settlement_of(self.lane.receipts["key-1"]),
            producer=PRODUCER,
            token=self.lane.token,
            authority="owned",
            finalize=True,
        )

    async def check(self, place: Place, answer: Answer) -> None:
        submission = self.lane.id("key-1")
        names = (f"submission-settlement:{submission}", f"settlement:{submission}")
        assert await log_of(place, self.lane.thread) == [names]
        assert await digest_of(place, self.lane.thread) == answer.tail.digest
        found = await self.lane.see("key-1")
        assert (found.state, found.settled and found.settled.settlement_id) == ("settled", names[1])


async def log_of(place: Place, thread: ThreadId) -> list[tuple[str, str]]:
    """Return every record of a thread, with the batch that it is of, in order."""
    rows = await place.raw.fetch(
        "SELECT batch_id, record_id FROM yielded_records JOIN yielded_batches"
        " USING (thread_id, generation) WHERE thread_id = $1"
        " AND sequence BETWEEN first_sequence AND last_sequence ORDER BY sequence, batch_id",
        thread,
    )
    batches = await place.raw.fetchval(
        "SELECT count(*) FROM yielded_batches WHERE thread_id = $1", thread
    )
    found = [(str(row[0]), str(row[1])) for row in rows]
    assert batches == len({name for name, _ in found})
    return found


async def digest_of(place: Place, thread: ThreadId) -> str:
    """Return the digest of the tail that the thread's row has."""
    return str(
        await place.raw.fetchval(
            "SELECT encode(tail_digest, 'hex') FROM yielded_threads WHERE thread_id = $1", thread
        )
    )


KINDS: Final[dict[str, type[Append | Claim | Publish]]] = {
    "append": Append,
    "claim": Claim,
    "publish": Publish,
}
"""Each kind by its name; `prepared` brings a new thread to where it is possible."""


def without_replay(answer: object) -> Answer:
    """Return an answer as it was at the first time."""
    return replace(cast("Answer", answer), replayed=False)
