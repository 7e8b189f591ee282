"""Every command on a SQLite store: what it prints, as text and as JSON, and its exit code."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from yielded_core.errors import FenceRejected
from yielded_core.records.identifiers import ThreadId
from yielded_core.storage import open_storage

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


def documents(answer: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return the JSON Lines of an answer that succeeded."""
    assert (answer.returncode, answer.stderr) == (0, "")
    return [json.loads(line) for line in answer.stdout.splitlines()]


def error(answer: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Return the error of an answer that failed; nothing else was printed."""
    assert answer.stdout == ""
    assert "Traceback" not in answer.stderr
    (line,) = answer.stderr.splitlines()
    found: dict[str, Any] = json.loads(line)["error"]
    assert {"code", "message", "retryable"} <= found.keys()
    return found


@pytest.mark.rule("LOG-19")
def test_threads_lists_every_thread(cli: Cli, store: str) -> None:
    async def more() -> None:
        async with open_storage(store) as storage:
            for number in range(600):
                await storage.threads.materialize(ThreadId(f"thread-{number:03}"), epoch=7)

    asyncio.run(more())
    (chat, *others) = documents(cli("threads", "--json", "--store", store))
    assert chat["thread"] == "chat"
    assert (chat["records"], chat["epoch"], len(chat["tailDigest"])) == (21, 1, 64)
    assert [each["thread"] for each in others] == [f"thread-{n:03}" for n in range(600)]
    lines = cli("--store", store, "threads").stdout.splitlines()
    assert lines[0].split() == ["THREAD", "RECORDS", "EPOCH", "TAIL"]
    assert lines[1].split() == ["chat", "21", "1", chat["tailDigest"][:12]]
    assert len(lines) == 602


@pytest.mark.rule("LOG-10")
def test_tail_tells_where_a_thread_ends(
    cli: Cli, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tail,) = documents(cli("--json", "--store", store, "tail", "chat"))
    assert (tail["thread"], tail["records"], tail["epoch"]) == ("chat", 21, 1)
    monkeypatch.setenv("YIELDED_STORE", store)
    assert tail["tailDigest"] in cli("tail", "chat").stdout


def test_log_shows_a_line_for_each_record(cli: Cli, store: str) -> None:
    lines = cli("log", "chat", "--store", store).stdout.splitlines()
    assert lines[0].strip() == "2030-01-02"
    assert len(lines) == 22
    assert lines[2] == "     2  03:04:05  UserInputRecorded  user: user says 0"
    assert lines[3] == "     3  03:04:05  ModelCompleted     model: assistant says 0"


def test_log_shows_a_part(cli: Cli, store: str) -> None:
    found = documents(cli("log", "chat", "--store", store, "--json", "--after=3", "--limit=4"))
    assert [each["sequence"] for each in found] == [4, 5, 6, 7]
    assert found[0]["record"]["payload"]["input"]["content"] == "user says 1"
    assert {"batchId", "offset", "digest"} < found[0].keys()
    assert documents(cli("log", "chat", "--store", store, "--json", "--after=21")) == []


def test_log_shows_records_completely(cli: Cli, store: str) -> None:
    shown = cli("log", "chat", "--store", store, "--full", "--limit=1").stdout
    assert '"agentId": "demo-assistant"' in shown
    assert "batch exchange-1" in shown


@pytest.mark.rule("ARC-3")
def test_verify_accepts_what_is_right(cli: Cli, store: str) -> None:
    for arguments in (("chat",), ("--all",)):
        (found,) = documents(cli("verify", *arguments, "--store", store, "--json"))
        assert (found["thread"], found["ok"], found["records"]) == ("chat", True, 21)
        outcomes = {each["invariant"]: each["outcome"] for each in found["findings"]}
        assert outcomes["digest-chain"] == "passed"
    shown = cli("verify", "chat", "--store", store)
    assert shown.returncode == 0
    assert shown.stdout.startswith("chat: ok\n")


@pytest.mark.rule("ARC-3")
def test_verify_finds_damage(cli: Cli, store: str) -> None:
    with sqlite3.connect(store.removeprefix("sqlite:///")) as damage:
        damage.execute("UPDATE yielded_threads SET tail_digest = zeroblob(32)")
    damage.close()
    answer = cli("verify", "--all", "--store", store, "--json")
    assert answer.returncode == 1
    (found,) = [json.loads(line) for line in answer.stdout.splitlines()]
    assert not found["ok"]
    shown = cli("verify", "chat", "--store", store)
    assert shown.returncode == 1
    assert "chat: DAMAGED" in shown.stdout
    assert "failed  digest-chain" in shown.stdout


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize("name", ["chat.jsonl", "chat.jsonl.zst", "chat.jsonl.gz"])
def test_an_exported_thread_is_imported(cli: Cli, store: str, tmp_path: Path, name: str) -> None:
    file = str(tmp_path / name)
    (exported,) = documents(cli("export", "chat", file, "--store", store, "--json"))
    assert exported["records"] == 21
    assert exported["bytes"] == Path(file).stat().st_size
    (verified,) = documents(cli("verify", "--file", file, "--json"))
    assert verified["ok"]
    other = f"sqlite:///{tmp_path}/other.db"
    (imported,) = documents(cli("import", file, "--store", other, "--json"))
    assert documents(cli("tail", "chat", "--store", store, "--json")) == [imported]
    again = error(cli("import", file, "--store", other, "--json"))
    assert (again["code"], again["reason"]) == ("import-refused", "destination-not-empty")


@pytest.mark.rule("ARC-5")
def test_export_replaces_a_file_only_if_told(cli: Cli, store: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    file.write_text("precious")
    refused = cli("export", "chat", str(file), "--store", store)
    assert (refused.returncode, file.read_text()) == (3, "precious")
    assert "--force" in refused.stderr
    assert cli("export", "chat", str(file), "--store", store, "--force").returncode == 0
    assert file.read_text().count("\n") > 10


@pytest.mark.rule("ARC-5")
def test_export_writes_to_standard_output(cli: Cli, store: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    cli("export", "chat", str(file), "--store", store)
    assert cli("export", "chat", "-", "--store", store).stdout == file.read_text()
    assert cli("export", "chat", "-", "--store", store, "--json").returncode == 2


@pytest.mark.rule("ARC-3")
def test_a_damaged_archive_is_found_and_not_imported(cli: Cli, store: str, tmp_path: Path) -> None:
    file = tmp_path / "chat.jsonl"
    cli("export", "chat", str(file), "--store", store)
    file.write_text(file.read_text().replace("user says 7", "user says 8"))
    answer = cli("verify", "--file", str(file), "--json")
    assert (answer.returncode, json.loads(answer.stdout)["ok"]) == (1, False)
    assert cli("verify", "--file", str(file)).returncode == 1
    other = f"sqlite:///{tmp_path}/other.db"
    refused = cli("import", str(file), "--store", other, "--json")
    assert (refused.returncode, error(refused)["code"]) == (3, "archive-refused")
    assert documents(cli("threads", "--store", other, "--json")) == []


def test_import_discards_another_import_only_if_told(cli: Cli, store: str, tmp_path: Path) -> None:
    file = str(tmp_path / "chat.jsonl")
    cli("export", "chat", file, "--store", store)
    other = f"sqlite:///{tmp_path}/other.db"

    async def begin_another() -> None:
        async with open_storage(store) as source, open_storage(other) as storage:
            tail = await source.threads.materialize(ThreadId("chat"), epoch=2)
            await storage.archives.begin_import(tail)

    asyncio.run(begin_another())
    refused = error(cli("import", file, "--store", other, "--json"))
    assert refused["reason"] == "in-progress"
    (imported,) = documents(cli("import", file, "--store", other, "--json", "--discard"))
    assert imported["records"] == 21


@pytest.mark.rule("STO-1")
def test_info_says_what_the_store_is(cli: Cli, store: str) -> None:
    (info,) = documents(cli("info", "--store", f"{store}?synchronous=normal", "--json"))
    assert info["adapter"] == "yielded-storage-sqlite"
    assert (info["layout"], info["recordFormat"]) == (21, "effect-agent/thread@3")
    assert info["durability"] == "durable-file"
    assert info["settings"]["synchronous"] == "normal"
    assert (info["threads"], info["records"]) == (1, 21)
    shown = cli("info", "--store", store).stdout
    assert info["incarnation"] in shown
    assert "synchronous" in shown


@pytest.mark.rule("ARC-6")
def test_archive_moves_the_oldest_records(cli: Cli, store: str) -> None:
    (moved,) = documents(cli("archive", "chat", "--keep=6", "--store", store, "--json"))
    assert moved == {"thread": "chat", "ranges": 1, "records": 15, "openFrom": 16}
    (again,) = documents(cli("archive", "chat", "--through=15", "--store", store, "--json"))
    assert (again["ranges"], again["openFrom"]) == (0, 16)
    rest = cli("archive", "chat", "--keep=0", "--store", store)
    assert rest.stdout == "Moved 6 records to 1 range; chat is open from record 22 on.\n"
    assert len(documents(cli("log", "chat", "--store", store, "--json"))) == 21
    assert cli("archive", "chat", "--store", store).returncode == 2


@pytest.mark.rule("LOG-17")
def test_rebuild_indexes_a_thread_again(cli: Cli, store: str) -> None:
    (rebuilt,) = documents(cli("rebuild", "chat", "--store", store, "--json"))
    assert rebuilt == {"thread": "chat", "indexedThrough": 21}
    assert cli("rebuild", "chat", "--resume", "--store", store).returncode == 0


@pytest.mark.rule("ARC-7")
def test_delete_needs_consent_and_leaves_a_tombstone(cli: Cli, store: str) -> None:
    unasked = error(cli("delete", "chat", "--store", store, "--json"))
    assert (unasked["code"], unasked["name"]) == ("invalid-argument", "--yes")
    (tail,) = documents(cli("tail", "chat", "--store", store, "--json"))
    (tombstone,) = documents(cli("delete", "chat", "--yes", "--store", store, "--json"))
    assert tombstone == tail
    gone = cli("tail", "chat", "--store", store, "--json")
    assert (gone.returncode, error(gone)["code"]) == (4, "thread-deleted")


@pytest.mark.rule("STO-4")
def test_restored_begins_a_new_timeline(cli: Cli, store: str) -> None:
    (before,) = documents(cli("info", "--store", store, "--json"))
    (done,) = documents(cli("restored", "--yes", "--store", store, "--json"))
    assert done["before"] == before["incarnation"] != done["incarnation"]
    assert done["epochsRaisedBy"] == 2**32
    (tail,) = documents(cli("tail", "chat", "--store", store, "--json"))
    assert tail["epoch"] == 2**32 + 1

    async def of_the_lost_timeline() -> None:
        async with open_storage(store) as storage:
            with pytest.raises(FenceRejected):
                await storage.threads.materialize(ThreadId("chat"), epoch=2)

    asyncio.run(of_the_lost_timeline())


@pytest.mark.rule("STO-4")
def test_restored_says_what_follows(cli: Cli, store: str) -> None:
    (before,) = documents(cli("info", "--store", store, "--json"))
    shown = cli("restored", "--yes", "--store", store)
    (after,) = documents(cli("info", "--store", store, "--json"))
    first, now, then, *rules = shown.stdout.splitlines()
    assert first == "A new timeline began: every epoch rose by 4,294,967,296."
    assert now.split() == ["incarnation", after["incarnation"]]
    assert then.split() == ["before", before["incarnation"]]
    subjects = ["History before", "Writers, owners,", "Effects after", "Receipts given"]
    assert [" ".join(rule.split()[:2]) for rule in rules] == subjects


@pytest.mark.rule("STO-4")
def test_restored_asks_before_it_changes_anything(cli: Cli, store: str) -> None:
    (before,) = documents(cli("info", "--store", store, "--json"))
    refused = cli("restored", "--store", store)
    assert (refused.returncode, refused.stdout) == (3, "")
    assert "--yes" in refused.stderr
    assert documents(cli("info", "--store", store, "--json")) == [before]


@pytest.mark.rule("STO-4")
def test_restored_refuses_a_store_that_ends_with_its_process(cli: Cli) -> None:
    refused = cli("restored", "--yes", "--store", "memory://", "--json")
    assert (refused.returncode, error(refused)["code"]) == (3, "invalid-argument")
    assert "ends with its process" in str(error(refused)["message"])


@pytest.mark.rule("STO-4")
def test_a_restored_store_serves_the_demonstration(cli: Cli, store: str) -> None:
    """New threads begin above the lost epochs, and are taken over like any other."""
    cli("restored", "--yes", "--store", store)
    shown = cli("demo", "--store", store)
    assert shown.returncode == 0, shown.stdout
    assert "took over (epoch 4294967298)" in shown.stdout
    assert "(epoch 4294967297) was fenced: FenceRejected" in shown.stdout


COMMANDS = [
    ("threads",),
    ("tail", "chat"),
    ("log", "chat"),
    ("log", "chat", "--follow"),
    ("queue",),
    ("queue", "--thread", "chat"),
    ("show", "work"),
    ("abort", "work"),
    ("approve", "work", "call"),
    ("deny", "work", "call"),
    ("resolve", "work", "call", "never-happened"),
    ("verify", "chat"),
    ("verify", "--all"),
    ("export", "chat", "chat.jsonl"),
    ("info",),
    ("archive", "chat", "--keep=1"),
    ("rebuild", "chat"),
    ("delete", "chat", "--yes"),
    ("restored", "--yes"),
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=" ".join)
def test_no_store_comes_into_being_by_being_looked_at(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///none.db", "sqlite:///folder/none.db", "sqlite:///none.db?shared=true"):
        answer = cli(*arguments, "--store", url, "--json")
        assert (answer.returncode, error(answer)["code"]) == (4, "store-missing")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments",
    [each for each in COMMANDS if "chat" in each],
    ids=" ".join,
)
def test_a_thread_that_is_not_there_is_named(
    cli: Cli,
    store: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    other = ["nobody" if part == "chat" else part for part in arguments]
    answer = cli(*other, "--store", store)
    assert (answer.returncode, answer.stdout) == (4, "")
    assert answer.stderr.startswith("yielded: The thread nobody was never materialized")
    assert not (tmp_path / "chat.jsonl").exists()


def test_import_of_no_file_creates_no_store(cli: Cli, tmp_path: Path) -> None:
    store = tmp_path / "new.db"
    answer = cli("import", str(tmp_path / "none.jsonl"), "--store", f"sqlite:///{store}", "--json")
    assert (answer.returncode, error(answer)["code"]) == (4, "file")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("LAY-3")
def test_a_refused_store_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("These are my notes. " * 100)
    answer = cli("threads", "--store", f"sqlite:///{file}", "--json")
    assert (answer.returncode, error(answer)["code"]) == (6, "store-refused")
    assert file.read_text() == "These are my notes. " * 100
    assert "Traceback" not in cli("info", "--store", f"sqlite:///{file}").stderr
