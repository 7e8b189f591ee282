"""Payloads of work that leaves the thread, and of repairs: messages, handoffs, annotations."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from yielded_core.records.fields import (
    Json,
    OtherIdField,
    Positive,
    PrincipalField,
    RecordIdField,
    Text,
)
from yielded_core.records.model import WireModel


class PeerMessagePrepared(WireModel):
    """A message to another thread is ready: a handoff, listed until it is closed (LOG-15).

    The deadline is in milliseconds since 1970 in UTC.
    """

    tag: Literal["PeerMessagePrepared"] = Field(default="PeerMessagePrepared", alias="_tag")
    message_id: OtherIdField
    source: Json
    source_principal: PrincipalField
    operation: Literal["send", "reply"]
    deadline_at_millis: Positive
    encoded_envelope: Json


class WorkHandoffCompleted(WireModel):
    """The owner acknowledged a preparation, which this closes."""

    tag: Literal["WorkHandoffCompleted"] = Field(default="WorkHandoffCompleted", alias="_tag")
    preparation_id: RecordIdField
    owner_id: OtherIdField


class RepairAnnotated(WireModel):
    """A person noted a repair."""

    tag: Literal["RepairAnnotated"] = Field(default="RepairAnnotated", alias="_tag")
    reason: Text
    details: Json
