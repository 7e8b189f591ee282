"""Identifiers and derived identities (REC-1, REC-2), counted in UTF-16 code units (REC-0)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.errors import InvalidIdentifier
from yielded_core.records import identifiers as ids
from yielded_core.records.bounds import LAST_EPOCH
from yielded_testing.strategies import identifiers, texts

SUBMISSION = ids.SubmissionId("s:1")

SHORT = ["principal", "idempotency key", "ownership token", "name"]
LONG = ["thread id", "submission id", "record id", "producer id"]


@pytest.mark.rule("REC-0")
@given(texts())
def test_a_character_is_a_utf16_code_unit(text: str) -> None:
    assert ids.utf16_length(text) == len(text.encode("utf-16-le")) // 2


@pytest.mark.rule("REC-1")
@given(identifiers(longest=100))
def test_text_without_nul_is_an_identifier(text: str) -> None:
    assert ids.check_identifier(ids.ThreadId(text), "thread id") == text


@pytest.mark.rule("REC-0", "REC-1")
@pytest.mark.parametrize(
    ("kind", "limit"), [*((kind, 256) for kind in SHORT), *((kind, 4_096) for kind in LONG)]
)
def test_the_bound_is_exact(kind: str, limit: int) -> None:
    for text in ("a" * limit, "é" * limit, "\U0001f600" * (limit // 2)):
        assert ids.check_identifier(text, kind) == text
        with pytest.raises(InvalidIdentifier, match=f"longer than {limit} characters"):
            ids.check_identifier(text + "a", kind)


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "empty"),
        ("\u0000", r"U\+0000"),
        ("a\u0000b", r"U\+0000"),
        ("é\u0000", r"U\+0000"),
        ("\ud800", "lone surrogate"),
        ("a\udfffb", "lone surrogate"),
        ("\ude00\ud83d", "lone surrogate"),
    ],
)
def test_what_no_adapter_could_keep_is_refused(value: str, reason: str) -> None:
    with pytest.raises(InvalidIdentifier, match=reason) as refused:
        ids.check_identifier(value, "thread id")
    assert refused.value.fields()["kind"] == "thread id"


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("value", [None, 7, b"bytes", ["a"]])
def test_what_is_not_text_is_no_identifier(value: object) -> None:
    assert ids.identifier_fault(value, 256) == "it is not text"


@pytest.mark.rule("REC-1")
def test_an_epoch_has_at_most_18_digits() -> None:
    assert ids.check_epoch(1) == 1
    assert ids.check_epoch(LAST_EPOCH) == 10**18 - 1
    for epoch in (0, -1, LAST_EPOCH + 1, True):
        with pytest.raises(InvalidIdentifier):
            ids.check_epoch(epoch)


@pytest.mark.rule("REC-2")
def test_derived_identities() -> None:
    assert ids.input_record_id(SUBMISSION) == "input:s:1"
    assert ids.settlement_record_id(SUBMISSION) == "settlement:s:1"
    assert ids.abort_record_id(SUBMISSION) == "abort:s:1"
    assert ids.settlement_id(SUBMISSION) == "settlement:s:1"
    assert ids.input_batch_id(SUBMISSION) == "submission-input:s:1"
    assert ids.settlement_batch_id(SUBMISSION) == "submission-settlement:s:1"
    assert ids.abort_batch_id(SUBMISSION) == "submission-abort:s:1"
    assert ids.run_id(SUBMISSION) == "run:s:1"


@pytest.mark.rule("REC-2")
@given(st.lists(texts(), max_size=4), st.lists(texts(), max_size=4))
def test_composed_identities_never_merge(one: list[str], other: list[str]) -> None:
    assert json.loads(ids.composed(*one)) == [1, *one]
    assert (ids.composed(*one) == ids.composed(*other)) == (one == other)
