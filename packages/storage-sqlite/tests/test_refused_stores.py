"""What is no store of ours is refused with the reason and the differences, and left as it was."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from yielded_core.errors import StoreRefused
from yielded_storage_sqlite.inspection import create_layout, inspect_store

if TYPE_CHECKING:
    from collections.abc import Callable

WRITER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA wal_autocheckpoint = 0")
connection.execute("PRAGMA cache_size = 1")
for statement in sys.argv[2:]:
    connection.execute(statement).fetchall()
print("written", flush=True)
sys.stdin.read()
"""
MANY_ROWS = (
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)"
    " INSERT INTO yielded_tombstones SELECT 'thread ' || i, 1, 0, zeroblob(32), 0 FROM n"
)
HEADER_20 = "UPDATE yielded_header SET layout_version = 20"
HEADER_22 = "UPDATE yielded_header SET layout_version = 22"


class Case(NamedTuple):
    """A file that is refused: how it comes about, and what the refusal names."""

    build: Callable[[Path], None]
    reason: str
    named: tuple[str, ...]


def create(path: Path) -> None:
    """Make a store of layout 21 that was closed in order."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        create_layout(connection, incarnation="first", created_at=0, shared=False)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")


def changed(*statements: str) -> Callable[[Path], None]:
    """Make a store and change it with an ordinary connection."""

    def build(path: Path) -> None:
        create(path)
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA writable_schema = ON")
            for statement in statements:
                connection.execute(statement)

    return build


def killed(*statements: str, base: Callable[[Path], None] = create) -> Callable[[Path], None]:
    """Make a file and let a real process change it, which is killed before it can tidy up."""

    def build(path: Path) -> None:
        base(path)
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, path, *statements],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"written\n"
            writer.kill()
        side = path.with_name(path.name + "-wal")
        if not side.exists():
            side = path.with_name(path.name + "-journal")
        assert side.stat().st_size > 0

    return build


def cut(keep: Callable[[int], int]) -> Callable[[Path], None]:
    """Make a store and keep only the beginning of its file."""

    def build(path: Path) -> None:
        create(path)
        content = path.read_bytes()
        path.write_bytes(content[: keep(len(content))])

    return build


def holding(content: bytes) -> Callable[[Path], None]:
    """Make a file that SQLite did not write."""

    def build(path: Path) -> None:
        path.write_bytes(content)

    return build


def nothing(_path: Path) -> None:
    """Make no file at all."""


def unrelated(path: Path) -> None:
    """Make somebody else's database."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE users (name TEXT PRIMARY KEY)")
        connection.execute("CREATE VIEW adults AS SELECT name FROM users")
        connection.execute("INSERT INTO users VALUES ('somebody')")


def damaged(path: Path) -> None:
    """Make a store whose first page no longer lists its objects."""
    create(path)
    content = bytearray(path.read_bytes())
    content[100:108] = b"\xff" * 8
    path.write_bytes(content)


def orphaned(path: Path) -> None:
    """Lose the main file of a store whose last changes are in its -wal."""
    killed(HEADER_20)(path)
    path.unlink()


def altered(pattern: str, replacement: str, name: str) -> Callable[[Path], None]:
    """Make a store and rewrite the declaration of one of its tables."""
    return changed(
        f"UPDATE sqlite_master SET sql = replace(sql, '{pattern}', '{replacement}')"
        f" WHERE name = '{name}'"
    )


VERSION_20 = "header: layout_version is 20, expected 21"
VERSION_22 = "header: layout_version is 22, expected 21"
CASES = {
    "layout 20": Case(changed(HEADER_20), "predecessor", (VERSION_20,)),
    "layout 22": Case(changed(HEADER_22), "newer", (VERSION_22,)),
    "layout 20 with other tables": Case(
        changed(HEADER_20, "DROP TABLE yielded_garbage", "CREATE TABLE yielded_old (a)"),
        "predecessor",
        (VERSION_20,),
    ),
    "header row missing": Case(
        changed("DELETE FROM yielded_header"), "ambiguous", ("header: it has no row",)
    ),
    "header table missing": Case(
        changed("DROP TABLE yielded_header"), "ambiguous", ("table yielded_header is missing",)
    ),
    "header alone": Case(
        changed("DROP TABLE yielded_threads"), "ambiguous", ("table yielded_threads is missing",)
    ),
    "other records": Case(
        changed("UPDATE yielded_header SET record_format = 'other/thread@9'"),
        "ambiguous",
        ("header: record_format is other/thread@9, expected effect-agent/thread@3",),
    ),
    "other options": Case(
        changed("UPDATE yielded_header SET options = '{\"partitions\":8}'"),
        "ambiguous",
        ('header: options is {"partitions":8}, expected {}',),
    ),
    "column renamed": Case(
        changed("ALTER TABLE yielded_batches RENAME COLUMN producer_id TO producer"),
        "ambiguous",
        (
            "table yielded_batches: column producer_id is missing",
            "table yielded_batches: unexpected column producer",
        ),
    ),
    "column added": Case(
        changed("ALTER TABLE yielded_threads ADD COLUMN note TEXT"),
        "ambiguous",
        ("table yielded_threads: unexpected column note",),
    ),
    "column type": Case(
        altered("wire BLOB", "wire TEXT", "yielded_records"),
        "ambiguous",
        ("table yielded_records: column wire has type TEXT, expected BLOB",),
    ),
    "column collation": Case(
        altered("record_id TEXT", "record_id TEXT COLLATE NOCASE", "yielded_records"),
        "ambiguous",
        ("table yielded_records: column record_id is declared differently",),
    ),
    "column nullable": Case(
        altered("wire BLOB NOT NULL", "wire BLOB", "yielded_records"),
        "ambiguous",
        ("table yielded_records: column wire may be NULL",),
    ),
    "check weakened": Case(
        altered("sequence >= 1", "sequence >= 0", "yielded_records"),
        "ambiguous",
        ("table yielded_records: constraint yielded_records_sequence is different",),
    ),
    "check missing": Case(
        altered(
            ",\n  CONSTRAINT yielded_records_sequence CHECK (sequence >= 1)", "", "yielded_records"
        ),
        "ambiguous",
        ("table yielded_records: constraint yielded_records_sequence is missing",),
    ),
    "reference added": Case(
        altered(
            "CONSTRAINT yielded_records_sequence",
            "CONSTRAINT mine FOREIGN KEY (thread_id) REFERENCES yielded_threads,"
            " CONSTRAINT yielded_records_sequence",
            "yielded_records",
        ),
        "ambiguous",
        ("table yielded_records: unexpected constraint mine",),
    ),
    "check without a name added": Case(
        altered(
            "CONSTRAINT yielded_records_id",
            "CHECK (1), CONSTRAINT yielded_records_id",
            "yielded_records",
        ),
        "ambiguous",
        ("table yielded_records: unexpected constraint check (unnamed, at place 7)",),
    ),
    "types not enforced": Case(
        altered(") STRICT", ")", "yielded_records"),
        "ambiguous",
        ("table yielded_records: it has no options, expected STRICT",),
    ),
    "index missing": Case(
        changed("DROP INDEX yielded_handoffs_sequence"),
        "ambiguous",
        ("index yielded_handoffs_sequence on yielded_handoffs is missing",),
    ),
    "index different": Case(
        changed(
            "DROP INDEX yielded_handoffs_sequence",
            "CREATE INDEX yielded_handoffs_sequence ON yielded_handoffs (sequence)",
        ),
        "ambiguous",
        ("index yielded_handoffs_sequence on yielded_handoffs is different",),
    ),
    "unique index added": Case(
        changed("CREATE UNIQUE INDEX mine ON yielded_records (wire)"),
        "ambiguous",
        ("unexpected unique index mine on yielded_records",),
    ),
    "trigger added": Case(
        changed(
            "CREATE TRIGGER watch AFTER INSERT ON yielded_records"
            " BEGIN DELETE FROM yielded_garbage; END"
        ),
        "ambiguous",
        ("unexpected trigger watch on yielded_records",),
    ),
    "table added": Case(
        changed("CREATE TABLE Yielded_Mine (a)"), "ambiguous", ("unexpected table yielded_mine",)
    ),
    "view added": Case(
        changed("CREATE VIEW yielded_mine AS SELECT 1"),
        "ambiguous",
        ("unexpected view yielded_mine",),
    ),
    "virtual table instead": Case(
        changed(
            "DROP TABLE yielded_garbage",
            "INSERT INTO sqlite_master VALUES ('table', 'yielded_garbage', 'yielded_garbage', 0,"
            " 'CREATE VIRTUAL TABLE yielded_garbage USING no_such_module')",
        ),
        "ambiguous",
        ("table yielded_garbage is missing", "unexpected virtual table yielded_garbage"),
    ),
    "mark of another version": Case(
        changed("PRAGMA user_version = 22"), "ambiguous", ("user_version is 22, expected 21",)
    ),
    "unrelated database": Case(unrelated, "foreign", ()),
    "unrelated database, killed before its first checkpoint": Case(
        killed(
            "PRAGMA journal_mode = WAL",
            "CREATE TABLE users (name TEXT PRIMARY KEY)",
            base=nothing,
        ),
        "foreign",
        (),
    ),
    "text file": Case(holding(b"thread,record\n" * 400), "not-a-database", ()),
    "short text file": Case(holding(b"thread,record\n"), "not-a-database", ()),
    "one byte": Case(holding(b"x"), "not-a-database", ()),
    "folder": Case(Path.mkdir, "not-a-database", ()),
    "cut in half": Case(cut(lambda size: size // 2), "corrupt", ()),
    "cut after the first page": Case(cut(lambda _: 4096), "corrupt", ()),
    "cut inside the first page": Case(cut(lambda _: 50), "corrupt", ()),
    "cut by a byte": Case(cut(lambda size: size - 1), "corrupt", ()),
    "damaged": Case(damaged, "corrupt", ()),
    "main file lost": Case(orphaned, "ambiguous", ()),
    "layout 20, writer killed": Case(
        killed("PRAGMA journal_mode = WAL", MANY_ROWS, base=changed(HEADER_20)),
        "predecessor",
        (VERSION_20,),
    ),
    "layout 20 only in the -wal, writer killed": Case(
        killed(HEADER_20, MANY_ROWS), "predecessor", (VERSION_20,)
    ),
    "layout 22 only in the -wal, writer killed": Case(killed(HEADER_22), "newer", (VERSION_22,)),
    "column only in the -wal, writer killed": Case(
        killed("ALTER TABLE yielded_threads ADD COLUMN note TEXT"),
        "ambiguous",
        ("table yielded_threads: unexpected column note",),
    ),
    "layout 20, killed inside a transaction with a -journal": Case(
        killed(
            "PRAGMA journal_mode = DELETE",
            "BEGIN",
            "UPDATE yielded_header SET layout_version = 21",
            MANY_ROWS,
            base=changed(HEADER_20),
        ),
        "predecessor",
        (VERSION_20,),
    ),
}


def traces(folder: Path) -> dict[str, tuple[str, int, int]]:
    """Return digest, modification time and inode of everything in a folder."""
    return {
        path.name: (
            hashlib.sha256(path.read_bytes() if path.is_file() else b"").hexdigest(),
            path.stat().st_mtime_ns,
            path.stat().st_ino,
        )
        for path in sorted(folder.iterdir())
    }


@pytest.mark.rule("LAY-2", "LAY-3", "LAY-5")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_refused_store_is_named_and_left_as_it_was(case: Case, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    case.build(path)
    before = traces(tmp_path)

    with pytest.raises(StoreRefused) as caught:
        inspect_store(path, shared=False)

    assert traces(tmp_path) == before
    assert caught.value.reason == case.reason
    assert set(case.named) <= set(caught.value.differences)
    assert "\n" not in str(caught.value)


@pytest.mark.rule("LAY-2")
@pytest.mark.parametrize("case", [case for case in CASES.values() if len(case.named) == 1])
def test_nothing_but_the_difference_is_named(case: Case, tmp_path: Path) -> None:
    case.build(tmp_path / "store.db")
    with pytest.raises(StoreRefused) as caught:
        inspect_store(tmp_path / "store.db", shared=True)
    assert caught.value.differences == case.named


@pytest.mark.rule("LAY-3")
def test_the_unchanged_store_of_these_cases_is_accepted(tmp_path: Path) -> None:
    create(tmp_path / "store.db")
    before = traces(tmp_path)
    assert inspect_store(tmp_path / "store.db", shared=False)
    assert traces(tmp_path) == before
