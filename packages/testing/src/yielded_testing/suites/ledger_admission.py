"""Cases of accepting work: once per key (LED-1), one of a group (LED-2), made claimable (LED-3)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import (
    AdmissionConflict,
    AdmissionRefused,
    ThreadNotMaterialized,
)
from yielded_core.ports.work import (
    Admission,
    Admitted,
)
from yielded_core.records.identifiers import (
    IdempotencyKey,
    Principal,
    ThreadId,
)
from yielded_testing.suites.builders import EMPTY, OTHER, THREAD, batch, canonical, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_values import STATES, UNSETTLED, USER, work
from yielded_testing.suites.support import cancelled_at, refused, turns
from yielded_testing.suites.values import KEPT

if TYPE_CHECKING:
    from yielded_core.ports.work import State
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage
    from yielded_testing.clock import VirtualClock

GIVEN: Final = work("key-1", {"a": [1, 2]}, group="g", linkage={"run": "r"}, message={"from": "me"})
OTHER_CONTENT: Final = {
    "input": work("key-1", {"a": [2, 1]}, group="g", linkage={"run": "r"}, message={"from": "me"}),
    "no group": work("key-1", {"a": [1, 2]}, linkage={"run": "r"}, message={"from": "me"}),
    "group": work("key-1", {"a": [1, 2]}, group="G", linkage={"run": "r"}, message={"from": "me"}),
    "no linkage": work("key-1", {"a": [1, 2]}, group="g", message={"from": "me"}),
    "linkage": work("key-1", {"a": [1, 2]}, group="g", linkage={"run": 1}, message={"from": "me"}),
    "no message": work("key-1", {"a": [1, 2]}, group="g", linkage={"run": "r"}),
    "message": work("key-1", {"a": [1, 2]}, group="g", linkage={"run": "r"}, message={"from": ""}),
    "swapped": work(
        "key-1", {"a": [1, 2]}, group="g", linkage={"from": "me"}, message={"run": "r"}
    ),
    "text": work("key-1", '{"a":[1,2]}', group="g", linkage={"run": "r"}, message={"from": "me"}),
    "nothing": work("key-1", None),
}
"""Each differs from GIVEN in one part, though the key is the same."""
SEPARATORS: Final = (":", "/", "|", ",", " ", "\x1f", "\n", '","', "\\", "é", "\U0001f9f5")


class AdmissionCases:
    """LED-1: admission is atomic and idempotent by (thread, principal, key)."""

    @pytest.mark.rule("LED-1")
    async def test_an_admission_gives_a_receipt(
        self, storage: Storage, clock: VirtualClock
    ) -> None:
        """Two new ids, the place in the lane and the instant; and the work can be looked up."""
        receipt = await storage.ledger.admit(GIVEN)
        assert (receipt.thread_id, receipt.queue_sequence) == (THREAD, 1)
        assert (receipt.admitted_at, receipt.replayed) == (clock.now, False)
        assert len({receipt.submission_id, receipt.receipt_id, "", THREAD}) == 4
        found = await storage.ledger.lookup(receipt.submission_id)
        assert found is not None
        one = found.submission
        assert (one.submission_id, one.receipt_id) == (receipt.submission_id, receipt.receipt_id)
        assert (one.thread_id, one.queue_sequence, one.admitted_at) == (THREAD, 1, clock.now)
        assert (one.principal, one.idempotency_key, one.group) == (USER, "key-1", "g")
        assert (one.state, one.input_sequence, one.host) == ("admitted", None, None)
        assert (one.suspension, one.abort, one.settled) == (None, None, None)
        assert one.input_digest == hashlib.sha256(canonical({"a": [1, 2]})).hexdigest()
        assert (found.input, found.linkage) == ({"a": [1, 2]}, {"run": "r"})
        assert found.message == {"from": "me"}

    @pytest.mark.rule("LED-1")
    async def test_each_lane_numbers_its_own_work(self, storage: Storage) -> None:
        """From 1 without gap, whatever other lanes do; no id comes twice."""
        receipts = [
            await storage.ledger.admit(work(f"key-{number}", thread=thread))
            for number in range(1, 6)
            for thread in (THREAD, OTHER)
        ]
        for thread in (THREAD, OTHER):
            mine = [each.queue_sequence for each in receipts if each.thread_id == thread]
            assert mine == [1, 2, 3, 4, 5]
        names = {name for each in receipts for name in (each.submission_id, each.receipt_id)}
        assert len(names) == 20

    @pytest.mark.rule("LED-1")
    @pytest.mark.parametrize("state", STATES)
    async def test_a_repeat_gives_the_first_receipt(
        self, storage: Storage, clock: VirtualClock, state: State
    ) -> None:
        """With its instant and its place, whatever became of the work; nothing changes."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", state)
        first = lane.receipts["key-1"]
        clock.advance(5_000)
        again = await lane.unmoved(storage.ledger.admit(work("key-1")))
        assert again == Admitted(
            THREAD,
            first.submission_id,
            first.receipt_id,
            first.queue_sequence,
            first.admitted_at,
            replayed=True,
        )
        assert first.admitted_at == clock.now - 5_000

    @pytest.mark.rule("LED-1")
    async def test_equal_values_are_the_same_work(self, storage: Storage) -> None:
        """Order of keys and spelling of numbers make no difference."""
        one: JsonValue = {"a": 1, "b": [100, 0, 1e21]}
        two: JsonValue = {"b": [1e2, -0.0, 10**21], "a": 1.0}
        first = await storage.ledger.admit(work("key-1", one, linkage=one, message=one))
        again = await storage.ledger.admit(work("key-1", two, linkage=two, message=two))
        assert (again.submission_id, again.replayed) == (first.submission_id, True)

    @pytest.mark.rule("LED-1")
    @pytest.mark.parametrize("settled", [False, True])
    @pytest.mark.parametrize("part", list(OTHER_CONTENT))
    async def test_other_content_under_a_key_conflicts(
        self, storage: Storage, part: str, *, settled: bool
    ) -> None:
        """The conflict has both digests; nothing changes; settlement does not free the key."""
        lane = await LaneScript.begin(storage)
        lane.receipts["key-1"] = await storage.ledger.admit(GIVEN)
        if settled:
            await lane.abort_queued("key-1")
        other = OTHER_CONTENT[part]
        conflict = await lane.refuses(AdmissionConflict, storage.ledger.admit(other))
        assert (conflict.thread, conflict.submission) == (THREAD, lane.id("key-1"))
        assert conflict.existing == (await lane.see("key-1")).admission_digest
        elsewhere = await storage.ledger.admit(
            Admission(
                OTHER,
                USER,
                IdempotencyKey("x"),
                other.input,
                other.group,
                other.linkage,
                other.message,
            )
        )
        found = await storage.ledger.lookup(elsewhere.submission_id)
        assert found is not None
        assert conflict.attempted == found.submission.admission_digest != conflict.existing

    @pytest.mark.rule("LED-1")
    async def test_content_is_compared_part_by_part(self, storage: Storage) -> None:
        """Contents whose parts read the same one after the other are different contents."""
        lane = await LaneScript.begin(storage)
        parts: list[tuple[str | None, JsonValue, JsonValue, JsonValue]] = [
            (None, 1, 2, 34),
            (None, 1, 23, 4),
            (None, 12, 3, 4),
            (None, 1, None, None),
            ("null", 1, None, None),
            ("1", 1, None, None),
            ("g", [], {}, None),
            ("g", [], None, {}),
            ("g", {}, [], None),
        ]
        for number, (group, given, linkage, message) in enumerate(parts):
            first = work(str(number), given, group=group, linkage=linkage, message=message)
            lane.receipts[str(number)] = await storage.ledger.admit(first)
            for other, (group_2, given_2, linkage_2, message_2) in enumerate(parts):
                if other != number:
                    again = work(
                        str(number), given_2, group=group_2, linkage=linkage_2, message=message_2
                    )
                    await refused(AdmissionConflict, storage.ledger.admit(again))
            await lane.abort_queued(str(number))

    @pytest.mark.rule("LED-1")
    @pytest.mark.parametrize("separator", SEPARATORS)
    async def test_keys_are_compared_part_by_part(self, storage: Storage, separator: str) -> None:
        """Keys that differ only in where a separator falls are different keys."""
        parts = ("a", "b", "c", "d")
        split = [
            (parts[:one], parts[one:two], parts[two:]) for one, two in ((1, 2), (1, 3), (2, 3))
        ]
        tuples = [tuple(separator.join(each) for each in three) for three in split]
        receipts = {
            (thread, principal, key): await storage.ledger.admit(
                work(key, thread, thread=ThreadId(thread), principal=Principal(principal))
            )
            for thread, principal, key in tuples
        }
        assert not any(each.replayed for each in receipts.values())
        for (thread, principal, key), receipt in receipts.items():
            found = await storage.ledger.lookup_key(
                ThreadId(thread), Principal(principal), IdempotencyKey(key)
            )
            assert found is not None
            assert found.submission.submission_id == receipt.submission_id
            assert found.input == thread

    @pytest.mark.rule("LED-1")
    async def test_keys_and_principals_are_exact(self, storage: Storage) -> None:
        """Case, spaces, normal form and digits make different keys and different principals."""
        names = ("a", "A", "a ", " a", "é", "e\u0301", "1", "01", "ß", "ss", "\U0001f9f5", "null")
        receipts = [
            await storage.ledger.admit(work(key, principal=Principal(principal)))
            for key in names
            for principal in names
        ]
        assert not any(each.replayed for each in receipts)
        assert [each.queue_sequence for each in receipts] == list(range(1, 145))

    @pytest.mark.rule("LED-1", "LED-16")
    async def test_one_admission_from_many_tasks_is_one(self, storage: Storage) -> None:
        """Of 24 copies at once one admits, the others get its receipt."""
        receipts = await asyncio.gather(*(storage.ledger.admit(GIVEN) for _ in range(24)))
        assert len({(each.submission_id, each.receipt_id) for each in receipts}) == 1
        assert sorted(each.replayed for each in receipts) == [False, *[True] * 23]
        assert {each.queue_sequence for each in receipts} == {1}
        assert len(await storage.ledger.scan_nonterminal()) == 1

    @pytest.mark.rule("LED-1")
    async def test_many_admissions_at_once_leave_no_gap(self, storage: Storage) -> None:
        """24 keys at once take the places 1 to 24, each once."""
        receipts = await asyncio.gather(
            *(storage.ledger.admit(work(f"key-{number}")) for number in range(24))
        )
        assert sorted(each.queue_sequence for each in receipts) == list(range(1, 25))
        assert not any(each.replayed for each in receipts)

    @pytest.mark.rule("LED-1")
    async def test_two_contents_race_for_a_key(self, storage: Storage) -> None:
        """One of them is admitted, its copies replay it, all copies of the other conflict."""
        outcomes = await asyncio.gather(
            *(storage.ledger.admit(work("key-1", number % 2)) for number in range(20)),
            return_exceptions=True,
        )
        receipts = [each for each in outcomes if isinstance(each, Admitted)]
        conflicts = [each for each in outcomes if isinstance(each, AdmissionConflict)]
        assert (len(receipts), len(conflicts)) == (10, 10)
        assert sorted(each.replayed for each in receipts) == [False, *[True] * 9]
        assert len({(each.existing, each.attempted) for each in conflicts}) == 1
        assert len(await storage.ledger.scan_nonterminal()) == 1

    @pytest.mark.rule("LED-1", "REC-3")
    @pytest.mark.parametrize("kind", list(KEPT))
    async def test_what_was_given_is_kept(self, storage: Storage, kind: str) -> None:
        """Any bounded JSON comes back as it was, as input, linkage and message."""
        value = KEPT[kind]
        receipt = await storage.ledger.admit(work("key-1", value, linkage=value, message=value))
        found = await storage.ledger.lookup(receipt.submission_id)
        assert found is not None
        assert (found.input, found.linkage, found.message) == (value, value, value)

    @pytest.mark.rule("LED-1", "REC-1")
    @pytest.mark.parametrize("name", ["x" * 256, "\U0001f9f5" * 128, "'; --", "\n\t\x01", " "])
    async def test_any_key_of_256_characters_serves(self, storage: Storage, name: str) -> None:
        """Keys, principals and groups of any text, up to 256 characters, are kept exactly."""
        given = work(name, principal=Principal(name), group=name)
        receipt = await storage.ledger.admit(given)
        assert (await storage.ledger.admit(given)).replayed
        found = await storage.ledger.lookup_key(THREAD, Principal(name), IdempotencyKey(name))
        assert found is not None
        assert found.submission.submission_id == receipt.submission_id
        assert (found.submission.principal, found.submission.group) == (name, name)

    @pytest.mark.rule("LED-1")
    async def test_later_changes_of_the_caller_s_objects_change_nothing(
        self, storage: Storage
    ) -> None:
        """What is kept is what was given when the admission began; what is read is the reader's."""
        inner: dict[str, JsonValue] = {"kept": True}
        given = work("key-1", inner, linkage=[inner], message=inner)
        task = asyncio.create_task(storage.ledger.admit(given))
        await turns(1)
        inner["late"] = True
        receipt = await task
        for _ in range(2):
            found = await storage.ledger.lookup(receipt.submission_id)
            assert found is not None
            assert (found.input, found.linkage) == ({"kept": True}, [{"kept": True}])
            assert isinstance(found.input, dict)
            found.input.clear()

    @pytest.mark.rule("LED-1", "LED-3", "LED-17")
    async def test_work_is_accepted_before_its_thread_is_there(self, storage: Storage) -> None:
        """The lane is at epoch 0, the log says that there is no thread, nothing can be claimed."""
        lane = LaneScript(storage)
        await lane.admit("key-1", "key-2")
        seen = await storage.ledger.lane(THREAD)
        assert seen is not None
        assert (seen.epoch, seen.owner) == (0, None)
        await refused(ThreadNotMaterialized, storage.threads.tail(THREAD))
        assert await storage.threads.threads() == ()
        assert await lane.try_claim() is None
        assert await storage.ledger.runnable() == ()
        snapshot = await lane.snapshot("key-1")
        assert (snapshot.tail, snapshot.lane.epoch) == (EMPTY, 0)
        await storage.threads.materialize(THREAD, epoch=7)
        assert [(await lane.see(key)).queue_sequence for key in ("key-1", "key-2")] == [1, 2]
        await lane.ready("key-1")
        assert (await lane.claim()).epoch == 8

    @pytest.mark.rule("LED-1", "LOG-1")
    async def test_a_lane_alone_is_no_thread(self, storage: Storage) -> None:
        """No operation of the log takes the lane of accepted work for a thread."""
        await storage.ledger.admit(work("key-1"))
        threads = storage.threads
        given = batch("batch", note("note"))
        for attempt in (
            threads.append(THREAD, given, expected=EMPTY, epoch=1),
            threads.read(THREAD),
            threads.capture(THREAD),
            threads.rebuild_indexes(THREAD),
            threads.delete_thread(THREAD),
            storage.archives.seal_range(THREAD, through=1),
        ):
            await refused(ThreadNotMaterialized, attempt)
        assert await threads.threads() == ()
        assert len(await storage.ledger.scan_nonterminal()) == 1

    @pytest.mark.rule("LED-1", "LOG-7")
    @pytest.mark.parametrize("delay", [0, 2, 20])
    async def test_a_cancelled_admission_is_all_or_nothing(
        self, storage: Storage, delay: int
    ) -> None:
        """Repeated after each cancellation, the work is accepted once, now or as a replay."""
        outcome, point = "", 0
        while outcome != "shorter":
            point += 1
            given = work(f"key-{point}")
            outcome = await cancelled_at(storage.ledger.admit(given), point, delay=delay)
            assert (await storage.ledger.admit(given)).queue_sequence == point
        assert len(await storage.ledger.scan_nonterminal()) == point


class GroupCases:
    """LED-2: a group has at most one unsettled submission in a thread."""

    @pytest.mark.rule("LED-2")
    @pytest.mark.parametrize("state", UNSETTLED)
    async def test_a_group_is_occupied_until_its_work_is_settled(
        self, storage: Storage, state: State
    ) -> None:
        """A second key is refused in every state, and nothing changes; the key stays free."""
        lane = await LaneScript.begin(storage)
        occupant = await lane.bring("key-1", state, group="g")
        second = storage.ledger.admit(work("key-3", group="g"))
        refusal = await lane.refuses(AdmissionRefused, second)
        assert (refusal.thread, refusal.submission) == (THREAD, occupant)
        assert refusal.reason == "occupied"
        assert not (await storage.ledger.admit(work("key-3", "other content"))).replayed

    @pytest.mark.rule("LED-2", "LED-8")
    async def test_only_finalization_frees_a_group(self, storage: Storage) -> None:
        """A published settlement does not; the finalized one does, for one submission again."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1", group="g")
        await lane.claim()
        await lane.publish("key-1")
        await lane.refuses(AdmissionRefused, storage.ledger.admit(work("key-2", group="g")))
        await lane.release()
        await lane.refuses(AdmissionRefused, storage.ledger.admit(work("key-2", group="g")))
        await lane.finalize("key-1")
        second = await lane.admit("key-2", group="g")
        assert (second.queue_sequence, second.replayed) == (2, False)
        refusal = await lane.refuses(AdmissionRefused, storage.ledger.admit(work("3", group="g")))
        assert refusal.submission == second.submission_id

    @pytest.mark.rule("LED-2")
    async def test_groups_are_told_apart(self, storage: Storage) -> None:
        """By thread and by exact name; work without a group has no group to share."""
        given = [work("g", group="g"), work("G", group="G"), work("g ", group="g ")]
        given += [work("none-1"), work("none-2"), work("g", group="g", thread=OTHER)]
        receipts = [await storage.ledger.admit(each) for each in given]
        assert not any(each.replayed for each in receipts)

    @pytest.mark.rule("LED-2", "LED-1")
    async def test_the_key_is_looked_at_before_the_group(self, storage: Storage) -> None:
        """A replay is a replay, and other content a conflict, though the group is occupied."""
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1", group="g")
        await lane.claim()
        await lane.settle("key-1")
        await lane.admit("key-2", group="g")
        for key in ("key-1", "key-2"):
            assert (await lane.unmoved(storage.ledger.admit(work(key, group="g")))).replayed
            other = storage.ledger.admit(work(key, "other", group="g"))
            assert (await lane.refuses(AdmissionConflict, other)).submission == lane.id(key)

    @pytest.mark.rule("LED-2", "LED-16")
    async def test_one_of_many_takes_a_group(self, storage: Storage) -> None:
        """Of 16 keys at once one is admitted, and every other one is told which."""
        outcomes = await asyncio.gather(
            *(storage.ledger.admit(work(f"key-{number}", group="g")) for number in range(16)),
            return_exceptions=True,
        )
        (won,) = [each for each in outcomes if isinstance(each, Admitted)]
        lost = [each for each in outcomes if isinstance(each, AdmissionRefused)]
        assert [each.submission for each in lost] == [won.submission_id] * 15
        assert won.queue_sequence == 1
