"""Cases of children: what a parent reserves, and how it hears of their settlements (LED-14)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest

from yielded_core.errors import ChildReservationConflict, EvidenceFault, OwnershipLost
from yielded_core.ports.work import AwaitedChild, Reservation
from yielded_core.records.identifiers import Digest, SubmissionId, ThreadId, ToolCallId
from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_operations import CHILD, DIGEST
from yielded_testing.suites.ledger_values import CALL, LEASE, STATES, token

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from yielded_core.ports.work import State
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

OTHER_DIGEST: Final = Digest("b" * 64)
SPENT: Final[JsonValue] = {"tokens": 10}

PREFIXES: Final = {
    "none": (),
    "reserved": ("reserve",),
    "attached": ("reserve", "attach"),
    "releasing": ("reserve", "begin"),
    "releasing a child": ("reserve", "attach", "begin"),
    "released": ("reserve", "begin", "release"),
    "released with a child": ("reserve", "attach", "begin", "release"),
}
"""How a reservation comes to be where it is."""
STATUSES: Final = {
    "none": "none",
    "reserved": "reserved",
    "attached": "attached",
    "releasing": "releasing",
    "releasing a child": "releasing",
    "released": "released",
    "released with a child": "released",
}
AFTER: Final = {
    ("none", "reserve"): "reserved",
    ("none", "reserve otherwise"): "reserved",
    ("reserved", "attach"): "attached",
    ("reserved", "attach another"): "attached",
    ("reserved", "begin"): "releasing",
    ("reserved", "begin otherwise"): "releasing",
    ("attached", "begin"): "releasing",
    ("attached", "begin otherwise"): "releasing",
    ("releasing", "release"): "released",
    ("releasing a child", "release"): "released",
}
"""The status after an operation that changes something."""
REPEATS: Final = {
    *((prefix, "reserve") for prefix in PREFIXES if prefix != "none"),
    ("attached", "attach"),
    ("releasing a child", "attach"),
    ("released with a child", "attach"),
    *((prefix, "begin") for prefix in PREFIXES if prefix.startswith("releas")),
    ("released", "release"),
    ("released with a child", "release"),
}
"""What repeats something that was done: the same answer, and nothing changes."""
OPERATIONS: Final = (
    "reserve",
    "reserve otherwise",
    "attach",
    "attach another",
    "begin",
    "begin otherwise",
    "release",
)


def change(lane: LaneScript, operation: str, call: str = CALL) -> Awaitable[Reservation]:
    """Change the reservation of a call of the submission `parent`."""
    ledger, parent = lane.ledger, lane.id("parent")
    common: dict[str, Any] = {"token": lane.token, "call": call}
    verb, _, otherwise = operation.partition(" ")
    if verb == "reserve":
        digest = OTHER_DIGEST if otherwise else DIGEST
        return ledger.reserve_child(
            lane.thread, parent, reservation_id=f"r-{call}"[:64], digest=digest, **common
        )
    if verb == "attach":
        child = AwaitedChild(CHILD.thread_id, SubmissionId("another")) if otherwise else CHILD
        return ledger.attach_child(lane.thread, parent, child=child, **common)
    if verb == "begin":
        spent: JsonValue = {"tokens": 11} if otherwise else SPENT
        return ledger.begin_release(lane.thread, parent, accounting=spent, **common)
    return ledger.release_child(lane.thread, parent, **common)


async def parent_lane(storage: Storage) -> LaneScript:
    """Return a lane whose owned submission is `parent`."""
    lane = await LaneScript.begin(storage)
    await lane.run("parent")
    return lane


async def held(lane: LaneScript) -> tuple[Reservation, ...]:
    """Return the reservations of `parent`."""
    return (await lane.snapshot("parent")).reservations


class ReservationCases:
    """LED-14: reserved, attached, releasing, released; each step once and in order."""

    @pytest.mark.rule("LED-14")
    @pytest.mark.parametrize("operation", OPERATIONS)
    @pytest.mark.parametrize("prefix", list(PREFIXES))
    async def test_steps_are_idempotent_and_ordered(
        self, storage: Storage, prefix: str, operation: str
    ) -> None:
        """A step changes the status, or repeats, or is refused with the status as it is."""
        lane = await parent_lane(storage)
        for step in PREFIXES[prefix]:
            await change(lane, step)
        before, version = await held(lane), await lane.version()
        work = change(lane, operation)
        if (prefix, operation) in AFTER:
            after = await work
            assert after.status == AFTER[prefix, operation]
            assert await held(lane) == (after,)
            assert await lane.version() > version
        elif (prefix, operation) in REPEATS:
            assert (await lane.unmoved(work),) == before
        else:
            conflict = await lane.refuses(ChildReservationConflict, work)
            assert (conflict.submission, conflict.call) == (lane.id("parent"), CALL)
            assert conflict.status == STATUSES[prefix]

    @pytest.mark.rule("LED-14")
    async def test_a_reservation_shows_all_that_was_said(self, storage: Storage) -> None:
        """Its id, its digest, its child, and the accounting from the begin of its release on."""
        lane = await parent_lane(storage)
        expected = Reservation(CALL, f"r-{CALL}", DIGEST)
        assert await change(lane, "reserve") == expected
        expected = Reservation(CALL, f"r-{CALL}", DIGEST, "attached", CHILD)
        assert await change(lane, "attach") == expected
        expected = Reservation(CALL, f"r-{CALL}", DIGEST, "releasing", CHILD, SPENT)
        assert await change(lane, "begin") == expected
        expected = Reservation(CALL, f"r-{CALL}", DIGEST, "released", CHILD, SPENT)
        assert await change(lane, "release") == expected
        assert await held(lane) == (expected,)

    @pytest.mark.rule("LED-14")
    async def test_accounting_is_frozen_as_a_value(self, storage: Storage) -> None:
        """An equal value in another spelling is the same, null is a value too."""
        lane = await parent_lane(storage)
        frozen: dict[str, tuple[JsonValue, JsonValue, JsonValue]] = {
            "a": ({"x": 1, "y": [2]}, {"y": [2.0], "x": 1.0}, {"x": 1}),
            "b": (None, None, 0),
        }
        for call, (first, same, other) in frozen.items():
            await change(lane, "reserve", call)
            where: dict[str, Any] = {"token": lane.token, "call": call}
            begin, parent = storage.ledger.begin_release, lane.id("parent")
            await begin(THREAD, parent, accounting=first, **where)
            again = await lane.unmoved(begin(THREAD, parent, accounting=same, **where))
            assert again.accounting == first
            wrong = begin(THREAD, parent, accounting=other, **where)
            assert (await lane.refuses(ChildReservationConflict, wrong)).status == "releasing"

    @pytest.mark.rule("LED-14")
    async def test_each_call_has_a_reservation_of_its_own(self, storage: Storage) -> None:
        """Listed by call; the steps of one leave the others where they are."""
        lane = await parent_lane(storage)
        for call in ("c", "a", "b"):
            await change(lane, "reserve", call)
        await change(lane, "attach", "a")
        await change(lane, "begin", "c")
        found = [(each.tool_call_id, each.status) for each in await held(lane)]
        assert found == [("a", "attached"), ("b", "reserved"), ("c", "releasing")]

    @pytest.mark.rule("LED-14", "LED-6")
    async def test_reservations_pass_to_the_next_owner(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Who repeats and goes on with them; the old owner does nothing any more."""
        lane = await parent_lane(storage)
        await change(lane, "reserve")
        clock.advance(LEASE)
        other = lane.another("2")
        await other.claim()
        for operation in OPERATIONS:
            await lane.refuses(OwnershipLost, change(lane, operation))
        assert (await lane.unmoved(change(other, "reserve"))).status == "reserved"
        assert (await change(other, "attach")).status == "attached"

    @pytest.mark.rule("LED-14")
    async def test_a_call_has_one_reservation(self, storage: Storage) -> None:
        """The same digest under another id is another reservation, and a conflict."""
        lane = await parent_lane(storage)
        await change(lane, "reserve")
        other = storage.ledger.reserve_child(
            THREAD,
            lane.id("parent"),
            token=lane.token,
            call=CALL,
            reservation_id="another",
            digest=DIGEST,
        )
        assert (await lane.refuses(ChildReservationConflict, other)).status == "reserved"

    @pytest.mark.rule("LED-14", "LED-8")
    @pytest.mark.parametrize("by", ["nobody", "the last owner", "somebody else"])
    async def test_a_settled_parent_gives_back_what_it_holds(
        self, storage: Storage, by: str
    ) -> None:
        """It has no owner any more, so no token is asked for; it takes nothing new."""
        lane = await parent_lane(storage)
        await change(lane, "reserve")
        await change(lane, "reserve", "attached")
        await change(lane, "attach", "attached")
        owner = {"nobody": None, "the last owner": lane.token}.get(by, token("foreign"))
        await lane.settle("parent")
        parent, free = lane.id("parent"), storage.ledger.release_child
        for call in (CALL, ToolCallId("attached")):
            early = free(THREAD, parent, token=owner, call=call)
            await lane.refuses(ChildReservationConflict, early)
            begun = await storage.ledger.begin_release(
                THREAD, parent, token=owner, call=call, accounting=SPENT
            )
            assert begun.status == "releasing"
            assert (await free(THREAD, parent, token=owner, call=call)).status == "released"
        for operation in ("reserve", "reserve otherwise", "attach"):
            await lane.refuses(OwnershipLost, change(lane, operation))
            await lane.refuses(OwnershipLost, change(lane, operation, "new"))
        assert (await lane.see("parent")).state == "settled"

    @pytest.mark.rule("LED-14", "LED-16")
    async def test_one_of_many_children_is_attached(self, storage: Storage) -> None:
        """Of 12 at once one is attached, its repeat is answered, the others are refused."""
        lane = await parent_lane(storage)
        await change(lane, "reserve")
        outcomes = await asyncio.gather(
            *(
                storage.ledger.attach_child(
                    THREAD,
                    lane.id("parent"),
                    token=lane.token,
                    call=CALL,
                    child=AwaitedChild(ThreadId(f"child-{number % 6}"), CHILD.submission_id),
                )
                for number in range(12)
            ),
            return_exceptions=True,
        )
        done = [each for each in outcomes if isinstance(each, Reservation)]
        lost = [each for each in outcomes if isinstance(each, ChildReservationConflict)]
        assert (len(done), len(lost)) == (2, 10)
        assert done[0] == done[1] == (await held(lane))[0]


class ChildWakeCases:
    """LED-14 and LED-11: a child's canonical settlement, and the parent that waits for it."""

    @pytest.mark.rule("LED-14", "LED-11")
    @pytest.mark.parametrize("settled", [False, True])
    @pytest.mark.parametrize("applied", [False, True])
    async def test_a_published_child_wakes_its_parent(
        self, storage: Storage, *, applied: bool, settled: bool
    ) -> None:
        """Published is enough, finalized or not; the parent can be claimed where it was."""
        lane = await parent_lane(storage)
        if applied:
            await lane.apply_input("parent")
        other, child = await child_lane(storage, "child")
        assert await lane.await_children("parent", child) == "suspended"
        await other.publish("child", finalize=settled)
        told = storage.ledger.record_child_settled
        assert await told(THREAD, lane.id("parent"), child=child) == "woken"
        after = await lane.see("parent")
        state = "input-applied" if applied else "running"
        assert (after.state, after.suspension) == (state, None)
        assert (await lane.claim()).submission == after
        again = await lane.unmoved(told(THREAD, lane.id("parent"), child=child))
        assert again == "not-waiting"

    @pytest.mark.rule("LED-14", "LED-11", "ARC-7")
    async def test_a_deleted_child_is_settled(self, storage: Storage) -> None:
        """Only a thread that owes nothing is deleted, so its parent waits for it no more."""
        lane = await parent_lane(storage)
        pairs = [
            await child_lane(storage, f"child-{number}", settled=number == 0) for number in range(2)
        ]
        (gone, lost), (other, child) = pairs
        assert await lane.await_children("parent", lost, child) == "suspended"
        await storage.threads.delete_thread(gone.thread)
        assert (await lane.snapshot("parent")).published_children == frozenset({lost})
        told = storage.ledger.record_child_settled
        assert await lane.unmoved(told(THREAD, lane.id("parent"), child=lost)) == "still-waiting"
        await other.settle("child")
        await storage.threads.delete_thread(other.thread)
        assert await told(THREAD, lane.id("parent"), child=lost) == "woken"
        await lane.claim()
        assert await lane.unmoved(lane.await_children("parent", lost)) == "resume-immediately"

    @pytest.mark.rule("LED-14", "LED-11")
    async def test_a_parent_waits_for_all_its_children(self, storage: Storage) -> None:
        """Each but the last is answered with still-waiting, which changes nothing."""
        lane = await parent_lane(storage)
        pairs = [await child_lane(storage, f"child-{number}") for number in range(3)]
        await lane.await_children("parent", *(child for _, child in pairs))
        answers: list[str] = []
        for number, (other, child) in enumerate(pairs):
            await other.publish("child")
            told = storage.ledger.record_child_settled(THREAD, lane.id("parent"), child=child)
            answers.append(await told if number == 2 else await lane.unmoved(told))
        assert answers == ["still-waiting", "still-waiting", "woken"]

    @pytest.mark.rule("LED-14", "LED-11")
    async def test_what_counts_is_the_log_of_the_children(self, storage: Storage) -> None:
        """Once all are published, being told of any one of them wakes the parent."""
        lane = await parent_lane(storage)
        pairs = [await child_lane(storage, f"child-{number}") for number in range(2)]
        await lane.await_children("parent", *(child for _, child in pairs))
        for other, _ in pairs:
            await other.publish("child")
        told = storage.ledger.record_child_settled
        assert await told(THREAD, lane.id("parent"), child=pairs[0][1]) == "woken"
        assert await told(THREAD, lane.id("parent"), child=pairs[1][1]) == "not-waiting"

    @pytest.mark.rule("LED-14")
    async def test_a_child_without_record_is_no_news(self, storage: Storage) -> None:
        """Running, unknown to the store, in another thread: the parent waits on."""
        lane = await parent_lane(storage)
        _, child = await child_lane(storage, "child")
        _, done = await child_lane(storage, "done", published=True)
        await lane.await_children("parent", child)
        for missing in (
            child,
            AwaitedChild(child.thread_id, SubmissionId("nobody")),
            AwaitedChild(ThreadId("nowhere"), child.submission_id),
            AwaitedChild(child.thread_id, done.submission_id),
        ):
            told = storage.ledger.record_child_settled(THREAD, lane.id("parent"), child=missing)
            fault = await lane.refuses(EvidenceFault, told)
            assert (fault.thread, fault.reason) == (missing.thread_id, "evidence-missing")

    @pytest.mark.rule("LED-14")
    @pytest.mark.parametrize("state", STATES)
    async def test_who_does_not_wait_for_a_child_is_not_woken(
        self, storage: Storage, state: State
    ) -> None:
        """Neither work in another state, nor what waits for calls or for another child."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        _, child = await child_lane(storage, "child", published=True)
        told = storage.ledger.record_child_settled(THREAD, submission, child=child)
        assert await lane.unmoved(told) == "not-waiting"
        if state == "running":
            _, awaited = await child_lane(storage, "awaited")
            await lane.await_children("key-1", awaited)
            told = storage.ledger.record_child_settled(THREAD, submission, child=child)
            assert await lane.unmoved(told) == "not-waiting"

    @pytest.mark.rule("LED-11", "LED-8")
    async def test_a_child_that_was_published_before_is_not_waited_for(
        self, storage: Storage
    ) -> None:
        """All of them published: resume-immediately; one of them open: suspended."""
        lane = await parent_lane(storage)
        _, one = await child_lane(storage, "one", published=True)
        _, two = await child_lane(storage, "two", settled=True)
        three, open_child = await child_lane(storage, "three")
        assert await lane.unmoved(lane.await_children("parent", one, two)) == "resume-immediately"
        assert await lane.await_children("parent", one, open_child, two) == "suspended"
        await three.publish("child")
        told = storage.ledger.record_child_settled(THREAD, lane.id("parent"), child=open_child)
        assert await told == "woken"

    @pytest.mark.rule("LED-11", "LED-14", "LED-16")
    async def test_suspension_and_publication_race(self, storage: Storage) -> None:
        """A child's publication is never missed, whichever of the two commits first."""
        lane = await parent_lane(storage)

        async def publish(other: LaneScript, child: AwaitedChild) -> str:
            await other.publish("child")
            return await lane.ledger.record_child_settled(THREAD, lane.id("parent"), child=child)

        for number in range(12):
            other, child = await child_lane(storage, f"child-{number}")
            pair = [lane.await_children("parent", child), publish(other, child)]
            answers = await asyncio.gather(*(pair if number % 2 else pair[::-1]))
            answer, told = answers if number % 2 else answers[::-1]
            assert (answer, told) in {
                ("suspended", "woken"),
                ("resume-immediately", "not-waiting"),
            }
            assert (await lane.see("parent")).state == "running"
            if told == "woken":
                await lane.claim()

    @pytest.mark.rule("LED-14", "LED-15")
    async def test_recovery_sees_which_children_are_published(self, storage: Storage) -> None:
        """Those awaited and those attached, and of them the published ones alone."""
        lane = await parent_lane(storage)
        pairs = [await child_lane(storage, f"child-{number}") for number in range(3)]
        for number, (_, child) in enumerate(pairs[:2]):
            call = f"call-{number}"
            await change(lane, "reserve", call)
            await storage.ledger.attach_child(
                THREAD, lane.id("parent"), token=lane.token, call=ToolCallId(call), child=child
            )
        await lane.await_children("parent", pairs[2][1])
        assert (await lane.snapshot("parent")).published_children == frozenset()
        await pairs[1][0].publish("child")
        await child_lane(storage, "no child of it", published=True)
        snapshot = await lane.snapshot("parent")
        assert snapshot.published_children == frozenset({pairs[1][1]})
        await pairs[2][0].publish("child")
        snapshot = await lane.snapshot("parent")
        assert snapshot.published_children == frozenset({pairs[1][1], pairs[2][1]})
