"""One file is the layout: what is rendered from it is committed, equal, and runs."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from itertools import pairwise
from typing import TYPE_CHECKING, Final, get_args

import pytest

from yielded_core.errors import StorageMisused
from yielded_core.layout.render import SOURCE, main, render, rendered_file
from yielded_core.layout.statements import OWN_PREFIX, Dialect, layout_statements

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
THREAD: Final = (
    "(thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,"
    " lane_version, last_queue_sequence)"
)
ACROSS_THREADS: Final = {"yielded_submissions_locator", "yielded_runnable_since"}
"""Indexes of questions that name no thread: each part of a distributed store has its own."""


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        for statement in layout_statements("sqlite"):
            connection.execute(statement)
        yield connection


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_committed_is_what_the_layout_renders_to(dialect: Dialect) -> None:
    source = SOURCE.read_text(encoding="utf-8")
    assert rendered_file(dialect).read_text(encoding="utf-8") == render(source, dialect)


@pytest.mark.rule("LAY-1")
def test_the_command_writes_every_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    committed = [rendered_file(dialect).read_bytes() for dialect in DIALECTS]
    monkeypatch.setattr("yielded_core.layout.render.FOLDER", tmp_path)
    (tmp_path / "rendered").mkdir()
    main()
    assert [rendered_file(dialect).read_bytes() for dialect in DIALECTS] == committed


def tables_of(dialect: Dialect) -> set[str]:
    """The tables that only one engine has."""
    source = SOURCE.read_text(encoding="utf-8").splitlines()
    return {table.split()[2] for above, table in pairwise(source) if above == f"-- {dialect}"}


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_statement_creates_one_object_of_ours(dialect: Dialect) -> None:
    statements = layout_statements(dialect)
    source = SOURCE.read_text(encoding="utf-8").splitlines()
    created = sum(line.startswith("CREATE ") for line in source)
    (other,) = set(DIALECTS) - {dialect}
    assert len(tables_of(other)) == 1
    assert len(statements) == created - len(tables_of(other))
    for statement in statements:
        create, kind, name, *_ = statement.split()
        assert create == "CREATE"
        assert kind in {"TABLE", "INDEX"}
        assert name.startswith(OWN_PREFIX)
        assert ";" not in statement


@pytest.mark.rule("LAY-1")
def test_sqlite_holds_exactly_the_declared_tables(database: sqlite3.Connection) -> None:
    source = SOURCE.read_text(encoding="utf-8").splitlines()
    declared = {line.split()[2] for line in source if line.startswith("CREATE TABLE ")}
    rows = database.execute("SELECT name FROM pragma_table_list WHERE name NOT LIKE 'sqlite%'")
    assert {row[0] for row in rows} == declared - tables_of("postgres")


@pytest.mark.rule("LAY-1")
def test_small_rows_are_kept_in_the_tree_of_their_key_and_every_type_is_enforced(
    database: sqlite3.Connection,
) -> None:
    rows = database.execute(
        "SELECT name, wr, strict FROM pragma_table_list WHERE name LIKE 'yielded%'"
    ).fetchall()
    source = SOURCE.read_text(encoding="utf-8").splitlines()
    compact = {
        table.split()[2] for above, table in pairwise(source) if above.strip() == "-- compact"
    }
    assert {name for name, without_rowid, _ in rows if without_rowid} == compact
    assert {name for name, _, strict in rows if not strict} == set()
    record = "INSERT INTO yielded_records VALUES ('thread', 0, 1, 'record', ?)"
    with pytest.raises(sqlite3.IntegrityError, match="cannot store TEXT value in BLOB column"):
        database.execute(record, ("text",))
    database.execute(record, (b"bytes",))


@pytest.mark.rule("LAY-1")
def test_every_key_but_the_header_leads_with_the_thread(database: sqlite3.Connection) -> None:
    rows = database.execute(
        """
        SELECT t.name, i.name, c.name FROM pragma_table_list t
        JOIN pragma_index_list(t.name) i JOIN pragma_index_info(i.name) c ON c.seqno = 0
        WHERE t.name LIKE 'yielded%' AND t.name NOT IN ('yielded_header', 'yielded_clock')
        """
    ).fetchall()
    assert len({row[0] for row in rows}) > 1
    assert {row[1] for row in rows if row[2] != "thread_id"} == ACROSS_THREADS


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize(
    ("statement", "constraint"),
    [
        ("yielded_header VALUES (2, 21, 'f', '{}', 'i', 0, 0)", "yielded_header_singleton"),
        (
            f"yielded_threads {THREAD} VALUES ('t', 0, 1, 0, x'00', 0, 0, 0, 0)",
            "yielded_threads_tail",
        ),
        (
            f"yielded_threads {THREAD} VALUES ('t', 0, 1, -1, zeroblob(32), 0, 0, 0, 0)",
            "yielded_threads_tail",
        ),
        ("yielded_tombstones VALUES ('t', 1, 0, x'00', 0)", "yielded_tombstones_tail"),
        (
            (
                "yielded_batches VALUES"
                " ('t', 0, 1, 2, 'b', 'p', 1, zeroblob(32), zeroblob(32), zeroblob(8))"
            ),
            "yielded_batches_span",
        ),
        (
            (
                "yielded_batches VALUES"
                " ('t', 0, 1, 1, 'b', 'p', 1, zeroblob(31), zeroblob(32), zeroblob(8))"
            ),
            "yielded_batches_digests",
        ),
        ("yielded_records VALUES ('t', 0, 0, 'r', x'00')", "yielded_records_sequence"),
        ("yielded_ranges VALUES ('t', 0, 0, 1, 'sealed', 1, 1)", "yielded_ranges_span"),
        ("yielded_ranges VALUES ('t', 0, 1, 1, 'open', 1, 1)", "yielded_ranges_state"),
        (
            "yielded_checkpoints VALUES ('t', 0, 1, 1, x'00', x'00', 'instant')",
            "yielded_checkpoints_digest",
        ),
        (
            "yielded_imports VALUES ('t', 1, 1, 0, zeroblob(32), 0, x'00')",
            "yielded_imports_digests",
        ),
    ],
)
def test_a_row_that_cannot_be_right_is_refused_by_name(
    database: sqlite3.Connection, statement: str, constraint: str
) -> None:
    with pytest.raises(sqlite3.IntegrityError, match=constraint):
        database.execute(f"INSERT INTO {statement}")


def test_each_transform_of_the_sqlite_dialect() -> None:
    source = """
        -- compact
        CREATE TABLE yielded_x (
          a TEXT COLLATE "C" NOT NULL, b BOOLEAN DEFAULT FALSE, c BYTEA,
          CONSTRAINT yielded_x_c CHECK (octet_length(c) = 32)
        );
        CREATE INDEX yielded_x_a ON yielded_x (a, b DESC);
    """
    table, index = render(source, "sqlite").split("\n\n", 1)[1].split(";\n\n")
    assert "COLLATE" not in table
    assert "DEFAULT 0" in table
    assert "LENGTH(c) = 32" in table
    assert table.endswith(") WITHOUT ROWID, STRICT")
    assert index == "CREATE INDEX yielded_x_a ON yielded_x(a, b DESC);\n"


def test_a_statement_that_could_not_be_split_again_is_not_rendered() -> None:
    with pytest.raises(StorageMisused, match="semicolon"):
        render("CREATE TABLE yielded_x (a TEXT DEFAULT ';')", "postgres")


def test_the_statements_are_read_without_a_parser_of_sql() -> None:
    program = (
        "import sys; from yielded_core.layout.statements import layout_statements;"
        "layout_statements('sqlite'); sys.exit('sqlglot' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
