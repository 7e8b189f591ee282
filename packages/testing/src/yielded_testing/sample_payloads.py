"""One valid payload of every family, about a given subject."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from yielded_core.records import identifiers as ids
from yielded_core.records import payloads as p
from yielded_core.records.canonical import json_digest
from yielded_core.records.identifiers import RecordId, RunId, SubmissionId
from yielded_testing.sample_parts import (
    Subject,
    sample_accounting,
    sample_definitions,
    sample_diagnostic,
    sample_digest,
    sample_history,
    sample_operation,
    sample_prompt,
    sample_reference,
    sample_usage,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from yielded_core.records.bounded_json import JsonValue


def _thread_created(_subject: Subject) -> p.Payload:
    return p.ThreadCreated(agent_id=ids.AgentId("agent-1"), definitions=sample_definitions())


def _user_input_recorded(subject: Subject) -> p.Payload:
    return p.UserInputRecorded(
        submission_id=subject.submission,
        kind="user",
        run_id=subject.run,
        input={"text": subject.text},
        message_admission={"lane": "main"},
    )


def _run_started(subject: Subject) -> p.Payload:
    return p.RunStarted(
        run_id=subject.run, policy_accounting_version=1, max_duration_millis=600_000
    )


def _run_context_recorded(subject: Subject) -> p.Payload:
    return p.RunContextRecorded(
        version=1,
        run_id=subject.run,
        run_scoped_input=["Today is a sample day."],
        history_from=9,
        history_through=12,
        retained=(
            p.RetainedRecord(
                record_id=RecordId("record-2"), digest=sample_digest("record-2"), sequence=2
            ),
            p.RetainedRecord(
                record_id=RecordId("record-5"), digest=sample_digest("record-5"), sequence=5
            ),
        ),
        history_digest=sample_digest("history"),
        prior_history_length=4,
        context_window_id="window-1",
    )


def _model_response_recorded(subject: Subject) -> p.Payload:
    messages = sample_prompt(subject)
    return p.ModelResponseRecorded(
        run_id=subject.run,
        turn_id=subject.turn_id,
        turn=subject.turn,
        messages=messages,
        messages_digest=sample_digest("messages"),
        tool_result_max_bytes=65_536,
        tool_selection_max_bytes=1_024,
        tool_operations=(sample_operation(subject),),
        tool_parameter_rejections=[],
        tool_exposure={"look-up": "always"},
        run_scoped_prefix_length=1,
        model_usage=(sample_usage(),),
        unobserved_model_calls=0,
        input_tokens=120,
        output_tokens=7,
        cost_microusd=42,
    )


def _model_completed(subject: Subject) -> p.Payload:
    return p.ModelCompleted(
        run_id=subject.run,
        output={"text": "It is a sample."},
        messages={
            "content": [
                {"role": "assistant", "content": [{"type": "text", "text": "It is a sample."}]}
            ]
        },
        history=sample_history(subject),
    )


def _model_response_interrupted(subject: Subject) -> p.Payload:
    return p.ModelResponseInterrupted(
        run_id=subject.run,
        superseded_epoch="999999999999999999",
        attempt_id=ids.AttemptId("attempt-1"),
        reason="another attempt took over",
    )


def _model_call_aborted(subject: Subject) -> p.Payload:
    return p.ModelCallAborted(
        run_id=subject.run,
        turn_id=subject.turn_id,
        turn=subject.turn,
        restart=1,
        reason="joined-input",
        model_usage=(sample_usage(), p.ModelUsage()),
        unobserved_model_calls=1,
    )


def _tool_call_settled(subject: Subject) -> p.Payload:
    return p.ToolCallSettled(
        run_id=subject.run,
        tool_call_id=subject.call,
        tool_name="look-up",
        result={"text": subject.text},
        is_failure=False,
        budget_rejected=True,
        tool_selection=["look-up"],
    )


def _tool_call_unknown(subject: Subject) -> p.Payload:
    return p.ToolCallUnknown(
        run_id=subject.run,
        turn=subject.turn,
        tool_call_id=subject.call,
        tool_name="look-up",
        reason="the process ended while the tool ran",
    )


def _tool_call_resolved(subject: Subject) -> p.Payload:
    return p.ToolCallResolved(
        run_id=subject.run,
        tool_call_id=subject.call,
        resolution="never-started",
        author="operator",
        reason="the service's own log has no such call",
    )


def _tool_step_settled(subject: Subject) -> p.Payload:
    output: JsonValue = {"step": 1, "text": subject.text}
    return p.ToolStepSettled(
        run_id=subject.run,
        tool_call_id=subject.call,
        step_name="fetch",
        output=output,
        output_digest=json_digest(output),
    )


def _tool_approval_requested(subject: Subject) -> p.Payload:
    return p.ToolApprovalRequested(
        run_id=subject.run,
        turn_id=subject.turn_id,
        turn=subject.turn,
        tool_call_id=subject.call,
        tool_name="look-up",
        parameters_digest=sample_digest("parameters"),
        blocks_initial_dispatch=True,
    )


def _tool_approval_decided(subject: Subject) -> p.Payload:
    return p.ToolApprovalDecided(
        run_id=subject.run,
        turn=subject.turn,
        tool_call_id=subject.call,
        decision="approved",
        resolver="operator",
        reason="harmless",
    )


def _run_policy_usage_reserved(subject: Subject) -> p.Payload:
    return p.RunPolicyUsageReserved(
        run_id=subject.run, programmatic_tool_calls=1, finalization_used=False
    )


def _run_duration_exhausted(subject: Subject) -> p.Payload:
    return p.RunDurationExhausted(run_id=subject.run)


def _compaction_created(subject: Subject) -> p.Payload:
    return p.CompactionCreated(
        run_id=subject.run,
        turn=subject.turn,
        kind="summarize",
        covers_through=8,
        summary="They greeted each other.",
        handoff={"open": []},
    )


def _run_continuation(subject: Subject) -> p.Payload:
    return p.RunContinuation(
        version=1,
        run_id=subject.run,
        submission_id=subject.submission,
        revision=1,
        record_count=4,
        record_bytes=4_096,
        turn=subject.turn,
        turn_bytes=2_048,
        terminal_bytes=512,
        terminal_records=1,
        terminal_usage_bytes=64,
        original_input=sample_reference(ids.input_record_id(subject.submission)),
        saved_context=sample_reference("context-1"),
        latest_response=sample_reference("response-1"),
        terminal=sample_reference("completed-1"),
        last_fact=sample_reference("completed-1"),
        position="settling",
        accounting=sample_accounting(),
    )


def _run_completed(subject: Subject) -> p.Payload:
    output: JsonValue = {"text": "It is a sample."}
    return p.RunCompleted(
        run_id=subject.run,
        output=output,
        result_digest=json_digest(output),
        finish_reason="budget-exhausted",
        exhausted="turns",
    )


def _run_failed(subject: Subject) -> p.Payload:
    return p.RunFailed(run_id=subject.run, failure=sample_diagnostic())


def _abort_requested(subject: Subject) -> p.Payload:
    return p.AbortRequested(
        submission_id=subject.submission, author="operator", reason="no longer needed"
    )


def _submission_settled(subject: Subject) -> p.Payload:
    return p.SubmissionSettled(
        submission_id=subject.submission,
        settlement_id=ids.settlement_id(subject.submission),
        receipt_id=ids.ReceiptId("receipt-1"),
        outcome="completed",
        run_id=subject.run,
        result={"text": "It is a sample."},
        run_disposition={"keep": True},
        usage_summary={"modelCalls": 1},
        uncommitted_model_usage=[],
    )


def _subagent_requested(subject: Subject) -> p.Payload:
    child: JsonValue = {"text": subject.text}
    return p.SubagentRequested(
        run_id=subject.run,
        turn_id=subject.turn_id,
        turn=subject.turn,
        tool_call_id=subject.call,
        delegation_id=ids.DelegationId("delegation-1"),
        target_agent_id=ids.AgentId("agent-2"),
        target_digests=sample_definitions(),
        child_input=child,
        child_input_digest=json_digest(child),
        grant_digest=sample_digest("grant"),
        reservation_id="reservation-1",
        reservation_digest=sample_digest("reservation"),
        child_thread_id=ids.ThreadId("thread-2"),
        child_principal=ids.Principal("agent-1"),
        child_idempotency_key=ids.IdempotencyKey("delegation-1"),
        tool_call_allowance=8,
        policy={"turns": 2},
        budget={"costMicrousd": 1_000},
        grant={"tools": ["look-up"]},
        depth=1,
    )


def _subagent_started(subject: Subject) -> p.Payload:
    return p.SubagentStarted(
        run_id=subject.run,
        tool_call_id=subject.call,
        child_thread_id=ids.ThreadId("thread-2"),
        child_submission_id=SubmissionId("submission-2"),
        child_receipt_id=ids.ReceiptId("receipt-2"),
        child_run_id=RunId("run:submission-2"),
    )


def _subagent_joined(subject: Subject) -> p.Payload:
    return p.SubagentJoined(
        run_id=subject.run,
        tool_call_id=subject.call,
        child_submission_id=SubmissionId("submission-2"),
        child_settlement_id=ids.settlement_id(SubmissionId("submission-2")),
        child_outcome="completed",
        child_result_digest=sample_digest("result"),
        projected_result_digest=sample_digest("projected"),
        usage_summary={"modelCalls": 1},
        usage={"inputTokens": 10},
        delegated_usage={"inputTokens": 0},
        reservation_id="reservation-1",
        final_accounting={"toolCalls": 1},
    )


def _subagent_lineage_recorded(subject: Subject) -> p.Payload:
    return p.SubagentLineageRecorded(
        parent_link=p.ParentLink(
            thread_id=ids.ThreadId("thread-1"),
            run_id=subject.run,
            tool_call_id=subject.call,
            agent_id=ids.AgentId("agent-1"),
            delegation_id=ids.DelegationId("delegation-1"),
            depth=1,
        ),
        parent_submission_id=subject.submission,
        child_definition_digests=sample_definitions(),
        child_input_digest=json_digest({"text": subject.text}),
        grant_digest=sample_digest("grant"),
        tool_call_allowance=8,
        policy={"turns": 2},
        budget={"costMicrousd": 1_000},
        grant={"tools": ["look-up"]},
    )


def _peer_message_prepared(subject: Subject) -> p.Payload:
    return p.PeerMessagePrepared(
        message_id="message-1",
        source={"thread": "thread-1"},
        source_principal=ids.Principal("agent-1"),
        operation="send",
        deadline_at_millis=1_893_553_445_678,
        encoded_envelope={"text": subject.text},
    )


def _work_handoff_completed(_subject: Subject) -> p.Payload:
    return p.WorkHandoffCompleted(preparation_id=RecordId("record-27"), owner_id="thread-2")


def _repair_annotated(_subject: Subject) -> p.Payload:
    return p.RepairAnnotated(reason="a person looked at the run", details={"ticket": 7})


BUILDERS: Final[Mapping[str, Callable[[Subject], p.Payload]]] = MappingProxyType(
    {
        "ThreadCreated": _thread_created,
        "UserInputRecorded": _user_input_recorded,
        "RunStarted": _run_started,
        "RunContextRecorded": _run_context_recorded,
        "ModelResponseRecorded": _model_response_recorded,
        "ModelCompleted": _model_completed,
        "ModelResponseInterrupted": _model_response_interrupted,
        "ModelCallAborted": _model_call_aborted,
        "ToolCallSettled": _tool_call_settled,
        "ToolCallUnknown": _tool_call_unknown,
        "ToolCallResolved": _tool_call_resolved,
        "ToolStepSettled": _tool_step_settled,
        "ToolApprovalRequested": _tool_approval_requested,
        "ToolApprovalDecided": _tool_approval_decided,
        "RunPolicyUsageReserved": _run_policy_usage_reserved,
        "RunDurationExhausted": _run_duration_exhausted,
        "CompactionCreated": _compaction_created,
        "RunContinuation": _run_continuation,
        "RunCompleted": _run_completed,
        "RunFailed": _run_failed,
        "AbortRequested": _abort_requested,
        "SubmissionSettled": _submission_settled,
        "SubagentRequested": _subagent_requested,
        "SubagentStarted": _subagent_started,
        "SubagentJoined": _subagent_joined,
        "SubagentLineageRecorded": _subagent_lineage_recorded,
        "PeerMessagePrepared": _peer_message_prepared,
        "WorkHandoffCompleted": _work_handoff_completed,
        "RepairAnnotated": _repair_annotated,
    }
)
"""The builder of each family, by its tag."""
