"""What a schema is before it is served: created, opened as it is, or refused (LAY-1 to LAY-4)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
from opening_program import incarnation
from server_side import part

from yielded_core.errors import StorageClosed, StorageReadOnly, StoreMissing, StoreRefused
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.inspection import FACTS_FILE
from yielded_storage_postgres.render_facts import facts_text
from yielded_testing.suites.builders import THREAD, Writer, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import stored_names

if TYPE_CHECKING:
    from server_side import Place

PROGRAM: Final = Path(__file__).with_name("opening_program.py")


class Case(NamedTuple):
    """A store that was changed: how, and what its refusal says."""

    statements: tuple[str, ...]
    difference: str
    reason: str = "ambiguous"


_FUNCTION: Final = (
    "CREATE FUNCTION keep() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'"
)
_TRIGGER: Final = (
    "CREATE TRIGGER kept BEFORE UPDATE ON yielded_threads FOR EACH ROW EXECUTE FUNCTION keep()"
)
_HEAD: Final = (
    "CREATE INDEX yielded_submissions_head ON yielded_submissions"
    " (thread_id, generation, queue_sequence)"
)
_INVALID: Final = (
    "UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'yielded_runnable_since'::regclass"
)
REFUSED: Final = {
    "layout 20": Case(
        ("UPDATE yielded_header SET layout_version = 20",),
        "header: layout_version is 20, expected 21",
        "predecessor",
    ),
    "layout 22": Case(
        ("UPDATE yielded_header SET layout_version = 22",),
        "header: layout_version is 22, expected 21",
        "newer",
    ),
    "no header row": Case(("DELETE FROM yielded_header",), "header: it has no row"),
    "no header table": Case(("DROP TABLE yielded_header",), "table yielded_header is missing"),
    "a header alone": Case(("DROP TABLE yielded_threads",), "table yielded_threads is missing"),
    "an index dropped": Case(
        ("DROP INDEX yielded_runnable_since",),
        "index yielded_runnable_since on yielded_runnable is missing",
    ),
    "an index without its predicate": Case(
        (
            "DROP INDEX yielded_submissions_head",
            _HEAD,
        ),
        "index yielded_submissions_head on yielded_submissions is different",
    ),
    "an index that is not valid": Case(
        (_INVALID,),
        "index yielded_runnable_since on yielded_runnable is different",
    ),
    "a column of another type": Case(
        ("ALTER TABLE yielded_runnable ALTER since TYPE integer",),
        "table yielded_runnable: column since has type integer, expected bigint",
    ),
    "a column of another collation": Case(
        ('ALTER TABLE yielded_tombstones ALTER thread_id TYPE text COLLATE "default"',),
        "table yielded_tombstones: column thread_id is declared differently",
    ),
    "a column that may be NULL": Case(
        ("ALTER TABLE yielded_records ALTER wire DROP NOT NULL",),
        "table yielded_records: column wire may be NULL",
    ),
    "a column more": Case(
        ("ALTER TABLE yielded_threads ADD note text",),
        "table yielded_threads: unexpected column note",
    ),
    "a check dropped": Case(
        ("ALTER TABLE yielded_threads DROP CONSTRAINT yielded_threads_tail",),
        "table yielded_threads: constraint yielded_threads_tail is missing",
    ),
    "a check more": Case(
        ("ALTER TABLE yielded_threads ADD CONSTRAINT few CHECK (epoch < 10)",),
        "table yielded_threads: unexpected constraint few",
    ),
    "a unique index more": Case(
        ("CREATE UNIQUE INDEX one_epoch ON yielded_threads (epoch)",),
        "unexpected unique index one_epoch on yielded_threads",
    ),
    "a trigger": Case(
        (_FUNCTION, _TRIGGER),
        "unexpected trigger kept on yielded_threads",
    ),
    "a rule": Case(
        ("CREATE RULE nothing AS ON DELETE TO yielded_garbage DO INSTEAD NOTHING",),
        "unexpected trigger nothing on yielded_garbage",
    ),
    "an unlogged table": Case(
        ("ALTER TABLE yielded_records SET UNLOGGED",),
        "table yielded_records: it has UNLOGGED, expected no options",
    ),
    "a table that hides rows": Case(
        ("ALTER TABLE yielded_records ENABLE ROW LEVEL SECURITY",),
        "table yielded_records: it has ROW LEVEL SECURITY, expected no options",
    ),
    "a view named as ours": Case(
        ("CREATE VIEW yielded_view AS SELECT 1",), "unexpected view yielded_view"
    ),
}
GUESTS: Final = {
    "table guests": "CREATE TABLE guests (name text)",
    "view adults": "CREATE VIEW adults AS SELECT 1",
    "sequence numbers": "CREATE SEQUENCE numbers",
    "function keep": _FUNCTION,
    "type mood": "CREATE TYPE mood AS ENUM ('good')",
}


async def check_refused(place: Place, reason: str, *options: str) -> StoreRefused:
    """Opening is refused with a reason, and leaves every object and row as it was."""
    before = await place.dump()
    storage = open_storage(place.url(*options))
    with pytest.raises(StoreRefused) as caught:
        await storage.__aenter__()
    assert await place.dump() == before
    assert caught.value.reason == reason
    with pytest.raises(StorageClosed):
        await storage.threads.materialize(THREAD, epoch=1)
    return caught.value


@pytest.mark.rule("LAY-1", "LAY-2")
async def test_a_fresh_schema_gets_the_layout_and_keeps_it(place: Place) -> None:
    created = await incarnation(place.url())
    rows = await place.raw.fetch("SELECT incarnation, layout_version, options FROM yielded_header")
    assert [tuple(row) for row in rows] == [(created, 21, "{}")]
    before = await place.dump()
    assert await incarnation(place.url()) == created
    assert await place.dump() == before


@pytest.mark.rule("LAY-1")
async def test_an_empty_schema_that_is_there_is_fresh(place: Place) -> None:
    await place.run(f"CREATE SCHEMA {place.schema}")
    assert await incarnation(place.url()) == await incarnation(place.url("create=false"))


@pytest.mark.rule("LAY-4")
async def test_sixteen_storages_of_one_process_open_a_fresh_schema(place: Place) -> None:
    found = await asyncio.gather(*(incarnation(place.url()) for _ in range(16)))
    assert len(set(found)) == 1
    assert await place.count("yielded_header") == 1


@pytest.mark.rule("LAY-4")
async def test_four_processes_open_a_fresh_schema(place: Place) -> None:
    command = (sys.executable, str(PROGRAM), place.url(), "4")
    async with place.holding(
        "SELECT pg_advisory_xact_lock(hashtextextended('yielded ' || $1, 21))", place.schema
    ):
        started = [
            await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
            for _ in range(4)
        ]
        await place.waiting(16)
    said = await asyncio.gather(*(each.communicate() for each in started))
    found = [line for out, _ in said for line in out.decode().split()]
    assert len(found) == 16
    assert set(found) == {await incarnation(place.url())}


@pytest.mark.rule("LAY-2")
async def test_the_committed_facts_are_what_the_server_says(place: Place) -> None:
    package = Path(sys.modules["yielded_storage_postgres"].__file__ or "").parent
    committed = (package / FACTS_FILE).read_text(encoding="utf-8")
    assert await facts_text(place.url()) == committed


@pytest.mark.rule("LAY-2", "LAY-3")
@pytest.mark.parametrize("name", REFUSED)
async def test_what_differs_is_refused_by_name(place: Place, name: str) -> None:
    case = REFUSED[name]
    await incarnation(place.url())
    await place.run(*case.statements)
    refusal = await check_refused(place, case.reason, "shared=true")
    assert case.difference in refusal.differences


@pytest.mark.rule("LAY-1", "LAY-3")
@pytest.mark.parametrize("guest", GUESTS)
async def test_a_schema_of_others_is_shared_only_where_that_is_meant(
    place: Place, guest: str
) -> None:
    await place.run(f"CREATE SCHEMA {place.schema}", GUESTS[guest])
    refusal = await check_refused(place, "foreign")
    assert guest in refusal.detail
    created = await incarnation(place.url("shared=true"))
    assert await incarnation(place.url()) == created


@pytest.mark.rule("LAY-2")
async def test_an_index_of_an_operator_is_listed(place: Place) -> None:
    await incarnation(place.url())
    await place.run("CREATE INDEX by_epoch ON yielded_threads (epoch)")
    async with open_storage(place.url()) as storage:
        assert (await storage.info()).notes == ("extra index by_epoch on yielded_threads",)


@pytest.mark.rule("LAY-1", "LAY-3")
@pytest.mark.parametrize("there", [False, True])
async def test_nothing_is_created_where_that_is_not_meant(place: Place, *, there: bool) -> None:
    if there:
        await place.run(f"CREATE SCHEMA {place.schema}")
    before = await place.dump()
    with pytest.raises(StoreMissing, match=place.schema):
        await incarnation(place.url("create=false"))
    assert await place.dump() == before


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("there", [False, True])
async def test_a_role_that_may_not_create_is_told_so(place: Place, *, there: bool) -> None:
    async with place.role() as role:
        if there:
            await place.run(
                f"CREATE SCHEMA {place.schema}", f"GRANT USAGE ON SCHEMA {place.schema} TO {role}"
            )
        before = await place.dump()
        with pytest.raises(StorageReadOnly, match="privilege"):
            await incarnation(place.url(role=role))
        assert await place.dump() == before


@pytest.mark.rule("LAY-2")
@pytest.mark.parametrize("setting", ["default_transaction_read_only = on", "lock_timeout = '9s'"])
async def test_a_current_store_is_opened_without_any_change(place: Place, setting: str) -> None:
    """A role that may not create anything, and one that may not even write, open it."""
    created = await incarnation(place.url())
    async with place.role(setting) as role:
        await place.grant(role)
        assert await incarnation(place.url(role=role)) == created


@pytest.mark.rule("LAY-1", "LAY-2")
@pytest.mark.parametrize("path", ["evil", "evil, pg_catalog"])
async def test_a_search_path_leads_nowhere(place: Place, path: str) -> None:
    """Tables that look like ours and like the catalog stand in it; nothing of them is touched."""
    evil = f"{place.schema}_evil"
    await incarnation(f"{place.server}?schema={evil}")
    try:
        await place.run(
            f"CREATE TABLE {evil}.pg_class (relname text)",
            f"CREATE TABLE {evil}.pg_namespace (nspname text)",
        )
        setting = f"search_path = {path.replace('evil', evil)}"
        async with place.role(setting) as role:
            await place.run(f"GRANT CREATE ON DATABASE {await _database(place)} TO {role}")
            await place.run(f"GRANT USAGE ON SCHEMA {evil} TO {role}")
            async with open_storage(place.url(role=role)) as storage:
                await (await Writer.begin(storage)).append(note("one"))
                await (await LaneScript.begin(storage)).run("key-1")
                assert await stored_names(storage) == ["one"]
                engine = part(storage, "_database").engine
                async with engine.connect() as connection:
                    shown = await connection.exec_driver_sql("SHOW search_path")
                    assert shown.scalar_one() == setting.removeprefix("search_path = ")
        assert await place.count(f"{evil}.yielded_threads") == 0
    finally:
        await place.run(f"DROP SCHEMA {evil} CASCADE")


async def _database(place: Place) -> str:
    return str(await place.raw.fetchval("SELECT quote_ident(current_database())"))
