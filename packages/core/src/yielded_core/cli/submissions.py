"""What the commands about accepted work share: how it is named, found, and told to machines."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, Annotated, TypeAlias

import orjson
import typer

from yielded_core.cli.instants import instant
from yielded_core.errors import InvalidArgument, NoSuchSubmission
from yielded_core.records.canonical import canonical_json
from yielded_core.records.identifiers import SubmissionId

if TYPE_CHECKING:
    from yielded_core.ports.work import (
        AbortIntent,
        AdmittedWork,
        AwaitedChild,
        Lane,
        Settled,
        Submission,
        Suspension,
    )
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.storage import Storage

SubmissionArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="SUBMISSION", help="The id of the submission.")
]
CallArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="CALL", help="The id of the tool call.")
]
AuthorOption: TypeAlias = Annotated[
    str | None, typer.Option("--author", metavar="NAME", help="Who says so; you, if not given.")
]
ResolverOption: TypeAlias = Annotated[
    str | None, typer.Option("--resolver", metavar="NAME", help="Who decides; you, if not given.")
]
ReasonOption: TypeAlias = Annotated[
    str, typer.Option("--reason", metavar="TEXT", help="Why; it is kept beside the name.")
]


async def find(storage: Storage, submission: str) -> AdmittedWork:
    """Return a submission of any thread by its id alone (LED-3). Raises NoSuchSubmission."""
    found = await storage.ledger.lookup(SubmissionId(submission))
    if found is None:
        raise NoSuchSubmission(submission)
    return found


def person(given: str | None, option: str) -> str:
    """Return who acts: as an option says, else the user of this process.

    Raises InvalidArgument where the system knows no name.
    """
    if given is not None:
        return given
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):
        reason = "the system has no name for this user, so it must be given"
        raise InvalidArgument(option, reason) from None


def exact(value: JsonValue) -> orjson.Fragment:
    """Return a JSON value as it was admitted, to be put into a document."""
    return orjson.Fragment(canonical_json(value))


def submission_document(submission: Submission) -> dict[str, object]:
    """Return the control fields of a submission, for machines."""
    return {
        "submission": submission.submission_id,
        "thread": submission.thread_id,
        "receipt": submission.receipt_id,
        "place": submission.queue_sequence,
        "state": submission.state,
        "principal": submission.principal,
        "idempotencyKey": submission.idempotency_key,
        "group": submission.group,
        "inputDigest": submission.input_digest,
        "admissionDigest": submission.admission_digest,
        "admittedAt": instant(submission.admitted_at),
        "inputSequence": submission.input_sequence,
        "host": submission.host,
        "waitsFor": submission.suspension and _suspension_document(submission.suspension),
        "abort": submission.abort and abort_document(submission.abort),
        "deferredAt": None if submission.deferred_at is None else instant(submission.deferred_at),
        "settlement": submission.settled and _settled_document(submission.settled),
    }


def abort_document(intent: AbortIntent) -> dict[str, object]:
    """Return an abort intent, for machines."""
    return {
        "author": intent.author,
        "reason": intent.reason,
        "requestedAt": instant(intent.requested_at),
    }


def child_document(child: AwaitedChild) -> dict[str, object]:
    """Return where a child is, for machines."""
    return {"thread": child.thread_id, "submission": child.submission_id}


def lane_document(lane: Lane) -> dict[str, object]:
    """Return a lane and who owns it, for machines."""
    owner = lane.owner
    return {
        "epoch": lane.epoch,
        "version": lane.version,
        "owner": owner
        and {
            "submission": owner.submission_id,
            "attempt": owner.attempt_id,
            "expiresAt": instant(owner.expires_at),
            "live": owner.live,
        },
    }


def _suspension_document(waiting: Suspension) -> dict[str, object]:
    return {
        "approvals": list(waiting.approvals),
        "children": [child_document(child) for child in waiting.children],
    }


def _settled_document(settled: Settled) -> dict[str, object]:
    return {
        "settlement": settled.settlement_id,
        "outcome": settled.outcome,
        "settledAt": instant(settled.settled_at),
    }
