"""The checker of the ledger storm finds what is wrong with a store or with a story, and names it.

One honest story is told by the adapter itself; each doctor makes one thing in it wrong.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pytest
from ledger_work import LANE
from log_checker import reading

from yielded_core.records.identifiers import ProducerId, settlement_id
from yielded_core.records.payloads import SubmissionSettled
from yielded_storage_sqlite import open_storage
from yielded_testing.storm import Life, check_ledger
from yielded_testing.storm.hand import Hand
from yielded_testing.suites.builders import batch, record

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from yielded_core.ports.values import Batch
    from yielded_testing.storm import Findings
    from yielded_testing.storm.operations import Held, Work


async def play(path: Path, *, settle_again: bool = False) -> Life:
    """Act out the life of four submissions of one lane; the last is aborted while it is queued."""
    life = Life("player")

    def say(**said: object) -> None:
        life.said.append(said)

    async with open_storage(f"sqlite:///{path}") as storage:
        await storage.threads.materialize(LANE, epoch=1)
        hand = Hand(say, storage, "hand", random.Random(0))
        works = [await hand.offer(LANE, number) for number in (1, 2, 3, 4)]
        lost = await claim(hand)
        await hand.apply_input(lost)
        await hand.release(lost)
        held = await claim(hand)
        await hand.abort(works[3], settle=True)
        await hand.act_stale(lost)
        held.input_at = lost.input_at
        for number in (2, 3):
            await hand.apply_input(held)
            await hand.write_note(held, f"note-{number}")
            await hand.renew(held)
            await hand.settle(held, "completed", together=True)
            held = await claim(hand)
        await hand.apply_input(held)
        if settle_again:
            await hand.append(held, second_settlement(works[0], held))
        await hand.settle(held, "completed", together=False)
    return life


async def claim(hand: Hand) -> Held:
    """Claim the lane, which nobody owns."""
    held = await hand.claim(LANE)
    assert held is not None
    return held


def second_settlement(work: Work, held: Held) -> Batch:
    """Return a batch that settles a submission by a record of another name."""
    content = SubmissionSettled(
        submission_id=work.submission,
        settlement_id=settlement_id(work.submission),
        receipt_id=work.receipt,
        outcome="completed",
    )
    return batch("again", record("again", content), producer=ProducerId(held.attempt))


async def test_the_checker_finds_nothing_in_an_honest_story(path: Path) -> None:
    complaints, counts = findings(path, await play(path))
    assert complaints == []
    assert (counts.settlements, counts.grants, counts.queued_aborts) == (4, 4, 1)
    assert (counts.stale_appends, counts.stale_publications, counts.takeovers) == (1, 1, 0)


@pytest.mark.rule("LED-8")
async def test_the_checker_finds_a_second_settlement(path: Path) -> None:
    life = await play(path, settle_again=True)
    assert kinds(path, life) == {"second settlement"}


@pytest.mark.rule("LED-4", "LED-8")
@pytest.mark.parametrize(
    ("lost", "found"), [(True, set[str]()), (False, {"epoch", "producer", "stale"})]
)
async def test_the_checker_knows_what_a_lost_answer_explains(
    path: Path, *, lost: bool, found: set[str]
) -> None:
    """A grant that only its repetition told, and a refusal of what was committed before."""
    life = await play(path)
    granted = find(life, done="claim", epoch=4)
    granted["replayed"] = True
    appended = find(life, done="append", batch="note-2")
    operations = [(granted, "claim"), (appended, "append")]
    for said, operation in operations if lost else ():
        life.said.insert(life.said.index(said), said | {"lost": operation})
        del life.said[life.said.index(said) - 1]["done"]
    del appended["done"]
    appended |= {"refused": "append", "code": "fence-rejected"}
    complaints, counts = findings(path, life)
    assert {each.kind for each in complaints} == found
    assert counts.lost_answers == 2 * lost


def findings(path: Path, life: Life) -> Findings:
    """Return what the checker finds."""
    with reading(path) as query:
        return check_ledger(query, [life])


def kinds(path: Path, life: Life) -> set[str]:
    """Return what the checker complains about."""
    return {complaint.kind for complaint in findings(path, life).complaints}


Doctor: TypeAlias = "Callable[[sqlite3.Connection, Life], object]"
DOCTORS: Final[dict[str, list[Doctor]]] = {}


def doctor(kind: str) -> Callable[[Doctor], Doctor]:
    """Register what makes a store or a story wrong under what it has to be found as."""

    def register(make: Doctor) -> Doctor:
        DOCTORS.setdefault(kind, []).append(make)
        return make

    return register


@doctor("lost")
def lose_a_submission(store: sqlite3.Connection, _: Life) -> None:
    store.execute("DELETE FROM yielded_submissions WHERE queue_sequence = 4")
    store.execute("DELETE FROM yielded_admissions WHERE queue_sequence = 4")


@doctor("admission")
def answer_a_retry_with_other_ids(_: sqlite3.Connection, life: Life) -> None:
    said = find(life, done="admit")
    life.said.append(said | {"submission": find(life, done="admit", place=2)["submission"]})


@doctor("unsettled")
def leave_work_undone(store: sqlite3.Connection, life: Life) -> None:
    store.execute(
        "UPDATE yielded_submissions SET state = 'ready', settled_at = NULL WHERE queue_sequence = 3"
    )
    life.said.remove(find(life, done="finalize"))


@doctor("no settlement")
def settle_without_a_record(store: sqlite3.Connection, life: Life) -> None:
    store.execute(
        "INSERT INTO yielded_submissions"
        " SELECT thread_id, generation, 5, 'fifth', 'receipt', principal, 'fifth', NULL,"
        " input_digest, admission_digest, admitted_at, state, NULL, NULL, NULL, NULL, NULL, NULL,"
        " settlement_id, outcome, settled_at, deferred_at, publisher"
        " FROM yielded_submissions WHERE queue_sequence = 1"
    )
    life.said.append(find(life, begins="admit") | {"key": "fifth"})


@doctor("settlement")
def change_an_outcome(store: sqlite3.Connection, _: Life) -> None:
    store.execute("UPDATE yielded_submissions SET outcome = 'failed' WHERE queue_sequence = 2")


@doctor("publication")
def acknowledge_another_outcome(_: sqlite3.Connection, life: Life) -> None:
    find(life, done="publish", authority="owned")["outcome"] = "failed"


@doctor("append")
def acknowledge_another_place(_: sqlite3.Connection, life: Life) -> None:
    find(life, done="append")["first"] += 1


@doctor("marker")
def move_a_marker(store: sqlite3.Connection, _: Life) -> None:
    store.execute("UPDATE yielded_submissions SET input_sequence = 9 WHERE queue_sequence = 2")


@doctor("epoch granted twice")
def grant_an_epoch_twice(_: sqlite3.Connection, life: Life) -> None:
    for said in (find(life, begins="claim"), find(life, done="claim")):
        life.said.append(said | {"attempt": "another"})
    life.said.append({"begins": "release", "attempt": "another"})


@doctor("epoch")
def raise_an_epoch_unasked(store: sqlite3.Connection, _: Life) -> None:
    store.execute("UPDATE yielded_threads SET epoch = epoch + 1")


@doctor("lower epoch")
def commit_under_a_lower_epoch(store: sqlite3.Connection, life: Life) -> None:
    aborted = find(life, done="publish", authority="queued-abort")["submission"]
    store.execute(
        "UPDATE yielded_batches SET epoch = 2 WHERE batch_id = ?",
        (f"submission-settlement:{aborted}",),
    )


@doctor("tail")
def grant_at_another_tail(_: sqlite3.Connection, life: Life) -> None:
    find(life, done="claim", epoch=4)["digest"] = "f" * 64


@doctor("producer")
def grant_to_another(_: sqlite3.Connection, life: Life) -> None:
    attempt = find(life, done="append", batch="note-3")["attempt"]
    for said in life.said:
        if "claim" in {said.get("begins"), said.get("done")} and said["attempt"] == attempt:
            said["attempt"] = "another"


@doctor("order")
def swap_two_places(store: sqlite3.Connection, life: Life) -> None:
    places = "SET queue_sequence = queue_sequence - 5 WHERE queue_sequence IN (2, 3)"
    for table in ("yielded_submissions", "yielded_admissions"):
        store.execute(f"UPDATE {table} {places}")
        store.execute(
            f"UPDATE {table} SET queue_sequence = -queue_sequence WHERE queue_sequence < 0"
        )
    for said in life.said:
        if said.get("place") in {2, 3}:
            said["place"] = 5 - said["place"]


@doctor("abort")
def abort_unasked(store: sqlite3.Connection, _: Life) -> None:
    store.execute("UPDATE yielded_submissions SET abort_at = NULL")


@doctor("abort")
def abort_what_ran(_: sqlite3.Connection, life: Life) -> None:
    aborted = find(life, done="publish", authority="queued-abort")["submission"]
    find(life, done="claim", epoch=3)["submission"] = aborted


@doctor("stale")
def let_a_stale_append_in(_: sqlite3.Connection, life: Life) -> None:
    for said in life.said:
        if said.get("batch") == "note-2":
            said["stale"] = True


@doctor("stale")
def refuse_for_another_reason(_: sqlite3.Connection, life: Life) -> None:
    find(life, refused="append")["code"] = "append-conflict"


@doctor("lease")
def grant_while_a_lease_is_live(_: sqlite3.Connection, life: Life) -> None:
    life.said.remove(find(life, begins="release"))


@doctor("unasked")
def write_what_nobody_asked_for(_: sqlite3.Connection, life: Life) -> None:
    life.said.remove(find(life, begins="append", batch="note-2"))


def find(life: Life, **what: object) -> dict[str, Any]:
    """Return the first thing that was said and is like this."""
    return next(said for said in life.said if what.items() <= said.items())


@pytest.mark.rule("LED-1", "LED-4", "LED-8", "LED-16")
@pytest.mark.parametrize(
    ("kind", "make"),
    [
        pytest.param(kind, make, id=make.__name__.replace("_", "-"))
        for kind, doctors in DOCTORS.items()
        for make in doctors
    ],
)
async def test_the_checker_finds(path: Path, kind: str, make: Doctor) -> None:
    life = await play(path)
    with closing(sqlite3.connect(path)) as store, store:
        make(store, life)
    assert kinds(path, life) == {kind}
