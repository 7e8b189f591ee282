"""What the ports of accepted work check before any I/O: identifiers, bounds, words (REC-1, LED-1).

Each raises InvalidIdentifier or InvalidArgument, which name what is wrong and hold no content.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.errors import InvalidArgument
from yielded_core.log.reads import check_limit, check_sequence
from yielded_core.records.bounds import (
    BATCH_RECORDS,
    LONG_TEXT_UNITS,
    PAGE_RECORDS,
    SHORT_TEXT_UNITS,
)
from yielded_core.records.identifiers import (
    ThreadId,
    check_epoch,
    check_identifier,
    identifier_fault,
    text_fault,
)

if TYPE_CHECKING:
    from yielded_core.ports.work import ClaimHandoff, Suspension
    from yielded_core.records.identifiers import (
        IdempotencyKey,
        OwnershipToken,
        Principal,
        SubmissionId,
    )

BEFORE_ALL: Final = ThreadId("")
"""Where a scan of every thread begins."""


def check_place(
    thread: ThreadId, submission: SubmissionId, token: OwnershipToken | None = None
) -> None:
    """Check where a submission is, and a token that may be absent."""
    check_identifier(thread, "thread id")
    check_identifier(submission, "submission id")
    if token is not None:
        check_identifier(token, "ownership token")


def check_owned(thread: ThreadId, submission: SubmissionId, token: OwnershipToken) -> None:
    """Check where a submission is, and the token that owns it."""
    check_place(thread, submission)
    check_identifier(token, "ownership token")


def check_key(thread: ThreadId, principal: Principal, key: IdempotencyKey) -> None:
    """Check what work was admitted under."""
    check_identifier(thread, "thread id")
    check_identifier(principal, "principal")
    check_identifier(key, "idempotency key")


def check_scan(after: tuple[ThreadId, int] | None, limit: int) -> tuple[ThreadId, int]:
    """Check where a scan goes on, and return it; the beginning where it is None."""
    check_limit(limit, PAGE_RECORDS)
    if after is None:
        return BEFORE_ALL, 0
    return check_identifier(after[0], "thread id"), check_sequence(after[1], "after")


def check_handoff(handoff: ClaimHandoff) -> None:
    """Check a claim past deferred heads: 1 to 256 of them."""
    check_epoch(handoff.epoch)
    check_count("deferred", len(handoff.deferred))
    for submission in (*handoff.deferred, handoff.target):
        check_identifier(submission, "submission id")


def check_suspension(waiting_for: Suspension, *, despite_abort: bool) -> None:
    """Check what is waited for: 1 to 256 calls, or as many children."""
    calls, awaited = waiting_for.approvals, waiting_for.children
    if calls and awaited:
        raise InvalidArgument("waiting_for", "it names calls and children")
    if calls and despite_abort:
        raise InvalidArgument("waiting_for", "work that is to be aborted waits for children alone")
    check_count("waiting_for", len(calls) + len(awaited))
    for call in calls:
        check_identifier(call, "tool call id")
    for child in awaited:
        check_place(child.thread_id, child.submission_id)


def check_count(argument: str, count: int) -> None:
    """Check how many things an argument names: 1 to 256."""
    if not 1 <= count <= BATCH_RECORDS:
        raise InvalidArgument(argument, f"it does not name 1 to {BATCH_RECORDS}")


def check_choice(argument: str, word: str, choices: tuple[str, ...]) -> None:
    """Check a word that is one of a few."""
    if word not in choices:
        raise InvalidArgument(argument, f"it is none of {', '.join(choices)}")


def check_words(who: str, name: str, reason: str) -> None:
    """Check the name of a person, and a reason that may be empty."""
    check_name(who, name)
    check_text("reason", reason)


def check_name(argument: str, name: str) -> None:
    """Check a name: 1 to 256 characters."""
    fault = identifier_fault(name, SHORT_TEXT_UNITS)
    if fault is not None:
        raise InvalidArgument(argument, fault)


def check_text(argument: str, text: str) -> None:
    """Check text of at most 65,536 characters."""
    fault = text_fault(text, LONG_TEXT_UNITS)
    if fault is not None:
        raise InvalidArgument(argument, fault)
