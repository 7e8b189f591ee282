"""Identifiers: distinct types over bounded, non-empty text (REC-1), and the derived ones (REC-2).

The types cost nothing at run time; `check_identifier` is what a port calls on what it is given.
"""

from __future__ import annotations

import re
from typing import Final, NewType, TypeVar

import orjson

from yielded_core.errors import InvalidArgument, InvalidIdentifier
from yielded_core.records.bounds import IDENTIFIER_UNITS, LAST_EPOCH, SHORT_TEXT_UNITS

ThreadId = NewType("ThreadId", str)
SubmissionId = NewType("SubmissionId", str)
ReceiptId = NewType("ReceiptId", str)
SettlementId = NewType("SettlementId", str)
RunId = NewType("RunId", str)
TurnId = NewType("TurnId", str)
ToolCallId = NewType("ToolCallId", str)
AgentId = NewType("AgentId", str)
DelegationId = NewType("DelegationId", str)
DeploymentId = NewType("DeploymentId", str)
ProducerId = NewType("ProducerId", str)
AttemptId = NewType("AttemptId", str)
BatchId = NewType("BatchId", str)
RecordId = NewType("RecordId", str)
Principal = NewType("Principal", str)
IdempotencyKey = NewType("IdempotencyKey", str)
OwnershipToken = NewType("OwnershipToken", str)

Digest = NewType("Digest", str)
"""A SHA-256 digest as 64 lowercase hexadecimal characters."""

Offset = NewType("Offset", str)
"""An opaque position for `observe`, valid in one thread of one store incarnation."""

Cursor = NewType("Cursor", str)
"""An opaque position of an export, valid in one thread of one store incarnation."""

SHORT_KINDS: Final = frozenset({"principal", "idempotency key", "ownership token", "name"})
"""Kinds that a person or a client chooses: at most 256 characters; all others 4,096."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)

_Identifier = TypeVar("_Identifier", bound=str)


def utf16_length(text: str) -> int:
    """Count the characters of a text as the contract counts them: UTF-16 code units (REC-0)."""
    if text.isascii():
        return len(text)
    return len(text) + sum(character > "\uffff" for character in text)


def identifier_fault(text: object, units: int) -> str | None:
    """Say why a value is not an identifier of at most `units` characters, or return None."""
    if not isinstance(text, str):
        return "it is not text"
    if not text:
        return "it is empty"
    if "\x00" in text:
        return "it holds U+0000"
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            return "it holds a lone surrogate"
    if len(text) > units or utf16_length(text) > units:
        return f"it is longer than {units} characters"
    return None


def check_identifier(value: _Identifier, kind: str) -> _Identifier:
    """Return an identifier unchanged, or raise InvalidIdentifier (REC-1)."""
    fault = identifier_fault(value, SHORT_TEXT_UNITS if kind in SHORT_KINDS else IDENTIFIER_UNITS)
    if fault is not None:
        raise InvalidIdentifier(kind, fault)
    return value


def text_fault(text: object, units: int) -> str | None:
    """Say why a value is not text of at most `units` characters, or return None.

    U+0000 is refused: such text is kept in columns that cannot hold it on every adapter.
    """
    return None if text == "" else identifier_fault(text, units)


def check_digest(argument: str, digest: str) -> Digest:
    """Return a digest unchanged: 64 lowercase hexadecimal characters; else InvalidArgument."""
    if type(digest) is not str or _DIGEST.fullmatch(digest) is None:
        raise InvalidArgument(argument, "it is not 64 lowercase hexadecimal characters")
    return Digest(digest)


def check_epoch(epoch: int) -> int:
    """Return a producer epoch unchanged: 1 to 999,999,999,999,999,999; else InvalidIdentifier."""
    if type(epoch) is not int or not 1 <= epoch <= LAST_EPOCH:
        raise InvalidIdentifier("epoch", f"it is not an integer from 1 to {LAST_EPOCH}")
    return epoch


def input_record_id(submission: SubmissionId) -> RecordId:
    """Name the record that holds a submission's input."""
    return RecordId(f"input:{submission}")


def settlement_record_id(submission: SubmissionId) -> RecordId:
    """Name the record that settles a submission."""
    return RecordId(f"settlement:{submission}")


def abort_record_id(submission: SubmissionId) -> RecordId:
    """Name the record that makes an abort command canonical."""
    return RecordId(f"abort:{submission}")


def settlement_id(submission: SubmissionId) -> SettlementId:
    """Name the settlement of a submission."""
    return SettlementId(f"settlement:{submission}")


def input_batch_id(submission: SubmissionId) -> BatchId:
    """Name the batch that holds a submission's input record."""
    return BatchId(f"submission-input:{submission}")


def settlement_batch_id(submission: SubmissionId) -> BatchId:
    """Name the batch that holds a submission's settlement record."""
    return BatchId(f"submission-settlement:{submission}")


def abort_batch_id(submission: SubmissionId) -> BatchId:
    """Name the batch that holds a submission's abort record."""
    return BatchId(f"submission-abort:{submission}")


def run_id(submission: SubmissionId) -> RunId:
    """Name the run that works on a submission."""
    return RunId(f"run:{submission}")


def composed(*parts: str) -> str:
    """Build an identity from several parts as the JSON array `[1, part, …]` (REC-2).

    JSON quotes every part, so that a separator inside one can never merge two identities.
    """
    return orjson.dumps([1, *parts]).decode()
