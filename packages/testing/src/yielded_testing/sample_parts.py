"""What sample payloads are made of: their subject, prompts, references, usage, diagnostics."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from yielded_core.records import identifiers as ids
from yielded_core.records import payloads as p
from yielded_core.records.identifiers import Digest, RecordId, RunId, SubmissionId, ToolCallId

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.prompt import Prompt

_SUBMISSION: Final = SubmissionId("submission-1")
_RUN: Final = ids.run_id(_SUBMISSION)
_CALL: Final = ToolCallId("call-1")


@dataclass(frozen=True, slots=True)
class Subject:
    """What sample payloads are about: one submission, its run, one turn and one tool call of it."""

    submission: SubmissionId = _SUBMISSION
    run: RunId = _RUN
    turn: int = 1
    call: ToolCallId = _CALL
    text: str = "Which thread is this?"
    """What the person says and the tool answers; its length decides the size of the records."""

    @property
    def turn_id(self) -> ids.TurnId:
        """The id of the turn."""
        return ids.TurnId(f"turn-{self.turn}")


def sample_digest(text: str) -> Digest:
    """Return a digest that stands for something with this name."""
    return Digest(hashlib.sha256(text.encode()).hexdigest())


def sample_prompt(subject: Subject) -> Prompt:
    """Return a prompt of one turn with every role and every type of part."""
    return {
        "content": [
            {"role": "system", "content": "Answer in one line."},
            {"role": "user", "content": subject.text},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "See both files."},
                    {"type": "file", "mediaType": "image/png", "data": "iVBORw0KGgo="},
                    {"type": "file", "mediaType": "text/plain", "url": "https://example.org/a"},
                ],
            },
            {
                "role": "assistant",
                "content": [
                    {"type": "reasoning", "text": "The tool knows."},
                    {"type": "text", "text": "I will look."},
                    {
                        "type": "tool-call",
                        "id": "provider-call-1",
                        "name": "search",
                        "params": {"query": "thread"},
                        "providerExecuted": True,
                    },
                    {
                        "type": "tool-result",
                        "id": "provider-call-1",
                        "name": "search",
                        "result": ["found"],
                        "isFailure": False,
                    },
                    {
                        "type": "tool-call",
                        "id": subject.call,
                        "name": "look-up",
                        "params": {"key": "thread", "limit": 3, "ratio": 0.5},
                        "providerExecuted": False,
                    },
                ],
            },
        ]
    }


def sample_history(subject: Subject) -> Prompt:
    """Return the prompt of a run whose one tool call was answered."""
    return {
        "content": [
            *sample_prompt(subject)["content"],
            {
                "role": "tool",
                "content": [
                    {
                        "type": "tool-result",
                        "id": subject.call,
                        "name": "look-up",
                        "result": {"text": subject.text},
                        "isFailure": False,
                    }
                ],
            },
        ]
    }


def sample_operation(subject: Subject) -> p.Operation:
    """Return the declaration of the subject's tool call."""
    return p.Operation(
        tool_call_id=subject.call,
        tool_name="look-up",
        execution_class="uncertain",
        execution_kind="ordinary",
        replay=sample_digest("look-up"),
    )


def sample_definitions() -> p.Definitions:
    """Return the definitions of the sample agent."""
    return p.Definitions(
        agent=sample_digest("agent"),
        model=sample_digest("model"),
        tools=sample_digest("tools"),
        replay=p.ReplayDefinitions(
            agent=sample_digest("agent"), tools={"look-up": sample_digest("look-up")}
        ),
    )


def sample_reference(record: str) -> p.EvidenceReference:
    """Return a reference to a record with this id, whatever it may hold."""
    return p.EvidenceReference(record_id=RecordId(record), digest=sample_digest(record))


def sample_usage() -> p.ModelUsage:
    """Return the usage of one model call."""
    return p.ModelUsage(model="sample-model", input_tokens=120, output_tokens=7, cost_microusd=42)


def sample_accounting() -> p.Accounting:
    """Return the accounting of a run after one model call."""
    return p.Accounting(
        programmatic_tool_calls=1,
        model_restarts=0,
        model_calls=1,
        unobserved_model_calls=0,
        input_tokens=120,
        output_tokens=7,
        last_input_tokens=120,
        last_output_tokens=7,
        cost_microusd=42,
        accounted_tool_turn=1,
        finalization_used=False,
    )


def sample_diagnostic() -> dict[str, JsonValue]:
    """Return a Diagnostic as JSON."""
    return {
        "errorTag": "AgentPolicyError",
        "message": "The run used up its turns.",
        "limit": 3,
    }
