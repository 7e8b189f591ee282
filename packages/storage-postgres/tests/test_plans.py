"""What an append looks up does not grow with its thread, whatever the server plans (LOG-18)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from yielded_core.log.append import ThreadState
from yielded_core.log.prepared import prepare_batch
from yielded_core.records.bounds import BATCH_RECORDS
from yielded_storage_postgres import open_storage, planning
from yielded_testing.suites.builders import THREAD, Writer, batch, note

if TYPE_CHECKING:
    from collections.abc import Iterator

    from server_side import Place

    from yielded_core.ports.values import Tail


@pytest.mark.rule("LOG-18")
@pytest.mark.parametrize("count", [1, 2, 100, BATCH_RECORDS])
async def test_a_record_id_is_looked_up_by_itself(place: Place, count: int) -> None:
    """Before there are statistics, too, in a thread that has only begun and in a longer one."""
    async with open_storage(place.url()) as storage:
        writer = await Writer.begin(storage)
        await _looked_up(place, writer.tail, count)
        for first in range(0, 10 * BATCH_RECORDS, BATCH_RECORDS):
            names = range(first, first + BATCH_RECORDS)
            await writer.append(*(note(f"stored-{name}") for name in names))
        await _looked_up(place, writer.tail, count)


async def _looked_up(place: Place, tail: Tail, count: int) -> None:
    scans = [scan for node in await _plan(place, tail, count) if (scan := _scan(node)) is not None]
    assert {table for table, _ in scans} == {"yielded_records", "yielded_archived_records"}
    assert [condition for _, condition in scans if "record_id" not in condition] == []


async def _plan(place: Place, tail: Tail, count: int) -> list[dict[str, Any]]:
    """Return the nodes of the plan that commits a batch of so many records."""
    state = ThreadState(THREAD, 1, 1, tail.sequence, tail.digest, tail.sequence, 0)
    prepared = prepare_batch(batch("one", *(note(f"name-{number}") for number in range(count))))
    plan = planning.plan_append(state, {}, prepared, tail, 1)
    statement = planning.append_statement(f'"{place.schema}"', plan.shape)
    async with place.connected() as connection:
        explained = f"EXPLAIN (FORMAT JSON) {statement}"
        text = await connection.fetchval(explained, *plan.guard, *plan.values)
    return list(_nodes(json.loads(text)[0]["Plan"]))


def _nodes(node: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield node
    for below in node.get("Plans", ()):
        yield from _nodes(below)


def _scan(node: dict[str, Any]) -> tuple[str, str] | None:
    """Return which table of records a node scans, and by what condition on an index."""
    table = node.get("Relation Name", "")
    if node["Node Type"] == "ModifyTable" or "_records" not in table:
        return None
    return table, node.get("Index Cond", "")
