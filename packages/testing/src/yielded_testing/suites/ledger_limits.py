"""Cases of hostile input to the ledger: refused before any I/O, or kept exactly (REC-1, REC-3)."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.errors import InvalidInput, ThreadError
from yielded_core.ports.work import AwaitedChild, JoiningGuard
from yielded_core.records.identifiers import (
    AttemptId,
    OwnershipToken,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_testing.suites.builders import THREAD, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.ledger_children import change
from yielded_testing.suites.ledger_probes import PROBES
from yielded_testing.suites.ledger_values import settlement_of
from yielded_testing.suites.values import IDS, NOISE, in_order

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from yielded_core.storage import Storage


def refused_at_once(operation: Coroutine[Any, Any, object]) -> InvalidInput:
    """Return the error with which an operation must refuse its input, before it first waits."""
    try:
        operation.send(None)
    except InvalidInput as error:
        return error
    except StopIteration:
        pytest.fail("it was accepted")
    finally:
        operation.close()
    pytest.fail("it waited for something, so that it was not refused before any I/O")


class HostileInputCases:
    """Every argument of every operation: bounds, types, text that no store can hold."""

    @pytest.mark.rule("REC-1", "REC-3", "LED-4")
    @pytest.mark.parametrize("name", list(PROBES))
    async def test_bad_input_is_refused_before_any_io(self, storage: Storage, name: str) -> None:
        """InvalidInput at the first step, with nothing of the value in it; nothing changes."""
        lane = await LaneScript.begin(storage)
        await lane.run("key-1")
        before = await lane.seen()
        probe = PROBES[name]
        for argument, kind in probe.arguments.items():
            for wrong in kind.wrong:
                error = refused_at_once(probe.call(storage, probe.right() | {argument: wrong}))
                assert len(f"{error}{error!r}") < 700, argument
        assert await lane.seen() == before

    @pytest.mark.rule("REC-1", "REC-3", "LED-4")
    @pytest.mark.parametrize("name", list(PROBES))
    async def test_good_input_is_not_refused_for_what_it_is(
        self, storage: Storage, name: str
    ) -> None:
        """The values that the bad ones replace get an answer, or an error about the thread."""
        probe = PROBES[name]
        await LaneScript.begin(storage, ThreadId("name"))
        with suppress(ThreadError):
            await probe.call(storage, probe.right())

    @pytest.mark.rule("LED-4", "LED-9", "LED-12", "LED-13", "LED-14", "REC-1")
    async def test_the_longest_names_serve(self, storage: Storage) -> None:
        """256 characters where somebody chooses, 4,096 elsewhere, 65,536 of a reason."""
        lane = await LaneScript.begin(storage, ThreadId("\U0001f9f5" * 2_048))
        ledger, thread = storage.ledger, lane.thread
        submission = await lane.ready("k" * 256)
        token = OwnershipToken("\U0001f9f5" * 128)
        attempt, call = AttemptId(NOISE), ToolCallId(NOISE[::-1])
        name, reason = "\U0001f9f5" * 128, "\U0001f9f5" * 32_768
        grant = await ledger.claim(thread, attempt=attempt, token=token, lease=86_400_000)
        assert grant is not None
        assert grant.attempt_id == attempt
        await ledger.request_abort(thread, submission, author=name, reason=reason)
        await ledger.record_approval_decision(
            thread, submission, call, decision="denied", resolver=name, reason=reason
        )
        await ledger.mark_unknown(thread, submission, run=call, calls=[(call, reason)])  # pyright: ignore[reportArgumentType]
        await ledger.record_unknown_resolution(
            thread, submission, call, resolution="safe-to-retry", author=name, reason=reason
        )
        child = AwaitedChild(ThreadId(NOISE), SubmissionId(NOISE))
        await ledger.reserve_child(
            thread,
            submission,
            token=token,
            call=call,
            reservation_id=name,
            digest="a" * 64,  # pyright: ignore[reportArgumentType]
        )
        await ledger.attach_child(thread, submission, token=token, call=call, child=child)
        snapshot = await ledger.load_recovery_snapshot(thread, submission)
        assert snapshot.submission.abort is not None
        assert (snapshot.submission.abort.author, snapshot.submission.abort.reason) == (
            name,
            reason,
        )
        (decision,), (marked,) = snapshot.approvals, snapshot.unknown_calls
        (resolved,), (reserved,) = snapshot.resolutions, snapshot.reservations
        assert (decision.tool_call_id, decision.resolver, decision.reason) == (call, name, reason)
        assert (marked.tool_call_id, marked.run_id, marked.reason) == (call, call, reason)
        assert (resolved.author, resolved.reason) == (name, reason)
        assert (reserved.reservation_id, reserved.child) == (name, child)
        published = await storage.settlements.publish(
            thread,
            settlement_of(lane.receipts["k" * 256]),
            producer=NOISE,  # pyright: ignore[reportArgumentType]
            token=token,
            authority="owned",
        )
        assert published.tail.sequence == 1

    @pytest.mark.rule("LED-4", "LED-15", "LED-17", "REC-1")
    async def test_threads_of_any_name_have_lanes(self, storage: Storage) -> None:
        """Each of its own: found, claimed, appended to and settled under its exact name."""
        for name in IDS:
            await (await LaneScript.begin(storage, ThreadId(name))).ready("key-1")
        listed = await storage.ledger.scan_nonterminal()
        assert in_order([each.thread_id for each in listed])
        assert in_order([each.thread_id for each in await storage.ledger.runnable()])
        for submission in listed:
            lane = LaneScript(storage, submission.thread_id)
            await lane.ready("key-1")
            assert (await lane.claim()).submission.submission_id == submission.submission_id
            await lane.append(note("one"))
            await lane.settle("key-1")
        assert await storage.ledger.scan_nonterminal() == ()
        assert await storage.ledger.runnable() == ()

    @pytest.mark.rule("LED-12", "LED-13", "LED-14", "REC-1")
    async def test_calls_of_any_name_are_told_apart(self, storage: Storage) -> None:
        """Decisions, marks, resolutions and reservations keep each call's exact name, in order."""
        lane = await LaneScript.begin(storage)
        await lane.run("parent")
        for at, name in enumerate(IDS):
            await lane.decide("parent", name, approve=at % 2 == 0)
            await change(lane, "reserve", name)
        await lane.mark_unknown("parent", *IDS)
        for name in IDS:
            await storage.ledger.record_unknown_resolution(
                THREAD,
                lane.id("parent"),
                ToolCallId(name),
                resolution="completed-with-result",
                author="me",
                reason="",
                result=name,
            )
        snapshot = await lane.snapshot("parent")
        ordered = sorted(IDS, key=str.encode)
        assert [each.tool_call_id for each in snapshot.approvals] == ordered
        assert [each.tool_call_id for each in snapshot.unknown_calls] == ordered
        assert [each.tool_call_id for each in snapshot.reservations] == ordered
        assert [(each.tool_call_id, each.result) for each in snapshot.resolutions] == [
            (name, name) for name in ordered
        ]
        made = {each.tool_call_id: each.decision for each in snapshot.approvals}
        assert made == {name: "denied" if at % 2 else "approved" for at, name in enumerate(IDS)}

    @pytest.mark.rule("LED-10", "REC-1")
    async def test_a_guard_without_token_is_a_guard(self, storage: Storage) -> None:
        """No token is a value of its own, not a missing guard."""
        lane = await LaneScript.begin(storage)
        await lane.bring("key-1", "joining")
        guard = JoiningGuard(lane.id("host"), None)
        revert = storage.ledger.revert_joining
        with pytest.raises(ThreadError):
            await revert(THREAD, lane.id("key-1"), guard=guard)
        assert await revert(THREAD, lane.id("key-1")) == "host-at-work"
