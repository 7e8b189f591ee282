"""Rules of checkpoints: what they bind to, and how their state is kept (LOG-13)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import orjson

from yielded_core.errors import CheckpointRefused, InvalidJson
from yielded_core.log.reads import check_sequence
from yielded_core.records.canonical import canonical_json
from yielded_core.records.fields import INSTANT_PATTERN

if TYPE_CHECKING:
    from yielded_core.ports.values import Checkpoint
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.identifiers import Digest, ThreadId

CHECKPOINT_VERSION: Final = 1


def encode_checkpoint(checkpoint: Checkpoint) -> bytes:
    """Return the canonical text of a checkpoint's state.

    Raises CheckpointRefused, and InvalidArgument for a sequence that no record can have.
    """
    check_sequence(checkpoint.through_sequence, "through_sequence")
    if checkpoint.schema_version != CHECKPOINT_VERSION:
        raise _refused(checkpoint, "unsupported-version")
    try:
        text = canonical_json(checkpoint.state)
    except InvalidJson:
        raise _refused(checkpoint, "corrupt") from None
    if not re.match(INSTANT_PATTERN, checkpoint.created_at):
        raise _refused(checkpoint, "corrupt")
    return text


def check_binding(checkpoint: Checkpoint, tail_sequence: int, batch_digest: Digest | None) -> None:
    """Refuse a checkpoint that binds to no batch tail of its thread.

    `batch_digest` is the tail digest of the batch that ends at the checkpoint's sequence.
    """
    if checkpoint.through_sequence > tail_sequence:
        raise _refused(checkpoint, "ahead-of-tail")
    if checkpoint.tail_digest != batch_digest:
        raise _refused(checkpoint, "digest-mismatch")


def decode_state(thread: ThreadId, sequence: int, version: int, text: bytes) -> JsonValue:
    """Read a stored state, or raise CheckpointRefused (`unsupported-version`, `corrupt`)."""
    if version != CHECKPOINT_VERSION:
        raise CheckpointRefused(thread, sequence, "unsupported-version")
    try:
        state: JsonValue = orjson.loads(text)
        if canonical_json(state) == text:
            return state
    except (orjson.JSONDecodeError, InvalidJson):
        pass
    raise CheckpointRefused(thread, sequence, "corrupt")


def _refused(checkpoint: Checkpoint, reason: str) -> CheckpointRefused:
    return CheckpointRefused(checkpoint.thread_id, checkpoint.through_sequence, reason)
