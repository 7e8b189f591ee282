"""The roles of `docs/operations.md`: an owner for the first boot, and one that only serves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import asyncpg
import pytest
from server_side import connect
from sqlalchemy import make_url

from yielded_core.errors import StorageReadOnly, StoreMissing
from yielded_core.transfer.verify import verify_thread
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.notices import POLL_SECONDS
from yielded_testing.suites.builders import OTHER, THREAD, Writer
from yielded_testing.suites.indexes import indexed_thread
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import PATIENCE, observing, refused, sequences

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable

    from server_side import Place

ADMINISTRATOR: Final = "CREATE SCHEMA agents AUTHORIZATION agents_owner;"
PASSWORD: Final = "change-me"  # noqa: S105 - as the page has it
OWNER: Final = "REVOKE INSERT, UPDATE, DELETE ON agents.yielded_header FROM agents_runtime;"
REFUSED: Final = (
    "CREATE TABLE {0}.mine (name text)",
    "ALTER TABLE {0}.yielded_threads ADD note text",
    "CREATE INDEX mine ON {0}.yielded_threads (epoch)",
    "DROP TABLE {0}.yielded_garbage",
    "DROP SCHEMA {0}",
    "TRUNCATE {0}.yielded_records",
    "CREATE VIEW {0}.mine AS SELECT 1",
    "CREATE RULE mine AS ON DELETE TO {0}.yielded_garbage DO INSTEAD NOTHING",
    "UPDATE {0}.yielded_header SET incarnation = 'mine'",
    "DELETE FROM {0}.yielded_header",
)


@dataclass(frozen=True)
class Roles:
    """The schema of the page under another name, and who may do what in it."""

    place: Place
    name: str
    documented: Callable[[str, str], str]

    def server(self, role: str) -> str:
        """Return the URL of the server as one of the two roles."""
        url = make_url(self.place.server).set(username=f"{self.name}_{role}", password=PASSWORD)
        return url.render_as_string(hide_password=False)

    def store(self, role: str) -> str:
        """Return the URL of the store as one of the two roles."""
        return f"{self.server(role)}?schema={self.name}"

    async def run(self, line: str, *, role: str | None = None) -> None:
        """Run a block of the page as a role, by default as the administrator."""
        statements = self.documented("sql", line).replace("agents", self.name)
        server = self.place.server if role is None else self.server(role)
        connection = await connect(server, "public")
        try:
            await connection.execute(statements)
        finally:
            await connection.close()


@pytest.fixture
async def roles(place: Place, documented: Callable[[str, str], str]) -> AsyncGenerator[Roles]:
    """The roles of the page after the administrator's part."""
    made = Roles(place, f"agents_{uuid4().hex}", documented)
    await made.run(ADMINISTRATOR)
    try:
        yield made
    finally:
        for role in (f"{made.name}_runtime", f"{made.name}_owner"):
            await place.run(f"DROP OWNED BY {role} CASCADE", f"DROP ROLE {role}")


@pytest.fixture
async def runtime(roles: Roles) -> str:
    """The URL of the store for the programs, after the first boot and the owner's part."""
    async with open_storage(roles.store("owner")):
        pass
    await roles.run(OWNER, role="owner")
    return roles.store("runtime")


@pytest.mark.rule("LAY-1")
async def test_the_runtime_role_cannot_make_the_first_boot(roles: Roles) -> None:
    with pytest.raises(StorageReadOnly, match="privilege"):
        await open_storage(roles.store("runtime")).__aenter__()
    with pytest.raises(StoreMissing):
        await open_storage(f"{roles.store('runtime')}&create=false").__aenter__()


@pytest.mark.rule("LAY-2")
async def test_the_runtime_role_serves(runtime: str) -> None:
    """Appends, ranges, rebuilt indexes, claims, calls in doubt, a settlement, a deletion."""
    async with open_storage(runtime) as storage:
        writer = await indexed_thread(storage)
        await storage.archives.seal_range(THREAD, through=10)
        await storage.archives.archive_range(THREAD, first=1)
        await storage.threads.rebuild_indexes(THREAD, restart=True, limit=1_024)
        lane = await LaneScript.begin(storage, OTHER)
        await lane.run("key-1")
        await lane.apply_input("key-1")
        await lane.mark_unknown("key-1")
        await lane.release()
        await lane.abort("key-1")
        await lane.claim()
        await lane.settle("key-1", "aborted")
        assert (await lane.see("key-1")).state == "settled"
        for thread in (THREAD, OTHER):
            assert (await verify_thread(storage, thread)).ok
        assert (await storage.threads.tail(THREAD)).tail == writer.tail
        await storage.threads.delete_thread(OTHER)


@pytest.mark.rule("LOG-9")
async def test_the_runtime_role_is_woken_by_notices(runtime: str) -> None:
    """An observer in one storage sees another's append long before it would look by itself."""
    async with open_storage(runtime) as reader, open_storage(runtime) as other:
        writer = await Writer.begin(other)
        await writer.fill(1)
        async with observing(reader) as seen:
            await seen.until(1)
            patience = PATIENCE.set(POLL_SECONDS / 2)
            await writer.fill(1)
            assert sequences(await seen.until(2)) == [1, 2]
            PATIENCE.reset(patience)


@pytest.mark.rule("LAY-2")
@pytest.mark.parametrize("statement", REFUSED)
async def test_the_runtime_role_may_not_change_the_layout(
    roles: Roles, runtime: str, statement: str
) -> None:
    assert runtime
    connection = await connect(roles.server("runtime"), roles.name)
    try:
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await connection.execute(statement.format(roles.name))
    finally:
        await connection.close()


@pytest.mark.rule("STO-4")
async def test_only_the_owner_declares_a_store_restored(roles: Roles, runtime: str) -> None:
    async with open_storage(runtime) as storage:
        before = (await storage.info()).incarnation
        await storage.threads.materialize(THREAD, epoch=1)
        await refused(StorageReadOnly, storage.new_incarnation())
        assert (await storage.threads.tail(THREAD)).epoch == 1
    async with open_storage(roles.store("owner")) as storage:
        assert await storage.new_incarnation() != before
    async with open_storage(runtime) as storage:
        assert (await storage.threads.tail(THREAD)).epoch == 1 + 2**32
