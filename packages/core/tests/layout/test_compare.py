"""Every difference between two layouts is named, and nothing else is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from yielded_core.layout.compare import SHOWN_CHARACTERS, differences, extra_indexes, shown
from yielded_core.layout.facts import Column, Constraint, Facts, Index, Table, Trigger

ID = Column("thread_id", "TEXT", not_null=True, default=None, key=1, definition="text not null")
TAIL = Column("tail", "BLOB", not_null=True, default=None, key=0, definition="blob not null")
CHECK = Constraint("yielded_threads_tail", "check ( length ( tail ) = 32 )")
THREADS = Table("yielded_threads", (ID, TAIL), (CHECK,), "STRICT")
RECORDS = Table("yielded_records", (ID,), (), "")
INDEX = Index("yielded_threads_by_tail", "yielded_threads", unique=False, definition="on ( tail )")
EXPECTED = Facts((THREADS, RECORDS), (INDEX,))
MINE = Index("mine", "yielded_threads", unique=False, definition="on ( thread_id , tail )")


def with_tail(column: Column) -> Facts:
    return replace(EXPECTED, tables=(replace(THREADS, columns=(ID, column)), RECORDS))


def with_threads(table: Table) -> Facts:
    return replace(EXPECTED, tables=(table, RECORDS))


@pytest.mark.rule("LAY-2")
@pytest.mark.parametrize(
    ("found", "named"),
    [
        (replace(EXPECTED, tables=(THREADS,)), ["table yielded_records is missing"]),
        (
            replace(EXPECTED, tables=(*EXPECTED.tables, replace(RECORDS, name="yielded_old"))),
            ["unexpected table yielded_old"],
        ),
        (
            with_threads(replace(THREADS, columns=(ID,))),
            ["table yielded_threads: column tail is missing"],
        ),
        (
            with_tail(replace(TAIL, name="end")),
            [
                "table yielded_threads: column tail is missing",
                "table yielded_threads: unexpected column end",
            ],
        ),
        (
            with_threads(replace(THREADS, columns=(TAIL, ID))),
            ["table yielded_threads: its columns are in another order"],
        ),
        (
            with_tail(replace(TAIL, type="TEXT", definition="text not null")),
            ["table yielded_threads: column tail has type TEXT, expected BLOB"],
        ),
        (
            with_tail(replace(TAIL, type="", definition="not null")),
            ["table yielded_threads: column tail has type none, expected BLOB"],
        ),
        (
            with_tail(replace(TAIL, not_null=False, definition="blob")),
            ["table yielded_threads: column tail may be NULL"],
        ),
        (
            with_tail(replace(TAIL, default="x'00'", key=2, definition="other")),
            [
                "table yielded_threads: column tail has another default",
                "table yielded_threads: column tail has another place in the key",
            ],
        ),
        (
            with_tail(replace(TAIL, definition="blob not null collate nocase")),
            ["table yielded_threads: column tail is declared differently"],
        ),
        (
            with_threads(replace(THREADS, constraints=())),
            ["table yielded_threads: constraint yielded_threads_tail is missing"],
        ),
        (
            with_threads(replace(THREADS, constraints=(CHECK, Constraint("mine", "check ( 1 )")))),
            ["table yielded_threads: unexpected constraint mine"],
        ),
        (
            with_threads(replace(THREADS, constraints=(replace(CHECK, definition="check ( 1 )"),))),
            ["table yielded_threads: constraint yielded_threads_tail is different"],
        ),
        (
            with_threads(replace(THREADS, options="")),
            ["table yielded_threads: it has no options, expected STRICT"],
        ),
        (
            replace(EXPECTED, tables=(THREADS, replace(RECORDS, options="STRICT"))),
            ["table yielded_records: it has STRICT, expected no options"],
        ),
        (
            replace(EXPECTED, indexes=()),
            ["index yielded_threads_by_tail on yielded_threads is missing"],
        ),
        (
            replace(EXPECTED, indexes=(replace(INDEX, definition="on ( thread_id )"),)),
            ["index yielded_threads_by_tail on yielded_threads is different"],
        ),
        (
            replace(EXPECTED, indexes=(INDEX, replace(MINE, unique=True))),
            ["unexpected unique index mine on yielded_threads"],
        ),
        (
            replace(EXPECTED, triggers=(Trigger("watch", "yielded_records"),)),
            ["unexpected trigger watch on yielded_records"],
        ),
        (replace(EXPECTED, others=("view yielded_x",)), ["unexpected view yielded_x"]),
    ],
)
def test_a_difference_is_named(found: Facts, named: list[str]) -> None:
    assert list(differences(EXPECTED, found)) == named
    assert differences(found, found) == ()


@pytest.mark.rule("LAY-2")
def test_a_column_that_lost_its_null_is_named_from_the_other_side() -> None:
    nullable = with_tail(replace(TAIL, not_null=False, definition="blob"))
    named = ("table yielded_threads: column tail may not be NULL",)
    assert differences(nullable, EXPECTED) == named


@pytest.mark.rule("LAY-2")
def test_declared_triggers_and_other_objects_may_not_be_missing() -> None:
    declared = replace(
        EXPECTED, triggers=(Trigger("guard", "yielded_threads"),), others=("function yielded_f",)
    )
    assert differences(declared, EXPECTED) == (
        "trigger guard on yielded_threads is missing",
        "function yielded_f is missing",
    )
    assert differences(declared, declared) == ()


@pytest.mark.rule("LAY-2")
def test_an_operators_index_and_other_peoples_objects_are_no_difference() -> None:
    found = replace(EXPECTED, indexes=(INDEX, MINE), foreign=("table users",))
    assert differences(EXPECTED, found) == ()
    assert extra_indexes(EXPECTED, found) == ("mine on yielded_threads",)
    assert extra_indexes(EXPECTED, EXPECTED) == ()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("plain name", "plain name"),
        ("two\nlines", r"'two\nlines'"),
        ("\x1b[31m", r"'\x1b[31m'"),
        ("n" * (SHOWN_CHARACTERS + 1), "n" * SHOWN_CHARACTERS + "..."),
    ],
)
def test_a_name_from_somebody_elses_database_stays_on_one_bounded_line(
    name: str, text: str
) -> None:
    assert shown(name) == text
