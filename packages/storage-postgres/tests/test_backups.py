"""A dump of a schema in use, restored by the commands of `docs/operations.md` (STO-4)."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from server_side import new_database

from yielded_storage_postgres import open_storage
from yielded_testing.suites import BackupSuite

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from server_side import Place

    from yielded_testing.clock import OpenStorage
    from yielded_testing.suites.backups import Backups

_DUMP: Final = 'pg_dump --dbname="$AGENTS" --schema=agents --format=custom --file=agents.dump'
_DECLARE: Final = 'yielded restored --yes --store "$RESTORED?schema=agents"'


@dataclass
class CommandsOfThePage:
    """Backups by the commands of the page, each restore in a database of its own."""

    folder: Path
    place: Place
    agents: str
    programs: Path
    documented: Callable[[str, str], str]
    databases: AsyncExitStack

    async def take(self) -> None:
        """Dump the schema."""
        await self._run(_DUMP)

    async def restore(self) -> OpenStorage:
        """Restore to a new database, declare and verify."""
        to = await self.databases.enter_async_context(new_database(self.place))
        await self._run(_DECLARE, RESTORED=to)
        return partial(open_storage, f"{to}?schema=agents")

    async def _run(self, line: str, **variables: str) -> None:
        """Run the commands of a block, with the programs of the server and of this environment."""
        folders = (str(self.programs), str(Path(sys.executable).parent), os.environ["PATH"])
        named = {"PATH": os.pathsep.join(folders), "AGENTS": self.agents, **variables}
        commands = self.documented("sh", line)
        process = await asyncio.create_subprocess_exec(
            *("sh", "-euc", commands),
            cwd=self.folder,
            env={**os.environ, **named},
            stdout=asyncio.subprocess.DEVNULL,
        )
        assert await process.wait() == 0, commands


class TestDump(BackupSuite):
    @pytest.fixture
    async def agents(self, place: Place) -> AsyncGenerator[str]:
        async with new_database(place) as database:
            yield database

    @pytest.fixture
    def open_again(self, agents: str) -> OpenStorage:
        return partial(open_storage, f"{agents}?schema=agents")

    @pytest.fixture
    async def backups(
        self,
        tmp_path: Path,
        place: Place,
        agents: str,
        client_programs: Path,
        documented: Callable[[str, str], str],
    ) -> AsyncGenerator[Backups]:
        async with AsyncExitStack() as databases:
            yield CommandsOfThePage(tmp_path, place, agents, client_programs, documented, databases)
