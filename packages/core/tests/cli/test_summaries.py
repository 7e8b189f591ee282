"""Every payload family says something in the timeline, and a message says its text."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.cli.summaries import summary_of, text_of
from yielded_core.records.payloads import PAYLOADS
from yielded_testing.samples import sample_payload

if TYPE_CHECKING:
    from yielded_core.records.bounded_json import JsonValue


@pytest.mark.parametrize("tag", PAYLOADS)
def test_a_family_has_a_summary(tag: str) -> None:
    summary = summary_of(sample_payload(tag))
    assert summary.text.strip()
    assert "_tag" not in summary.text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("said", "said"),
        ({"role": "user", "content": "said"}, "said"),
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "a b"),
        ({"errorTag": "E", "message": "broken"}, "broken"),
        ({"content": {"content": {"content": {"content": "deep"}}}}, "deep"),
        ({"content": {"content": {"content": {"content": {"text": "x"}}}}}, '{"text":"x"}'),
        ({"content": [{"type": "image"}]}, '[{"type":"image"}]'),
        ({"content": []}, "[]"),
        ({"answer": 42}, '{"answer":42}'),
        (None, "null"),
        (True, "true"),
    ],
)
def test_json_says_its_text(value: JsonValue, text: str) -> None:
    assert text_of(value) == text
