"""Fresh, current or refused: the judgement over what an inspection found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yielded_core.errors import StoreRefused
from yielded_core.layout.classify import SHOWN_DIFFERENCES, Current, Fresh, classify
from yielded_core.layout.facts import Column, Facts, Found, Header, Index, Table
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT

VERSION = Column("layout_version", "INTEGER", not_null=True, default=None, key=0, definition="")
HEADER_TABLE = Table("yielded_header", (VERSION,), (), "")
EXPECTED = Facts((HEADER_TABLE, replace(HEADER_TABLE, name="yielded_threads")))
ROW: dict[str, object] = {
    "singleton": 1,
    "layout_version": LAYOUT_VERSION,
    "record_format": RECORD_FORMAT,
    "options": "{}",
    "incarnation": "one",
    "created_at": 5,
}
STORE = Found(EXPECTED, (ROW,))
NOTHING = Found(Facts(()), ())
SOMEBODY = Found(Facts((), foreign=("table users", "view adults")), ())


def refusal(found: Found, *, shared: bool = False) -> StoreRefused:
    with pytest.raises(StoreRefused) as caught:
        classify(EXPECTED, found, shared=shared)
    return caught.value


def with_row(**changes: object) -> Found:
    return replace(STORE, header_rows=({**ROW, **changes},))


@pytest.mark.rule("LAY-2")
def test_a_store_of_this_layout_is_current_with_its_header_and_extra_indexes() -> None:
    header = Header(LAYOUT_VERSION, RECORD_FORMAT, "{}", "one", 5)
    assert classify(EXPECTED, STORE, shared=False) == Current(header, ())
    mine = Index("mine", "yielded_threads", unique=False, definition="")
    found = replace(STORE, facts=replace(EXPECTED, indexes=(mine,), foreign=("table users",)))
    assert classify(EXPECTED, found, shared=False) == Current(header, ("mine on yielded_threads",))


@pytest.mark.rule("LAY-1")
def test_nothing_is_fresh_and_other_people_are_joined_only_when_meant() -> None:
    assert classify(EXPECTED, NOTHING, shared=False) == Fresh()
    assert classify(EXPECTED, NOTHING, shared=True) == Fresh()
    assert classify(EXPECTED, SOMEBODY, shared=True) == Fresh()
    refused = refusal(SOMEBODY)
    assert refused.reason == "foreign"
    assert "table users, view adults" in str(refused)
    assert "?shared=true" in str(refused)


@pytest.mark.rule("LAY-1")
def test_a_database_that_cannot_hold_a_store_is_foreign_even_when_shared() -> None:
    refused = refusal(replace(SOMEBODY, remarks=("it is unfit",)), shared=True)
    assert (refused.reason, refused.differences) == ("foreign", ("it is unfit",))


@pytest.mark.rule("LAY-3")
@pytest.mark.parametrize(
    ("version", "reason"), [(20, "predecessor"), (1, "predecessor"), (22, "newer")]
)
def test_another_version_is_named_whatever_else_it_holds(version: int, reason: str) -> None:
    other = replace(STORE, facts=Facts((HEADER_TABLE,)), remarks=("strange",))
    refused = refusal(replace(other, header_rows=({"layout_version": version},)))
    assert refused.reason == reason
    assert refused.differences == (f"header: layout_version is {version}, expected 21",)
    assert "import" in str(refused)


@pytest.mark.rule("LAY-3")
@pytest.mark.parametrize(
    ("found", "named"),
    [
        (replace(STORE, header_rows=()), "header: it has no row"),
        (replace(STORE, header_rows=(ROW, ROW)), "header: it has more than one row"),
        (with_row(layout_version="21"), "header: a value is missing or not of its type"),
        (with_row(incarnation=None), "header: a value is missing or not of its type"),
        (with_row(record_format="x@1"), f"header: record_format is x@1, expected {RECORD_FORMAT}"),
        (with_row(options='{"p":8}'), 'header: options is {"p":8}, expected {}'),
        (replace(STORE, remarks=("it is strange",)), "it is strange"),
        (
            replace(STORE, facts=Facts((replace(HEADER_TABLE, name="yielded_threads"),))),
            "table yielded_header is missing",
        ),
        (replace(STORE, facts=Facts((HEADER_TABLE,))), "table yielded_threads is missing"),
        (
            Found(Facts((), others=("view yielded_x",)), ()),
            "unexpected view yielded_x",
        ),
    ],
)
def test_everything_in_between_is_ambiguous(found: Found, named: str) -> None:
    refused = refusal(found, shared=True)
    assert refused.reason == "ambiguous"
    assert named in refused.differences
    assert named in str(refused) or len(refused.differences) > SHOWN_DIFFERENCES


@pytest.mark.rule("LAY-3")
def test_the_message_is_bounded_and_the_fields_are_complete() -> None:
    remarks = tuple(f"remark {number}" for number in range(SHOWN_DIFFERENCES + 3))
    refused = refusal(replace(STORE, remarks=remarks))
    assert refused.differences == remarks
    assert str(refused).count("remark") == SHOWN_DIFFERENCES
    assert "; and 3 more" in str(refused)
