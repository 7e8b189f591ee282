"""Inspecting a store that this very process has open leaves its locks alone.

A POSIX lock belongs to a process and a file: closing any descriptor of the file drops it. The
controls do what the inspection must not do, and show that the probes would notice.
"""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from yielded_core.layout.classify import Current, Fresh
from yielded_storage_sqlite.inspection import create_layout, inspect_store

if TYPE_CHECKING:
    from collections.abc import Iterator

TRY = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None)
try:
    connection.execute(sys.argv[2]).fetchall()
except sqlite3.OperationalError as error:
    sys.exit(2 if error.sqlite_errorname.startswith("SQLITE_BUSY") else 1)
"""
OPEN_AT_ONCE = """
import sqlite3, sys
from contextlib import closing
from pathlib import Path
from yielded_core.layout.classify import Fresh
from yielded_storage_sqlite.inspection import create_layout, inspect_store, verify_current
path, name, first = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
inspect_store(path, shared=False)
with closing(sqlite3.connect(path, timeout=30, isolation_level=None)) as connection:
    if first == "wal":
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    found = verify_current(connection, shared=False)
    if isinstance(found, Fresh):
        create_layout(connection, incarnation=name, created_at=0, shared=False)
    connection.execute("COMMIT")
    print("created" if isinstance(found, Fresh) else found.header.incarnation)
"""


class Held(NamedTuple):
    """A lock that an open connection holds, and what another process cannot do meanwhile."""

    prepare: str
    attempt: str
    locked_file: str


CHECKPOINT = "PRAGMA wal_checkpoint(TRUNCATE)"
LOCKS = {
    "write lock, layout in the -wal": Held("SELECT 1", "BEGIN IMMEDIATE", "-shm"),
    "write lock, layout in the main file": Held(CHECKPOINT, "BEGIN IMMEDIATE", "-shm"),
    "connection, layout in the -wal": Held("SELECT 1", "PRAGMA journal_mode = DELETE", ""),
    "connection, layout in the main file": Held(CHECKPOINT, "PRAGMA journal_mode = DELETE", ""),
    "write lock, with a -journal": Held("PRAGMA journal_mode = DELETE", "BEGIN IMMEDIATE", ""),
}


@pytest.fixture(params=LOCKS.values(), ids=list(LOCKS))
def held(request: pytest.FixtureRequest) -> Held:
    assert isinstance(request.param, Held)
    return request.param


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def writer(path: Path, held: Held) -> Iterator[sqlite3.Connection]:
    """A connection of this process that holds the write lock of a store."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")
        create_layout(connection, incarnation="first", created_at=0, shared=False)
        connection.execute("COMMIT")
        connection.execute(held.prepare).fetchall()
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("UPDATE yielded_header SET created_at = 1")
        yield connection
        if connection.in_transaction:
            connection.execute("ROLLBACK")


def is_locked_for_others(path: Path, held: Held) -> bool:
    done = subprocess.run([sys.executable, "-c", TRY, path, held.attempt], check=False)
    assert done.returncode in {0, 2}
    return done.returncode == 2


@pytest.mark.rule("LAY-3", "STO-3")
def test_an_inspection_drops_no_lock_of_this_process(
    path: Path, held: Held, writer: sqlite3.Connection
) -> None:
    assert is_locked_for_others(path, held)
    for _ in range(3):
        assert isinstance(inspect_store(path, shared=False), Current)
    assert is_locked_for_others(path, held)
    writer.execute("COMMIT")
    assert writer.execute("SELECT created_at FROM yielded_header").fetchone() == (1,)


@pytest.mark.usefixtures("writer")
def test_opening_and_closing_the_locked_file_would_drop_it(path: Path, held: Held) -> None:
    assert is_locked_for_others(path, held)
    with path.with_name(path.name + held.locked_file).open("rb"):
        pass
    assert not is_locked_for_others(path, held)


@pytest.mark.rule("LAY-3")
@pytest.mark.usefixtures("writer")
def test_inspecting_a_store_at_work_leaves_no_descriptor_behind(path: Path) -> None:
    inspect_store(path, shared=False)
    before = open_descriptors()
    for _ in range(20):
        inspect_store(path, shared=False)
    assert open_descriptors() == before


def open_descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


@pytest.mark.rule("LAY-4")
@pytest.mark.parametrize("first", ["wal", "layout"])
def test_of_several_processes_that_open_a_fresh_store_one_creates(path: Path, first: str) -> None:
    openers = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_AT_ONCE, path, f"opener-{number}", first],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for opener in openers:
        assert opener.stdout is not None
        assert opener.stdout.readline() == "ready\n"
    for opener in openers:
        assert opener.stdin is not None
        opener.stdin.write("\n")
        opener.stdin.flush()
    said = [opener.communicate()[0].strip() for opener in openers]
    assert [opener.returncode for opener in openers] == [0] * len(openers)
    assert said.count("created") == 1
    creator = f"opener-{said.index('created')}"
    assert set(said) <= {"created", creator}
    found = inspect_store(path, shared=False)
    assert not isinstance(found, Fresh)
    assert found.header.incarnation == creator
