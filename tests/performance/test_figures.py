"""The parts of the benchmark that decide what is reported: shares, rounds, counts, marks."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from yielded_bench.figures import at_least, at_most, quantile
from yielded_bench.meter import Cost, Meter
from yielded_bench.race import Lane, ratio
from yielded_bench.report import section_of, write_section
from yielded_bench.subjects import RawSqlite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("value", "met"), [(0.44, False), (0.45, True), (0.9, True)], ids=["below", "at", "above"]
)
def test_at_least(value: float, met: bool) -> None:  # noqa: FBT001 - the expected answer
    assert at_least("append", value, 0.45).met is met


@pytest.mark.parametrize(
    ("value", "met"), [(0.0, True), (30, True), (31, False)], ids=["nothing", "at", "above"]
)
def test_at_most(value: float, met: bool) -> None:  # noqa: FBT001 - the expected answer
    assert at_most("delivery", value, 30, "ms").met is met


def test_a_row_says_what_was_measured_and_what_was_wanted() -> None:
    row = at_most("page", 4.876, 2.5, "x", detail="26.4 ms to 5.4 ms")
    assert (row.target, row.measured) == ("at most 2.5 x", "4.88 x (26.4 ms to 5.4 ms)")


def test_a_ratio_is_taken_within_each_round() -> None:
    # A round in which the machine was slow counts for both sides.
    base = Lane(RawSqlite(), rates=[100, 10, 1_000])
    ours = Lane(RawSqlite(size=2), rates=[25, 2, 400])
    assert ratio(ours, base) == pytest.approx(0.5)


def test_a_quantile_of_few_values_is_the_largest() -> None:
    assert quantile([3, 1, 2], 0.99) == 3


def test_the_meter_counts_statements_rows_and_commits() -> None:
    with Meter() as meter, closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
        before = meter.cost()
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO numbers VALUES (?)", [(1,), (2,), (3,)])
        connection.execute("DELETE FROM numbers WHERE number = 3")
        connection.execute("COMMIT")
        assert list(connection.execute("SELECT number FROM numbers")) == [(1,), (2,)]
        assert connection.execute("SELECT 1 WHERE 0").fetchone() is None
        cost = meter.cost().minus(before)
    assert cost == Cost(statements=6, commits=1, read=2, written=4, steps=cost.steps)
    assert cost.steps > 0


def test_the_meter_counts_what_a_closed_connection_wrote() -> None:
    with Meter() as meter:
        with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
            connection.execute("CREATE TABLE numbers (number INTEGER)")
            connection.execute("INSERT INTO numbers VALUES (1)")
        assert meter.cost().written == 1


def test_the_meter_leaves_sqlite_as_it_was() -> None:
    connect = sqlite3.connect
    with Meter():
        assert sqlite3.connect is not connect
    assert sqlite3.connect is connect


def test_steps_tell_a_search_from_a_scan() -> None:
    with Meter() as meter, closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY, name TEXT)")
        rows = [(number, str(number)) for number in range(1_000)]
        connection.executemany("INSERT INTO numbers VALUES (?, ?)", rows)
        steps: list[int] = []
        for query in ("number = 900", "name = '900'"):
            before = meter.cost()
            assert connection.execute(f"SELECT number FROM numbers WHERE {query}").fetchone()
            steps.append(meter.cost().minus(before).steps)
    search, scan = steps
    assert scan > 100 * search


def test_a_section_is_replaced_and_the_rest_is_kept(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    begin, end = "<!-- yielded-bench: results -->", "<!-- end of results -->"
    document.write_text(f"before\n{begin}\nold\n{end}\nafter\n", encoding="utf-8")
    write_section(document, "results", ["new", "lines"])
    text = document.read_text(encoding="utf-8")
    assert text == f"before\n{begin}\n\nnew\nlines\n\n{end}\nafter\n"
    assert section_of(text, "results") == ["", "new", "lines", ""]


def test_a_document_without_marks_is_not_touched(tmp_path: Path) -> None:
    document = tmp_path / "document.md"
    document.write_text("text\n", encoding="utf-8")
    with pytest.raises(ValueError, match="yielded-bench: results"):
        write_section(document, "results", ["new"])
    assert document.read_text(encoding="utf-8") == "text\n"
