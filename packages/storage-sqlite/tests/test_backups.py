"""A backup of a file in use, restored by the commands of `docs/operations.md` (STO-4)."""

from __future__ import annotations

import asyncio
import os
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from yielded_storage_sqlite import open_storage
from yielded_testing.suites import BackupSuite

if TYPE_CHECKING:
    from collections.abc import Callable

    from yielded_testing.clock import OpenStorage
    from yielded_testing.suites.backups import Backups

_BACKUP_API: Final = """
import contextlib, sqlite3
with contextlib.closing(sqlite3.connect("agents.db")) as source:
    with contextlib.closing(sqlite3.connect("backup.db")) as target:
        source.backup(target)
"""
"""What `.backup` of the program `sqlite3` does."""


async def run(folder: Path, *command: str) -> None:
    """Run a command in a folder, with the programs of this environment first."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env={**os.environ, "PATH": path}, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0, command


class CommandsOfThePage:
    """Backups by the commands of the page, each restore in a folder of its own."""

    def __init__(self, folder: Path, documented: Callable[[str, str], str]) -> None:
        self.folder = folder
        self.documented = documented
        self.restores = 0

    async def take(self) -> None:
        """Back up with VACUUM INTO."""
        await run(self.folder, "sh", "-euc", self.documented("sh", _VACUUM))

    async def restore(self) -> OpenStorage:
        """Restore to another folder, declare and verify."""
        self.restores += 1
        to = self.folder / f"restore-{self.restores}"
        await asyncio.to_thread(to.mkdir)
        await asyncio.to_thread((to / "backup.db").hardlink_to, self.folder / "backup.db")
        await run(to, "sh", "-euc", self.documented("sh", "cp backup.db restored.db"))
        return partial(open_storage, f"sqlite:///{to}/restored.db")


_VACUUM: Final = (
    "python -c 'import sqlite3; "
    'sqlite3.connect("agents.db").execute("VACUUM INTO ?", ("backup.db",))\''
)


class BackupApi(CommandsOfThePage):
    """Backups by SQLite's own copy of pages."""

    async def take(self) -> None:
        """Back up as `.backup` does."""
        await run(self.folder, sys.executable, "-c", _BACKUP_API)


@pytest.fixture
def open_again(tmp_path: Path) -> OpenStorage:
    return partial(open_storage, f"sqlite:///{tmp_path}/agents.db")


class TestVacuumInto(BackupSuite):
    @pytest.fixture
    def backups(self, tmp_path: Path, documented: Callable[[str, str], str]) -> Backups:
        return CommandsOfThePage(tmp_path, documented)


class TestBackupApi:
    test_the_lost_timeline_is_fenced = BackupSuite.test_the_lost_timeline_is_fenced

    @pytest.fixture
    def backups(self, tmp_path: Path, documented: Callable[[str, str], str]) -> Backups:
        return BackupApi(tmp_path, documented)
