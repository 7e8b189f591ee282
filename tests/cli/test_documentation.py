"""`docs/cli.md` names every command, every option and every exit code, and no others."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from yielded_core.cli.app import BUILT_IN
from yielded_core.cli.exits import MEANINGS

Cli: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

TEXT: Final = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
OPTION: Final = re.compile(r"--[a-z]+")
EVERYWHERE: Final = {"--store", "--json", "--help"}


def test_every_command_has_a_section() -> None:
    assert re.findall(r"^### yielded (\S+)$", TEXT, re.MULTILINE) == list(BUILT_IN)


def test_every_exit_code_has_a_line() -> None:
    table = re.findall(r"^\| (\d+) \| (.+) \|$", TEXT, re.MULTILINE)
    assert table == [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]


def test_the_help_lists_the_same(cli: Cli) -> None:
    shown = cli("--help").stdout
    assert re.findall(r"^ {2}([a-z]+) +[A-Z]", shown, re.MULTILINE) == list(BUILT_IN)
    for code, meaning in MEANINGS.items():
        assert f"{code:3d}  {meaning}\n" in shown


@pytest.mark.parametrize("command", BUILT_IN)
def test_every_option_is_described(cli: Cli, command: str) -> None:
    _, _, section = TEXT.partition(f"### yielded {command}\n")
    section = section.partition("\n##")[0]
    shown = cli(command, "--help").stdout
    declared = set(OPTION.findall(shown.partition("Options:")[2]))
    assert declared >= EVERYWHERE
    assert set(OPTION.findall(section)) - EVERYWHERE == declared - EVERYWHERE


@pytest.mark.parametrize("command", BUILT_IN)
def test_the_line_in_the_list_begins_the_help_of_the_command(cli: Cli, command: str) -> None:
    assert BUILT_IN[command].help in cli(command, "--help").stdout
