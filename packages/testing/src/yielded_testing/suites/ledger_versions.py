"""Cases of what every mutation raises and no question does: version and fact revision (LED-4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_testing.suites.builders import THREAD
from yielded_testing.suites.ledger_builders import LaneScript, child_lane
from yielded_testing.suites.ledger_children import change
from yielded_testing.suites.ledger_joining import take
from yielded_testing.suites.ledger_unknown import resolve
from yielded_testing.suites.ledger_values import STATES, USER, work

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from yielded_core.ports.work import State
    from yielded_core.storage import Storage


class VersionCases:
    """LED-4: whatever changes a lane raises its version; ARC-2: exported facts raise another."""

    @pytest.mark.rule("LED-4", "LED-8", "LED-10", "LED-11", "LED-12", "LED-13")
    async def test_every_mutation_raises_the_version(self, storage: Storage) -> None:
        """Each of a whole life, so that no claim misses what happened in between."""
        lane = await LaneScript.begin(storage)
        ledger, versions = storage.ledger, [await lane.version()]

        async def did(operation: Awaitable[object]) -> None:
            await operation
            versions.append(await lane.version())

        await did(lane.admit("key-1"))
        lane.receipts["parent"] = lane.receipts["key-1"]
        await did(ledger.mark_ready(THREAD, lane.id("key-1")))
        await did(lane.claim())
        await did(ledger.renew(THREAD, token=lane.token))
        sequence = await lane.append_input("key-1")
        await did(
            ledger.mark_input_applied(THREAD, lane.id("key-1"), token=lane.token, sequence=sequence)
        )
        await did(lane.ready("guest"))
        await did(take(lane, "key-1"))
        await did(lane.revert("guest", "key-1"))
        await did(take(lane, "key-1"))
        await did(lane.join("guest", "key-1"))
        for step in ("reserve", "attach", "begin", "release"):
            await did(change(lane, step))
        await did(lane.suspend("key-1"))
        await did(lane.decide("key-1"))
        await did(lane.decide("key-1", "another"))
        await did(lane.claim())
        other, child = await child_lane(storage, "child")
        await did(lane.await_children("key-1", child))
        await other.publish("child")
        await did(ledger.record_child_settled(THREAD, lane.id("key-1"), child=child))
        await did(lane.mark_unknown("key-1", "a"))
        await did(lane.mark_unknown("key-1", "b"))
        await did(resolve(lane, "safe-to-retry", "a"))
        await did(resolve(lane, "safe-to-retry", "b"))
        await did(lane.abort("key-1"))
        await did(lane.claim())
        await did(lane.release())
        await did(lane.claim())
        await did(lane.publish("key-1", "aborted"))
        await did(lane.finalize("key-1"))
        await did(lane.publish("guest", "aborted", authority="joined", finalize=True))
        assert versions == sorted(set(versions))

    @pytest.mark.rule("LED-1", "LED-9", "LED-12", "LED-13", "ARC-2")
    async def test_what_an_export_carries_raises_the_fact_revision(self, storage: Storage) -> None:
        """Admissions, aborts, decisions and resolutions do, each once; their repeats do not."""
        lane = await LaneScript.begin(storage)
        revisions = [(await storage.threads.capture(THREAD)).fact_revision]

        async def raised(operation: Callable[[], Awaitable[object]]) -> None:
            await operation()
            revisions.append((await storage.threads.capture(THREAD)).fact_revision)
            await operation()
            assert (await storage.threads.capture(THREAD)).fact_revision == revisions[-1]

        await raised(lambda: lane.admit("key-1"))
        await lane.run("key-1")
        await raised(lambda: lane.decide("key-1"))
        await lane.mark_unknown("key-1")
        await raised(lambda: resolve(lane, "safe-to-retry"))
        await raised(lambda: resolve(lane, "never-happened"))
        await raised(lambda: lane.abort("key-1"))
        assert len(set(revisions)) == 6
        assert revisions == sorted(revisions)

    @pytest.mark.rule("LED-3", "LED-15", "LED-17")
    @pytest.mark.parametrize("state", STATES)
    async def test_questions_change_nothing(self, storage: Storage, state: State) -> None:
        """Whatever is asked of a lane, in whatever state, it is as it was."""
        lane = await LaneScript.begin(storage)
        submission = await lane.bring("key-1", state)
        ledger, key = storage.ledger, work("key-1").idempotency_key
        before = await lane.seen()
        for question in (
            ledger.lookup(submission),
            ledger.lookup_key(THREAD, USER, key),
            ledger.resolve_admission(THREAD, USER, key),
            ledger.read_abort_intent(THREAD, submission),
            ledger.lane(THREAD),
            ledger.scan_nonterminal(),
            ledger.runnable(),
            ledger.load_recovery_snapshot(THREAD, submission),
        ):
            await question
        assert await lane.seen() == before
