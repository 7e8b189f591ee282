"""Values that the cases of accepted work are made of.

Derived identities are spelled out here, so that a wrong derivation in the core shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, get_args

from yielded_core.ports.work import Admission, Admitted, State
from yielded_core.records.identifiers import (
    IdempotencyKey,
    OwnershipToken,
    Principal,
    ReceiptId,
    RunId,
    SettlementId,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_core.records.payloads import SubmissionSettled, UserInputRecorded
from yielded_testing.suites.builders import THREAD, record

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record

LEASE: Final = 30_000
"""Milliseconds that a claim lasts by default (LED-4)."""
USER: Final = Principal("user-1")
CALL: Final = ToolCallId("call-1")
STATES: Final[tuple[State, ...]] = get_args(State)
UNSETTLED: Final[tuple[State, ...]] = tuple(state for state in STATES if state != "settled")
RESULTS: Final[dict[Outcome, JsonValue]] = {
    "completed": {"answer": 42},
    "failed": {"errorTag": "ToolError", "message": "it broke"},
    "aborted": None,
}
"""A result that each outcome may have."""


def token(name: str) -> OwnershipToken:
    """Return the token of an attempt."""
    return OwnershipToken(f"token-{name}")


def work(
    key: str = "key-1",
    given: JsonValue = "hello",
    *,
    thread: ThreadId = THREAD,
    principal: Principal = USER,
    group: str | None = None,
    linkage: JsonValue = None,
    message: JsonValue = None,
) -> Admission:
    """Return work to be admitted."""
    return Admission(thread, principal, IdempotencyKey(key), given, group, linkage, message)


def receipt(submission: SubmissionId, thread: ThreadId = THREAD) -> Admitted:
    """Return a receipt as a store might have given it."""
    return Admitted(thread, submission, ReceiptId(f"receipt:{submission}"), 1, 0, replayed=False)


def input_record(submission: SubmissionId, given: JsonValue = "hello") -> Record:
    """Return the canonical record of a submission's input."""
    return record(
        f"input:{submission}",
        UserInputRecorded(
            kind="user",
            submission_id=submission,
            run_id=RunId(f"run:{submission}"),
            input=given,
        ),
    )


def settlement_of(given: Admitted, outcome: Outcome = "completed", **changes: object) -> Record:
    """Return the record that settles a submission; `changes` are of its payload."""
    name = f"settlement:{given.submission_id}"
    payload = SubmissionSettled(
        submission_id=given.submission_id,
        settlement_id=SettlementId(name),
        receipt_id=given.receipt_id,
        outcome=outcome,
        result=RESULTS[outcome],
    )
    return record(name, payload.model_copy(update=changes))
