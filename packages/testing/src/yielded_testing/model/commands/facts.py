"""The records of a run's calls: what was declared, asked for and decided, and what became of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, TypeAlias, get_args

from yielded_core.records.identifiers import (
    IdempotencyKey,
    Principal,
    ReceiptId,
    RecordId,
    SettlementId,
    SubmissionId,
    ThreadId,
    ToolCallId,
)
from yielded_testing.model.commands.records import result_record, run_of
from yielded_testing.sample_parts import Subject
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import record
from yielded_testing.suites.recovery_builders import (
    DELEGATING,
    IN_DOUBT,
    REPEATABLE,
    declaration,
)

if TYPE_CHECKING:
    from yielded_core.records.envelope import Record
    from yielded_testing.model.reference.world import World
    from yielded_testing.suites.recovery_builders import How

Declared: TypeAlias = Literal["in-doubt", "repeatable", "delegation"]
"""How a response declares a call."""
Told: TypeAlias = Literal["approval", "approved", "denied", "requested", "started", "joined"]
"""What is told of a call: that approval is asked for, the decision, and the steps of a child."""
Fact: TypeAlias = Declared | Told

DECLARED: Final[tuple[Declared, ...]] = get_args(Declared)
_HOWS: Final[dict[str, How]] = {
    "in-doubt": IN_DOUBT,
    "repeatable": REPEATABLE,
    "delegation": DELEGATING,
}
_TAGS: Final[dict[Fact, str]] = {
    "approval": "ToolApprovalRequested",
    "approved": "ToolApprovalDecided",
    "denied": "ToolApprovalDecided",
    "requested": "SubagentRequested",
    "started": "SubagentStarted",
    "joined": "SubagentJoined",
}
_DECIDED: Final = {"approved", "denied"}


class Child(NamedTuple):
    """A child as records name it; one that nobody admitted has the key that it would have."""

    thread: ThreadId
    submission: SubmissionId
    receipt: ReceiptId
    principal: Principal
    key: IdempotencyKey


def child_named(world: World, name: str) -> Child:
    """Return the child that a name like `b2` stands for, admitted or not."""
    thread, submission = world.named(name)
    work = world.queue(thread).work.get(submission)
    if work is None:
        key = IdempotencyKey(f"k{name[1:]}")
        return Child(thread, submission, ReceiptId("nobody's"), Principal("p"), key)
    return Child(thread, submission, work.receipt, work.principal, work.key)


def fact_id(submission: SubmissionId, fact: Fact, call: str) -> RecordId:
    """Return the id of a fact's record: one for every way to declare a call or to decide on it."""
    kind = "response" if fact in _HOWS else "decided" if fact in _DECIDED else fact
    return RecordId(f"{kind}:{submission}:{call}")


def fact_records(
    submission: SubmissionId, fact: Fact, call: str, child: Child | None
) -> tuple[Record, ...]:
    """Return the records that tell a fact about a call in a submission's run."""
    subject = Subject(submission, run_of(submission), int(call[1:]), ToolCallId(call))
    name = fact_id(submission, fact, call)
    if fact in _HOWS:
        return (record(name, declaration(subject, [(subject.call, _HOWS[fact])])),)
    changes = {} if child is None else _naming(child)
    if fact in _DECIDED:
        changes = {"decision": fact}
    payload = sample_payload(_TAGS[fact], subject)
    known = type(payload).model_fields
    told = payload.model_copy(update={key: changes[key] for key in changes if key in known})
    company = (result_record(submission, call, 0),) if fact == "joined" else ()
    return (*company, record(name, told))


def _naming(child: Child) -> dict[str, object]:
    return {
        "child_thread_id": child.thread,
        "child_principal": child.principal,
        "child_idempotency_key": child.key,
        "child_submission_id": child.submission,
        "child_receipt_id": child.receipt,
        "child_run_id": run_of(child.submission),
        "child_settlement_id": SettlementId(f"settlement:{child.submission}"),
    }
