"""A store whose tables are partitioned by thread is a store like every other (LAY-1 to LAY-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.errors import InvalidStoreUrl, StoreRefused
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.address import parse_url
from yielded_testing.suites.builders import Writer, note
from yielded_testing.suites.ledger_builders import LaneScript

if TYPE_CHECKING:
    from server_side import Place

PARTITIONS: Final = "partitions=4"
THREADS: Final = tuple(ThreadId(f"thread-{number}") for number in range(16))


@pytest.mark.rule("LAY-1", "LAY-2")
async def test_a_store_keeps_its_partitions_however_it_is_opened(place: Place) -> None:
    async with open_storage(place.url(PARTITIONS)) as storage:
        for thread in THREADS:
            await (await Writer.begin(storage, thread)).append(note("one"))
    for options in ((), (PARTITIONS,), ("partitions=7",)):
        async with open_storage(place.url(*options)) as storage:
            assert [each.thread_id for each in await storage.threads.threads()] == sorted(THREADS)
    assert await place.raw.fetchval("SELECT options FROM yielded_header") == '{"partitions":4}'
    counts = [await place.count(f"yielded_records_{number:03}") for number in range(4)]
    assert sum(counts) == len(THREADS)
    assert all(counts)


@pytest.mark.rule("LAY-3")
@pytest.mark.parametrize(
    "harm",
    [
        "DROP TABLE yielded_records_003",
        "ALTER TABLE yielded_records DETACH PARTITION yielded_records_002",
        "ALTER TABLE yielded_records_001 SET UNLOGGED",
        "CREATE TABLE yielded_records_004 (LIKE yielded_records_003)",
        "CREATE UNIQUE INDEX other ON yielded_records_000 (thread_id)",
        "ALTER TABLE yielded_records_000 ADD CHECK (sequence < 9)",
        "UPDATE yielded_header SET options = '{\"partitions\":5}'",
        "UPDATE yielded_header SET options = '{}'",
        'UPDATE yielded_header SET options = \'{"partitions":4,"other":1}\'',
        "UPDATE yielded_header SET options = 'none'",
    ],
)
async def test_partitions_that_are_not_as_they_were_made_are_refused(
    place: Place, harm: str
) -> None:
    async with open_storage(place.url(PARTITIONS)):
        pass
    await place.run(harm)
    before = await place.dump()
    with pytest.raises(StoreRefused) as refused:
        async with open_storage(place.url(PARTITIONS)):
            pass
    assert refused.value.reason == "ambiguous"
    assert await place.dump() == before


@pytest.mark.rule("LOG-18", "LED-16")
async def test_a_thread_is_in_one_partition_of_each_table(place: Place) -> None:
    """So that what is asked about one thread is asked of one part."""
    async with open_storage(place.url(PARTITIONS)) as storage:
        lane = await LaneScript.begin(storage, THREADS[0])
        await lane.run("key-1")
        await lane.apply_input("key-1")
    parts = await place.raw.fetch(
        "SELECT DISTINCT right(relname, 3) FROM pg_class WHERE relnamespace = $1::regnamespace"
        " AND relispartition AND relkind = 'r' AND pg_relation_size(oid) > 0",
        place.schema,
    )
    assert len(parts) == 1


@pytest.mark.parametrize("count", ["-1", "257", "four", "04", "1e1"])
def test_a_count_of_partitions_is_a_small_whole_number(count: str) -> None:
    with pytest.raises(InvalidStoreUrl, match="partitions is a whole number"):
        parse_url(f"postgresql://role@host/database?partitions={count}")
