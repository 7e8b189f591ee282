"""A file that may hold a store is recognised, whatever state its writers left it in."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import (
    StorageMisused,
    StorageReadOnly,
    StorageUnavailable,
    StoreRefused,
)
from yielded_core.layout.classify import Current, Fresh
from yielded_core.layout.facts import Header
from yielded_storage_sqlite import inspection
from yielded_storage_sqlite.inspection import create_layout, inspect_store, verify_current
from yielded_storage_sqlite.sniff import View, translated, view_main_file

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HEADER = Header(21, "effect-agent/thread@3", "{}", "first", 7)
CURRENT = Current(HEADER, ())
THREAD = """
INSERT INTO yielded_threads
  (thread_id, generation, epoch, tail_sequence, tail_digest, indexed_through, fact_revision,
   lane_version, last_queue_sequence)
VALUES (?, 0, 1, 0, zeroblob(32), 0, 0, 0, 0)
"""
KILLED_WHILE_CREATING = """
import sqlite3, sys
from yielded_storage_sqlite import inspection
from yielded_storage_sqlite.inspection import create_layout
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute(f"PRAGMA journal_mode = {sys.argv[2]}")
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
create_layout(connection, incarnation="first", created_at=7, shared=False)
if sys.argv[3] == "commit":
    connection.execute("COMMIT")
print("created", flush=True)
sys.stdin.read()
"""


def connected(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def create(path: Path, *, shared: bool = False) -> None:
    with closing(connected(path)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        create_layout(connection, incarnation="first", created_at=7, shared=shared)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode = WAL")


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Path:
    create(path)
    return path


@pytest.fixture
def live(store: Path) -> Iterator[sqlite3.Connection]:
    """An open connection to a store, which keeps everything it commits in the -wal."""
    with closing(connected(store)) as connection:
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        yield connection


@pytest.fixture
def no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail when the inspection needs a copy of the store."""

    def refused(*_arguments: object, **_options: object) -> None:
        pytest.fail("the store was copied")

    monkeypatch.setattr(subprocess, "run", refused)


@pytest.mark.rule("LAY-1")
@pytest.mark.usefixtures("no_copy")
def test_nothing_yet_is_fresh_and_stays_nothing(tmp_path: Path, path: Path) -> None:
    assert inspect_store(path, shared=False) == Fresh()
    assert names(tmp_path) == []
    path.touch()
    assert inspect_store(os.fspath(path), shared=True) == Fresh()
    assert path.stat().st_size == 0
    assert names(tmp_path) == ["store.db"]


@pytest.mark.rule("LAY-1")
@pytest.mark.usefixtures("no_copy")
def test_a_database_without_objects_is_fresh(path: Path) -> None:
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    assert path.stat().st_size > 0
    assert inspect_store(path, shared=False) == Fresh()


@pytest.mark.rule("LAY-1", "LAY-2")
def test_the_layout_is_created_in_the_callers_transaction(path: Path) -> None:
    with closing(connected(path)) as connection:
        with pytest.raises(StorageMisused, match="inside a transaction"):
            create_layout(connection, incarnation="first", created_at=7, shared=False)
        connection.execute("BEGIN IMMEDIATE")
        assert verify_current(connection, shared=False) == Fresh()
        header = create_layout(connection, incarnation="first", created_at=7, shared=False)
        assert header == HEADER
        assert verify_current(connection, shared=False) == CURRENT
        connection.execute("ROLLBACK")
        assert verify_current(connection, shared=False) == Fresh()


@pytest.mark.rule("LAY-2")
def test_rows_of_any_kind_do_not_disturb_the_judgement(store: Path) -> None:
    with closing(connected(store)) as connection:
        connection.row_factory = sqlite3.Row
        assert verify_current(connection, shared=False) == CURRENT


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("shared", [False, True])
def test_only_a_file_of_its_own_is_marked(path: Path, *, shared: bool) -> None:
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA user_version = 3")
    create(path, shared=shared)
    with closing(connected(path)) as connection:
        marks = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("user_version", "application_id")
        ]
    assert marks == ([3, 0] if shared else [21, int.from_bytes(b"yld!", "big")])
    assert inspect_store(path, shared=shared) == CURRENT


@pytest.mark.rule("LAY-1", "LAY-3")
def test_a_store_lives_beside_other_people_when_that_is_meant(path: Path) -> None:
    with closing(connected(path)) as connection:
        connection.execute("CREATE TABLE users (name TEXT)")
        connection.execute("CREATE TRIGGER watch AFTER INSERT ON users BEGIN SELECT 1; END")
    with pytest.raises(StoreRefused, match="table users") as caught:
        inspect_store(path, shared=False)
    assert caught.value.reason == "foreign"
    assert inspect_store(path, shared=True) == Fresh()
    create(path, shared=True)
    assert inspect_store(path, shared=True) == CURRENT
    assert inspect_store(path, shared=False) == CURRENT


@pytest.mark.rule("LAY-3")
def test_a_shared_database_must_keep_its_text_as_we_do(path: Path) -> None:
    with closing(connected(path)) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16le'")
        connection.execute("CREATE TABLE users (name TEXT)")
    with pytest.raises(StoreRefused, match="keeps text as UTF-16le, expected UTF-8") as caught:
        inspect_store(path, shared=True)
    assert caught.value.reason == "foreign"


@pytest.mark.rule("LAY-2")
def test_what_an_operator_adds_is_listed_and_not_refused(store: Path) -> None:
    with closing(connected(store)) as connection:
        connection.execute("CREATE INDEX mine ON yielded_records (sequence)")
        connection.execute("CREATE VIEW report AS SELECT count(*) FROM yielded_records")
        connection.execute("ANALYZE")
    assert inspect_store(store, shared=False) == Current(HEADER, ("mine on yielded_records",))


@pytest.mark.rule("LAY-2")
def test_a_store_that_was_rebuilt_from_its_dump_is_current(store: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.db"
    with closing(connected(store)) as source, closing(connected(copy)) as target:
        target.executescript("\n".join(source.iterdump()))
        target.execute("ALTER TABLE yielded_threads RENAME TO t")
        target.execute("ALTER TABLE t RENAME TO Yielded_Threads")
        target.execute("VACUUM")
    assert inspect_store(copy, shared=False) == CURRENT


@pytest.mark.rule("LAY-3")
@pytest.mark.usefixtures("no_copy")
def test_names_that_mean_something_in_a_url_are_names(tmp_path: Path) -> None:
    path = tmp_path / "a b?mode=memory#c%20é.db"
    create(path)
    assert inspect_store(path, shared=False) == CURRENT


@pytest.mark.rule("LAY-3")
def test_a_link_is_followed_to_the_store_with_its_side_files(
    store: Path, live: sqlite3.Connection, tmp_path: Path
) -> None:
    live.execute("UPDATE yielded_header SET incarnation = 'second'")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    link = elsewhere / "link.db"
    link.symlink_to(store)
    found = inspect_store(link, shared=False)
    assert isinstance(found, Current)
    assert found.header.incarnation == "second"
    assert names(elsewhere) == ["link.db"]


@pytest.mark.rule("LAY-2", "LAY-3")
@pytest.mark.usefixtures("no_copy")
def test_a_store_at_work_is_recognised_from_its_main_file(
    store: Path, live: sqlite3.Connection
) -> None:
    for number in range(300):
        live.execute(THREAD, (f"thread {number}",))
    assert store.with_name("store.db-wal").stat().st_size > 300 * 4096
    assert inspect_store(store, shared=False) == CURRENT


@pytest.mark.rule("LAY-3")
def test_a_change_of_schema_that_is_only_in_a_large_wal_is_seen_in_bounded_memory(
    store: Path, live: sqlite3.Connection
) -> None:
    for number in range(1500):
        live.execute(THREAD, (f"thread {number} {'x' * 3000}",))
        if number == 700:
            live.execute("CREATE INDEX mine ON yielded_records (sequence)")
    assert store.with_name("store.db-wal").stat().st_size > 20_000_000
    tracemalloc.start()
    try:
        found = inspect_store(store, shared=False)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == Current(HEADER, ("mine on yielded_records",))
    assert peak < 4_000_000


@pytest.mark.rule("LAY-3")
@pytest.mark.usefixtures("no_copy")
def test_a_change_of_schema_that_reached_the_main_file_needs_no_copy(
    store: Path, live: sqlite3.Connection
) -> None:
    live.execute("CREATE INDEX mine ON yielded_records (sequence)")
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")
    assert store.with_name("store.db-wal").stat().st_size > 0
    assert inspect_store(store, shared=False) == Current(HEADER, ("mine on yielded_records",))


@pytest.mark.rule("LAY-3")
@pytest.mark.usefixtures("no_copy")
def test_frames_from_before_the_wal_was_restarted_do_not_count(
    store: Path, live: sqlite3.Connection
) -> None:
    for instant in (*range(20), HEADER.created_at):
        live.execute("UPDATE yielded_header SET created_at = ?", (instant,))
    size = store.with_name("store.db-wal").stat().st_size
    live.execute("PRAGMA wal_checkpoint(RESTART)")
    live.execute(THREAD, ("thread",))
    assert store.with_name("store.db-wal").stat().st_size == size
    assert inspect_store(store, shared=False) == CURRENT


@pytest.mark.rule("LAY-3")
@pytest.mark.usefixtures("no_copy")
def test_what_was_never_committed_does_not_count(store: Path, live: sqlite3.Connection) -> None:
    live.execute("PRAGMA cache_size = 1")
    live.execute("BEGIN")
    live.execute("UPDATE yielded_header SET layout_version = 22")
    for number in range(300):
        live.execute(THREAD, (f"thread {number}",))
    assert store.with_name("store.db-wal").stat().st_size > 0
    assert inspect_store(store, shared=False) == CURRENT
    live.execute("ROLLBACK")


@pytest.mark.rule("LAY-3", "LAY-4")
@pytest.mark.parametrize(
    ("journal", "end", "expected"),
    [
        ("DELETE", "kill", Fresh()),
        ("WAL", "kill", Fresh()),
        ("WAL", "commit", CURRENT),
        ("PERSIST", "commit", CURRENT),
    ],
)
def test_a_creator_that_was_killed_left_a_store_or_nothing(
    path: Path, tmp_path: Path, journal: str, end: str, expected: Fresh | Current
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KILLED_WHILE_CREATING, path, journal, end],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as creator:
        assert creator.stdout is not None
        assert creator.stdout.readline() == b"created\n"
        creator.kill()
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}
    assert len(before) > 1
    assert inspect_store(path, shared=False) == expected
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


@pytest.mark.rule("LAY-3")
def test_a_wal_or_journal_without_its_database_is_not_thrown_away(
    store: Path, live: sqlite3.Connection
) -> None:
    live.execute(THREAD, ("thread",))
    wal = store.with_name("store.db-wal").read_bytes()
    lost = store.with_name("lost.db")
    lost.with_name("lost.db-wal").write_bytes(wal)
    with pytest.raises(StoreRefused, match="but its -wal has"):
        inspect_store(lost, shared=False)
    lost.with_name("lost.db-wal").write_bytes(b"something else" * 10)
    lost.touch()
    with pytest.raises(StoreRefused, match="but its -wal has"):
        inspect_store(lost, shared=False)
    lost.with_name("lost.db-wal").write_bytes(wal[:32])
    assert inspect_store(lost, shared=False) == Fresh()
    lost.with_name("lost.db-journal").write_bytes(
        bytes.fromhex("d9d505f920a163d7 00000000 00000000 00000002 00000200 00001000")
    )
    with pytest.raises(StoreRefused, match="but its -journal has") as caught:
        inspect_store(lost, shared=False)
    assert caught.value.reason == "ambiguous"


@pytest.mark.rule("LAY-3")
def test_a_wal_that_is_not_understood_is_left_to_sqlite(store: Path) -> None:
    wal = store.with_name("store.db-wal")
    for content in (b"short", b"something else" * 10):
        wal.write_bytes(content)
        assert inspect_store(store, shared=False) == CURRENT
        assert wal.read_bytes() == content


@pytest.mark.rule("LAY-3")
def test_a_checkpoint_that_was_cut_off_is_completed_in_the_copy_only(
    store: Path, live: sqlite3.Connection, tmp_path: Path
) -> None:
    pages = live.execute("PRAGMA page_count").fetchone()[0]
    for number in range(300):
        live.execute(THREAD, (f"thread {number}",))
    side = store.with_name("store.db-wal").read_bytes()
    live.execute("PRAGMA wal_checkpoint(PASSIVE)")
    cut = tmp_path / "cut.db"
    cut.write_bytes(store.read_bytes()[: pages * 4096 + 100])
    cut.with_name("cut.db-wal").write_bytes(side)
    assert inspect_store(cut, shared=False) == CURRENT
    assert cut.stat().st_size == pages * 4096 + 100


def test_where_nothing_can_be_created_the_reason_is_named(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StorageUnavailable, match="missing does not exist"):
        inspect_store(path.with_name("missing") / "store.db", shared=False)

    def only_the_file(target: object, _mode: int) -> bool:
        return target == path

    def only_the_folder(target: object, _mode: int) -> bool:
        return target == path.parent

    monkeypatch.setattr(os, "access", only_the_file)
    with pytest.raises(StorageReadOnly, match="nothing may be created in the folder"):
        inspect_store(path, shared=False)
    path.touch()
    monkeypatch.setattr(os, "access", only_the_folder)
    with pytest.raises(StorageReadOnly, match=r"store\.db may not be written"):
        inspect_store(path, shared=False)


def test_what_cannot_be_looked_at_is_unavailable_and_not_refused(
    store: Path, path: Path, live: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_folder: object) -> SimpleNamespace:
        return SimpleNamespace(free=4096)

    loop = path.with_name("loop.db")
    loop.symlink_to(loop)
    with pytest.raises(StorageUnavailable, match=r"loop\.db cannot be looked at"):
        inspect_store(loop, shared=False)
    live.execute("UPDATE yielded_header SET incarnation = 'second'")
    with monkeypatch.context() as patched:
        patched.setattr(sys, "executable", "/bin/false")
        with pytest.raises(StorageUnavailable, match="cannot be copied to be looked at"):
            inspect_store(store, shared=False)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "disk_usage", full)
        with pytest.raises(StorageUnavailable, match="bytes of temporary space"):
            inspect_store(store, shared=False)
    monkeypatch.setattr("tempfile.tempdir", os.fspath(path.parent / "missing"))
    with pytest.raises(StorageUnavailable, match="cannot be copied to be looked at"):
        inspect_store(store, shared=False)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_CANTOPEN, StorageUnavailable),
        (sqlite3.SQLITE_IOERR, StorageUnavailable),
        (sqlite3.SQLITE_IOERR_READ, StorageUnavailable),
        (sqlite3.SQLITE_NOMEM, StorageUnavailable),
        (sqlite3.SQLITE_NOTADB, StoreRefused),
        (sqlite3.SQLITE_CORRUPT_SEQUENCE, StoreRefused),
        (sqlite3.SQLITE_ERROR, StoreRefused),
    ],
)
def test_what_sqlite_says_is_told_apart(path: Path, code: int, expected: type[Exception]) -> None:
    error = sqlite3.OperationalError("the text may hold anything")
    error.sqlite_errorcode = code
    error.sqlite_errorname = "SQLITE_SOMETHING"
    with pytest.raises(expected) as caught, translated(path):
        raise error
    assert "anything" not in str(caught.value)
    assert caught.value.__cause__ is error


@pytest.mark.rule("LAY-3")
def test_a_view_that_a_writer_tore_is_taken_again(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torn = StoreRefused(reason="corrupt", detail="torn")
    views = iter([torn, None])

    def view(path: Path) -> View:
        refused = next(views)
        if refused is not None:
            raise refused
        return view_main_file(path)

    monkeypatch.setattr(inspection, "view_main_file", view)
    assert inspect_store(store, shared=False) == CURRENT
    assert next(views, "all were taken") == "all were taken"


@pytest.mark.rule("LAY-3")
def test_a_file_that_never_rests_is_refused_after_a_bounded_number_of_looks(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def changing(path: Path) -> View:
        nonlocal looks
        looks += 1
        os.utime(path, ns=(looks, looks))
        raise StoreRefused(reason="corrupt", detail="torn")

    monkeypatch.setattr(inspection, "view_main_file", changing)
    with pytest.raises(StoreRefused, match="torn"):
        inspect_store(store, shared=False)
    assert looks == inspection.LOOKS


@pytest.mark.rule("LAY-3")
def test_a_file_at_rest_is_refused_at_the_second_look(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = 0

    def damaged(_path: Path) -> View:
        nonlocal looks
        looks += 1
        raise StoreRefused(reason="corrupt", detail="damaged")

    monkeypatch.setattr(inspection, "view_main_file", damaged)
    with pytest.raises(StoreRefused, match="damaged"):
        inspect_store(store, shared=False)
    assert looks == 2
