"""The command itself: its list of commands, what it loads, and what it says when it is misused."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import EntryPoint, EntryPoints
from typing import Final

import pytest
import typer

from yielded_core.cli import app, main
from yielded_core.cli.app import BUILT_IN, run
from yielded_core.cli.stores import redacted

HEAVY: Final = {"aiosqlite", "rich.progress", "sqlalchemy", "yielded_core.transfer.export"}
PROGRAM: Final = """
import json, sys
from yielded_core.cli.app import run
code = run(["--help"])
print(json.dumps([code, sorted(sys.modules)]))
"""


def test_the_help_loads_no_command() -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(answer.stdout.splitlines()[-1])
    assert code == 0
    assert HEAVY & set(modules) == set()
    assert not any(module.startswith("yielded_core.cli.commands") for module in modules)


def test_without_a_command_there_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([]) == 0
    shown = capsys.readouterr().out
    assert all(f"\n  {name} " in shown for name in BUILT_IN)


def test_the_version_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"]) == 0
    assert capsys.readouterr().out.startswith("yielded 0.")


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "typer", None)
    monkeypatch.setattr(sys, "meta_path", [])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert 'pip install "yielded-core[cli]"' in line


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["tail"],
        ["tail", "a", "b"],
        ["tail", "a"],
        ["threads", "--nonsense"],
        ["log", "a", "--limit", "0"],
        ["log", "a", "--limit", "many"],
        ["verify", "--store", "sqlite:///x.db"],
        ["verify", "a", "--all", "--store", "sqlite:///x.db"],
        ["archive", "a", "--keep=1", "--through=1", "--store", "sqlite:///x.db"],
        ["queue", "a", "--store", "sqlite:///x.db"],
        ["show", "--store", "sqlite:///x.db"],
        ["approve", "a", "--store", "sqlite:///x.db"],
        ["resolve", "a", "b", "perhaps", "--store", "sqlite:///x.db"],
        ["resolve", "a", "b", "completed-with-result", "--store", "sqlite:///x.db"],
        ["threads", "--store", "nowhere"],
        ["threads", "--store", "nowhere://"],
        ["threads", "--store", "nowhere://[::"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_told_in_one_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("YIELDED_STORE", raising=False)
    assert run(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    (line,) = shown.err.splitlines()
    assert line.startswith("yielded: ")
    assert run([*arguments[:1], "--json", *arguments[1:]]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert set(json.loads(shown.err)["error"]) >= {"code", "message", "retryable"}


def test_what_follows_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["tail", "--", "--json"]) == 2
    assert capsys.readouterr().err.startswith("yielded: ")


def hello(name: str = "world") -> None:
    """Greet."""
    typer.echo(f"hello {name}")


several = typer.Typer(name="several")
several.command("hello")(hello)


@several.command("leave")
def leave() -> None:
    """Leave with a code."""
    raise typer.Exit(3)


def test_another_distribution_adds_commands(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    this = sys.modules[__name__]
    monkeypatch.setitem(sys.modules, "added_commands", this)
    found = EntryPoints(
        EntryPoint(name, value, app.ENTRY_POINTS)
        for name, value in {
            "hello": "added_commands:hello",
            "several": "added_commands:several",
            "broken": "no_such_module:hello",
            "tail": "added_commands:hello",
        }.items()
    )
    monkeypatch.setattr(app, "entry_points", found.select)
    assert run(["--help"]) == 0
    assert "  broken    Added by another distribution." in capsys.readouterr().out
    assert run(["hello", "--name", "there"]) == 0
    assert capsys.readouterr().out == "hello there\n"
    assert run(["several", "hello"]) == 0
    assert run(["several", "leave"]) == 3
    assert run(["tail", "--name", "there"]) == 2  # a command of core cannot be replaced


def broken() -> None:
    """Fail."""
    raise ZeroDivisionError


def test_a_defect_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "added_commands", sys.modules[__name__])
    entry = EntryPoint("broken", "added_commands:broken", app.ENTRY_POINTS)
    monkeypatch.setattr(app, "entry_points", EntryPoints([entry]).select)
    assert run(["broken"]) == 70
    assert "ZeroDivisionError" in capsys.readouterr().err
    assert run(["--json", "broken"]) == 70
    assert json.loads(capsys.readouterr().err)["error"]["code"] == "defect"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("sqlite:///a.db?synchronous=full", "sqlite:///a.db?synchronous=full"),
        ("postgresql://host:5432/db", "postgresql://host:5432/db"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        ("postgresql://me:secret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://:secret@host/db", "postgresql://:***@host/db"),
        ("postgresql://me:se@cr/et@host/db", "postgresql://me:***@host/db"),
        (
            "postgresql://h/db?user=me&password=secret&a=b",
            "postgresql://h/db?user=me&password=***&a=b",
        ),
        ("postgresql://h/db?sslPassword=secret", "postgresql://h/db?sslPassword=***"),
    ],
)
def test_a_secret_is_never_shown(url: str, shown: str) -> None:
    assert redacted(url) == shown
