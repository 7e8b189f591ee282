"""The payload families: names, optional keys, bounds and shapes of the record format (REC-6)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord
from yielded_core.records import payloads as p
from yielded_core.records.envelope import decode_record, encode_record, encoded_from_wire
from yielded_core.records.identifiers import (
    RecordId,
    RunId,
)
from yielded_testing.samples import sample_payload, sample_record

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue

FORMAT = """
ThreadCreated: agentId definitions
UserInputRecorded: submissionId? kind runId? input messageAdmission?
RunStarted: runId policyAccountingVersion maxDurationMillis
RunContextRecorded: version runId runScopedInput historyFrom historyThrough retained historyDigest
    priorHistoryLength contextWindowId?
ModelResponseRecorded: runId turnId turn messages messagesDigest toolResultMaxBytes
    toolSelectionMaxBytes toolOperations toolParameterRejections? toolExposure?
    runScopedPrefixLength? modelUsage? unobservedModelCalls? inputTokens? outputTokens?
    costMicrousd?
ModelCompleted: runId output messages? history?
ModelResponseInterrupted: runId supersededEpoch attemptId reason
ModelCallAborted: runId turnId turn restart reason modelUsage unobservedModelCalls
ToolCallSettled: runId toolCallId toolName result isFailure budgetRejected? toolSelection?
ToolCallUnknown: runId turn toolCallId toolName reason
ToolCallResolved: runId toolCallId resolution author reason
ToolStepSettled: runId toolCallId stepName output outputDigest
ToolApprovalRequested: runId turnId turn toolCallId toolName parametersDigest blocksInitialDispatch
ToolApprovalDecided: runId turn toolCallId decision resolver reason
RunPolicyUsageReserved: runId programmaticToolCalls finalizationUsed
RunDurationExhausted: runId
CompactionCreated: runId turn kind coversThrough summary? handoff?
RunContinuation: version runId submissionId revision recordCount recordBytes turn turnBytes
    terminalBytes terminalRecords terminalUsageBytes originalInput savedContext? latestResponse?
    terminal? lastFact position accounting
RunCompleted: runId output resultDigest? runDisposition? finishReason? exhausted?
RunFailed: runId failure
AbortRequested: submissionId author reason
SubmissionSettled: submissionId settlementId receiptId outcome runId? result? runDisposition?
    finishReason? exhausted? policyLimit? usageSummary? uncommittedModelUsage?
SubagentRequested: runId turnId turn toolCallId delegationId targetAgentId targetDigests childInput
    childInputDigest grantDigest reservationId reservationDigest childThreadId childPrincipal
    childIdempotencyKey toolCallAllowance? policy? budget? grant? depth?
SubagentStarted: runId toolCallId childThreadId childSubmissionId childReceiptId childRunId
SubagentJoined: runId toolCallId childSubmissionId childSettlementId childOutcome
    childResultDigest projectedResultDigest usageSummary usage? delegatedUsage? reservationId
    finalAccounting
SubagentLineageRecorded: parentLink parentSubmissionId childDefinitionDigests childInputDigest
    grantDigest toolCallAllowance? policy? budget? grant?
PeerMessagePrepared: messageId source sourcePrincipal operation deadlineAtMillis encodedEnvelope
WorkHandoffCompleted: preparationId ownerId
RepairAnnotated: reason details
"""
PARTS = """
Definitions: agent model tools replay?
ReplayDefinitions: agent tools
Operation: toolCallId toolName executionClass executionKind replay
EvidenceReference: recordId digest
RetainedRecord: recordId digest sequence
Accounting: programmaticToolCalls modelRestarts modelCalls unobservedModelCalls inputTokens
    outputTokens lastInputTokens lastOutputTokens costMicrousd accountedToolTurn finalizationUsed
ModelUsage: model? inputTokens? outputTokens? costMicrousd?
ParentLink: threadId runId toolCallId agentId delegationId depth
Diagnostic: errorTag message
"""

TAGS = pytest.mark.parametrize("tag", sorted(p.PAYLOADS))


def read_table(table: str) -> dict[str, set[str]]:
    entries = " ".join(table.split()).replace(": ", ":").split(" ")
    names: dict[str, set[str]] = {}
    family = ""
    for entry in entries:
        head, colon, field = entry.rpartition(":")
        family = head if colon else family
        names.setdefault(family, set()).add(field)
    return names


def described(model: Any) -> set[str]:  # noqa: ANN401
    return {
        (field.alias or name) + ("" if field.is_required() else "?")
        for name, field in model.model_fields.items()
        if name != "tag"
    }


def wire_object(tag: str) -> dict[str, Any]:
    return cast(
        "dict[str, Any]", json.loads(encode_record(sample_record(sample_payload(tag))).wire)
    )


def text_of(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def changed(tag: str, **fields: Any) -> bytes:  # noqa: ANN401
    value = wire_object(tag)
    value["payload"].update(fields)
    return text_of(value)


@pytest.mark.rule("REC-6")
def test_the_families_have_exactly_the_fields_of_the_format() -> None:
    assert {tag: described(model) for tag, model in p.PAYLOADS.items()} == read_table(FORMAT)


@pytest.mark.rule("REC-6")
def test_the_parts_have_exactly_the_fields_of_the_format() -> None:
    table = read_table(PARTS)
    assert {name: described(getattr(p, name)) for name in table} == table


@pytest.mark.rule("REC-6")
@TAGS
def test_every_required_field_is_required(tag: str) -> None:
    for name in read_table(FORMAT)[tag]:
        if not name.endswith("?"):
            value = wire_object(tag)
            del value["payload"][name]
            with pytest.raises(InvalidRecord) as refused:
                decode_record(text_of(value))
            assert refused.value.field == f"payload.{name}"


@pytest.mark.rule("REC-6")
@TAGS
def test_an_optional_key_is_absent_and_never_null(tag: str) -> None:
    for name in read_table(FORMAT)[tag]:
        if name.endswith("?"):
            with pytest.raises(InvalidRecord) as refused:
                decode_record(changed(tag, **{name[:-1]: None}))
            assert refused.value.field == f"payload.{name[:-1]}"


@pytest.mark.rule("REC-6")
def test_an_optional_key_of_a_part_is_never_null() -> None:
    value = wire_object("ModelCallAborted")
    for name in ("model", "inputTokens", "outputTokens", "costMicrousd"):
        value["payload"]["modelUsage"] = [{name: None}]
        with pytest.raises(InvalidRecord):
            decode_record(text_of(value))


@pytest.mark.rule("REC-6")
def test_required_json_may_be_null() -> None:
    wire = changed("UserInputRecorded", input=None)
    encoded = encoded_from_wire(wire)
    assert cast("p.UserInputRecorded", encoded.record.payload).input is None
    assert encode_record(encoded.record).wire == wire


WRONG: dict[str, list[tuple[str, list[Any]]]] = {
    "UserInputRecorded": [
        ("kind", ["", "User", "steer", 1, None, ["user"]]),
        ("submissionId", ["", "a\u0000", 7, "a" * 4_097]),
        ("runId", ["", {}]),
    ],
    "RunStarted": [
        ("policyAccountingVersion", [0, 2, "1", None]),
        ("maxDurationMillis", [0, -1, 1.5, "1", True, 2**53 + 2, None]),
    ],
    "RunContextRecorded": [
        ("version", [0, 2]),
        ("historyFrom", [0, -1]),
        ("historyThrough", [-1]),
        ("retained", [{}, [{}], [1], [{"recordId": "r", "digest": "0" * 64, "sequence": 0}]]),
        ("historyDigest", ["", "0" * 63, "0" * 65, "A" * 64, "g" * 64, "0" * 64 + "\n", 0]),
        ("priorHistoryLength", [-1, 0.5]),
        ("contextWindowId", ["", "a" * 257]),
    ],
    "ModelResponseRecorded": [
        ("turn", [0, -1]),
        ("toolResultMaxBytes", [255, 1_048_577, -1, True]),
        ("toolSelectionMaxBytes", [-1]),
        ("toolOperations", [{}, [1], None]),
        ("runScopedPrefixLength", [0]),
        ("unobservedModelCalls", [-1]),
        ("modelUsage", [{}, [{"inputTokens": -1}], [{"model": ""}]]),
        ("inputTokens", [-1]),
        ("messages", [[], {}, {"content": {}}, None, "text"]),
    ],
    "ModelResponseInterrupted": [
        (
            "supersededEpoch",
            [*(1, 0, "", "0", "01", "+1", "-1", " 1", "1 ", "1.0", "1e3", "0x1", "١"), "9" * 19],
        ),
        ("attemptId", [""]),
        ("reason", [None, 1, "a" * 65_537]),
    ],
    "ModelCallAborted": [
        ("restart", [0, 3, "1"]),
        ("reason", ["other", ""]),
        ("unobservedModelCalls", [None, -1]),
    ],
    "ToolCallSettled": [
        ("toolName", ["", "a" * 257]),
        ("isFailure", [0, 1, "false", None]),
        ("budgetRejected", [False, "true"]),
    ],
    "ToolCallResolved": [("resolution", ["", "done"]), ("author", [""])],
    "ToolApprovalRequested": [("blocksInitialDispatch", ["yes", 1])],
    "ToolApprovalDecided": [("decision", ["maybe", "Approved"])],
    "RunPolicyUsageReserved": [("programmaticToolCalls", [-1]), ("finalizationUsed", [0])],
    "CompactionCreated": [
        ("kind", ["", "summary"]),
        ("coversThrough", [0]),
        ("turn", [-1]),
        ("summary", [7, "a" * 65_537]),
    ],
    "RunContinuation": [
        ("revision", [0]),
        ("recordCount", [-1]),
        ("position", ["", "done"]),
        ("originalInput", [{}, {"recordId": "", "digest": "0" * 64}, None]),
        ("lastFact", [{"recordId": "r", "digest": "0"}]),
        ("accounting", [{}, None]),
    ],
    "RunCompleted": [("finishReason", ["stop"]), ("exhausted", [""]), ("resultDigest", ["0"])],
    "SubmissionSettled": [("outcome", ["", "settled"]), ("settlementId", [""])],
    "SubagentRequested": [
        ("childPrincipal", ["", "a" * 257]),
        ("childIdempotencyKey", ["", "a" * 257]),
        ("reservationId", ["", "a" * 257]),
        ("toolCallAllowance", [-1]),
        ("depth", [-1]),
        ("targetDigests", [{}, {"agent": "0" * 64, "model": "0" * 64, "tools": "x"}]),
    ],
    "SubagentJoined": [("childOutcome", ["ok"])],
    "SubagentLineageRecorded": [("parentLink", [{}, None])],
    "PeerMessagePrepared": [
        ("operation", ["forward"]),
        ("deadlineAtMillis", [0]),
        ("messageId", ["", "a" * 4_097]),
    ],
    "WorkHandoffCompleted": [("preparationId", [""]), ("ownerId", ["", "a" * 4_097])],
}


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    ("tag", "field", "values"),
    [(tag, field, values) for tag, fields in WRONG.items() for field, values in fields],
)
def test_a_wrong_value_is_refused_with_its_field(tag: str, field: str, values: list[Any]) -> None:
    for value in values:
        with pytest.raises(InvalidRecord) as refused:
            decode_record(changed(tag, **{field: value}))
        assert refused.value.field == f"payload.{field}", value
        assert refused.value.record_id == "record-1"


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        ("modelRestarts", "modelRestarts", 3),
        ("modelRestarts", "modelRestarts", -1),
        ("finalizationUsed", "finalizationUsed", 1),
        ("modelCalls", "modelCalls", -1),
    ],
)
def test_a_wrong_value_in_the_accounting_is_refused(part: str, name: str, value: int) -> None:
    wire = wire_object("RunContinuation")
    assert part in wire["payload"]["accounting"]
    wire["payload"]["accounting"][name] = value
    with pytest.raises(InvalidRecord) as refused:
        decode_record(text_of(wire))
    assert refused.value.field == "payload.accounting"


@pytest.mark.rule("REC-6")
def test_payloads_are_frozen() -> None:
    payload = p.RunDurationExhausted(run_id=RunId("r"))
    with pytest.raises(ValidationError):
        payload.run_id = RunId("s")
    record = sample_record(payload)
    with pytest.raises(ValidationError):
        record.record_id = RecordId("s")


@pytest.mark.rule("REC-3", "REC-6")
def test_a_list_holds_at_most_4096_members() -> None:
    usage: list[JsonValue] = [{} for _ in range(4_096)]
    assert decode_record(changed("ModelCallAborted", modelUsage=usage))
    with pytest.raises(InvalidRecord, match="4096"):
        decode_record(changed("ModelCallAborted", modelUsage=[*usage, {}]))
    retained: list[JsonValue] = [
        {"recordId": "r", "digest": "0" * 64, "sequence": number} for number in range(1, 4_098)
    ]
    within = {"historyFrom": 4_098, "historyThrough": 4_097}
    assert decode_record(changed("RunContextRecorded", retained=retained[:-1], **within))
    with pytest.raises(InvalidRecord, match="4096"):
        decode_record(changed("RunContextRecorded", retained=retained, **within))
