"""Text in payloads: identifiers, names and long text, in UTF-16 code units (REC-0, REC-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from pydantic import ValidationError

from yielded_core.errors import InvalidRecord
from yielded_core.records import payloads as p
from yielded_core.records.envelope import decode_record, encode_record, encoded_from_wire
from yielded_core.records.identifiers import Digest, RecordId, RunId, SubmissionId
from yielded_testing.samples import sample_payload, sample_record

if TYPE_CHECKING:
    from collections.abc import Callable


def rebuilt(tag: str, **changes: Any) -> p.Payload:  # noqa: ANN401
    payload = sample_payload(tag)
    arguments: dict[str, Any] = {
        name: getattr(payload, name) for name in payload.model_fields_set if name != "tag"
    }
    return cast("p.Payload", p.PAYLOADS[tag](**{**arguments, **changes}))


def _name(text: str) -> p.Payload:
    return p.AbortRequested(submission_id=SubmissionId("s"), author=text, reason="")


def _principal(text: str) -> p.Payload:
    return rebuilt("PeerMessagePrepared", source_principal=text)


def _key(text: str) -> p.Payload:
    return rebuilt("SubagentRequested", child_idempotency_key=text)


def _identifier(text: str) -> p.Payload:
    return p.RunDurationExhausted(run_id=RunId(text))


def _optional_identifier(text: str) -> p.Payload:
    return p.UserInputRecorded(submission_id=SubmissionId(text), kind="user", input=0)


def _text(text: str) -> p.Payload:
    return p.RepairAnnotated(reason=text, details=0)


def _optional_text(text: str) -> p.Payload:
    return p.CompactionCreated(
        run_id=RunId("r"), turn=0, kind="summarize", covers_through=1, summary=text
    )


def _nested_identifier(text: str) -> p.Payload:
    reference = p.EvidenceReference(record_id=RecordId(text), digest=Digest("0" * 64))
    return rebuilt("RunContinuation", terminal=reference)


def _name_in_a_list(text: str) -> p.Payload:
    return rebuilt("ModelCallAborted", model_usage=(p.ModelUsage(), p.ModelUsage(model=text)))


def _name_as_a_key(text: str) -> p.Payload:
    digest = Digest("0" * 64)
    replay = p.ReplayDefinitions(agent=digest, tools={text: digest})
    definitions = p.Definitions(agent=digest, model=digest, tools=digest, replay=replay)
    return rebuilt("ThreadCreated", definitions=definitions)


@pytest.mark.rule("REC-0", "REC-1", "REC-6")
@pytest.mark.parametrize(
    ("build", "limit"),
    [
        *((_name, 256), (_principal, 256), (_key, 256), (_identifier, 4_096)),
        *((_optional_identifier, 4_096), (_text, 65_536), (_optional_text, 65_536)),
        *((_nested_identifier, 4_096), (_name_in_a_list, 256), (_name_as_a_key, 256)),
    ],
)
def test_text_is_bounded_in_utf16_units(build: Callable[[str], p.Payload], limit: int) -> None:
    for fits in ("a" * limit, "é" * limit, "\U0001f600" * (limit // 2)):
        encoded = encode_record(sample_record(build(fits)))
        assert encoded_from_wire(encoded.wire) == encoded
        beyond = fits[:-1] + ("\U0001f600a" if fits[-1] == "\U0001f600" else fits[-1] * 2)
        with pytest.raises(ValidationError):
            build(beyond)
        with pytest.raises(InvalidRecord):
            decode_record(encoded.wire.replace(fits.encode(), beyond.encode()))


@pytest.mark.rule("REC-1", "REC-6")
@pytest.mark.parametrize("bad", ["", "a\u0000", "\u0000é", "\ud800", "é\udfff"])
def test_identifiers_and_names_hold_no_nul_and_no_lone_surrogate(bad: str) -> None:
    for build in (_name, _principal, _key, _identifier, _optional_identifier):
        with pytest.raises(ValidationError):
            build(bad)


@pytest.mark.rule("REC-3", "REC-6")
def test_text_may_be_empty_and_may_hold_nul() -> None:
    for text in ("", "a\u0000b", "\u0000"):
        encoded = encode_record(sample_record(_text(text)))
        assert cast("p.RepairAnnotated", encoded.record.payload).reason == text


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize("bad", ["\ud800", "é\udfff"])
def test_text_holds_no_lone_surrogate(bad: str) -> None:
    with pytest.raises(ValidationError):
        _text(bad)


@pytest.mark.rule("REC-6")
@pytest.mark.parametrize("bad", [7, b"bytes", None, ["a"]])
def test_nothing_is_converted_to_text(bad: Any) -> None:  # noqa: ANN401
    for build in (_name, _identifier, _text):
        with pytest.raises(ValidationError):
            build(bad)
