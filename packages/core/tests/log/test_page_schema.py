"""The published JSON Schema of a transfer page: current, and in agreement with what is exported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from yielded_core.errors import InvalidRecord
from yielded_core.log.fact_schema import FACTS, read_fact
from yielded_core.log.schema import PAGE_SCHEMA_FILE, page_schema, page_schema_text
from yielded_core.storage import open_storage
from yielded_testing.clock import VirtualClock
from yielded_testing.suites.archive_lanes import every_state
from yielded_testing.suites.archive_pages import Page, parsed_pages
from yielded_testing.suites.builders import canonical
from yielded_testing.suites.transfer import lines_of

if TYPE_CHECKING:
    from yielded_core.ports.work import FactSection

VALIDATOR: Any = Draft202012Validator(page_schema())
SECTIONS: tuple[FactSection, ...] = tuple(FACTS)


@pytest.fixture
async def pages() -> list[Page]:
    """The pages of a thread whose work is in every state."""
    async with open_storage("memory://") as storage:
        await every_state(storage, VirtualClock())
        return parsed_pages(await lines_of(storage))


@pytest.mark.rule("ARC-1", "ARC-2")
def test_the_published_file_is_what_the_models_say() -> None:
    """After a change of a model run `python -m yielded_core.log.schema`."""
    assert PAGE_SCHEMA_FILE.read_text(encoding="utf-8") == page_schema_text()
    Draft202012Validator.check_schema(page_schema())


@pytest.mark.rule("ARC-2")
def test_every_page_of_an_export_is_valid(pages: list[Page]) -> None:
    for page in pages:
        VALIDATOR.validate(page)


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize("section", SECTIONS)
def test_the_schema_refuses_what_a_reader_refuses(pages: list[Page], section: FactSection) -> None:
    page = next(each for each in pages if each["section"] == section)
    fact = page["facts"][0]
    assert read_fact(section, canonical(fact)).model_fields_set
    for changed in (
        {**fact, "future": None},
        {**fact, "submissionId": ""},
        *({name: fact[name] for name in fact if name != left} for left in fact if left != "result"),
    ):
        assert not VALIDATOR.is_valid({**page, "facts": [changed]})
        with pytest.raises(InvalidRecord) as refused:
            read_fact(section, canonical(changed))
        assert refused.value.record_id == section


@pytest.mark.rule("ARC-2")
def test_a_page_has_a_batch_or_the_facts_of_its_section(pages: list[Page]) -> None:
    batch = pages[0]
    admission = next(each for each in pages if each["section"] == "admissions")
    deliveries = pages[-1]
    assert not VALIDATOR.is_valid({**batch, "facts": []})
    assert not VALIDATOR.is_valid({**admission, "batch": batch["batch"]})
    assert not VALIDATOR.is_valid({**admission, "section": "approvals"})
    assert not VALIDATOR.is_valid({**deliveries, "facts": admission["facts"]})


@pytest.mark.rule("ARC-2")
@pytest.mark.parametrize(
    ("section", "changes"),
    [
        ("resolutions", {"kind": "factual", "resolution": "safe-to-retry"}),
        ("resolutions", {"kind": "execution", "resolution": "never-happened"}),
        ("resolutions", {"kind": "execution", "resolution": "safe-to-retry", "result": 1.0}),
        ("approvals", {"reason": "\x00"}),
        ("approvals", {"decidedAt": "2026-02-30T00:00:00.000Z"}),
        ("abortCommands", {"author": "x" * 257}),
        ("admissions", {"principal": "\U0001f600" * 129}),
        ("admissions", {"queueSequence": 0.0}),
        ("admissions", {"group": None}),
    ],
)
def test_what_no_ledger_holds_is_refused(
    pages: list[Page], section: FactSection, changes: dict[str, object]
) -> None:
    fact = next(each for each in pages if each["section"] == section)["facts"][0]
    with pytest.raises(InvalidRecord):
        read_fact(section, canonical({**fact, **changes}))
