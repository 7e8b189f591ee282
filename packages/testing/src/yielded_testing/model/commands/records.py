"""The records that the commands append."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_core.records.identifiers import (
    ReceiptId,
    RunId,
    SettlementId,
    SubmissionId,
    ToolCallId,
)
from yielded_core.records.payloads import (
    AbortRequested,
    SubmissionSettled,
    ToolCallSettled,
    UserInputRecorded,
)
from yielded_testing.samples import sample_payload
from yielded_testing.suites.builders import record

if TYPE_CHECKING:
    from yielded_core.ports.work import Outcome
    from yielded_core.records.bounded_json import JsonValue
    from yielded_core.records.envelope import Record


def run_of(submission: SubmissionId) -> RunId:
    """Return the run of a submission (REC-2)."""
    return RunId(f"run:{submission}")


def thread_record(content: str) -> Record:
    """Return the record of what a thread is, or of the parent that it works for."""
    tags = {"created": "ThreadCreated", "lineage": "SubagentLineageRecorded"}
    return record(content, sample_payload(tags[content]))


def input_record(submission: SubmissionId, given: int) -> Record:
    """Return the record that holds a submission's input."""
    payload = UserInputRecorded(
        submission_id=submission, kind="user", run_id=run_of(submission), input={"input": given}
    )
    return record(f"input:{submission}", payload)


def abort_record(submission: SubmissionId) -> Record:
    """Return the record that makes an abort canonical."""
    payload = AbortRequested(submission_id=submission, author="ann", reason="")
    return record(f"abort:{submission}", payload)


def result_record(submission: SubmissionId, call: str, value: int) -> Record:
    """Return the committed result of a call in a submission's run."""
    payload = ToolCallSettled(
        run_id=run_of(submission),
        tool_call_id=ToolCallId(call),
        tool_name="tool",
        result={"value": value},
        is_failure=False,
    )
    return record(f"result:{submission}:{call}:{value}", payload)


def settlement_record(
    submission: SubmissionId, receipt: ReceiptId, outcome: Outcome, value: int
) -> Record:
    """Return the settlement record of a submission; `value` tells contents apart."""
    results: dict[Outcome, JsonValue] = {
        "completed": {"value": value},
        "failed": {"errorTag": "Failed", "message": f"{value}"},
        "aborted": None,
    }
    payload = SubmissionSettled(
        submission_id=submission,
        settlement_id=SettlementId(f"settlement:{submission}"),
        receipt_id=receipt,
        outcome=outcome,
        result=results[outcome],
    )
    return record(f"settlement:{submission}", payload)
