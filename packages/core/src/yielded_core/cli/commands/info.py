"""`yielded info`: what a store is, and how much is in it (STO-1)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import typer

from yielded_core.cli.listing import threads_of, unsettled_of
from yielded_core.cli.options import Chosen, JsonOption, StoreOption, chosen
from yielded_core.cli.stores import existing_store, redacted
from yielded_core.ledger.transitions import UNSETTLED
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT

if TYPE_CHECKING:
    from collections.abc import Mapping

    from yielded_core.ports.values import StorageInfo
    from yielded_core.ports.work import State


def command(context: typer.Context, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Say what a store is, and how much is in it.

    Adapter, layout, incarnation, the durability settings really in force, and counts: of threads,
    of records, and of submissions that are not settled, by state.
    """
    asyncio.run(_info(chosen(context, store, as_json)))


async def _info(options: Chosen) -> None:
    threads, records = 0, 0
    work = dict.fromkeys(UNSETTLED, 0)
    async with existing_store(options.url) as storage:
        info = await storage.info()
        async for tail in threads_of(storage):
            threads += 1
            records += tail.sequence
        async for submission in unsettled_of(storage):
            work[submission.state] += 1
    output = options.output()
    url = redacted(options.url)
    if output.as_json:
        output.document(_document(info, url, threads, records, work))
        return
    output.pairs(
        {
            "store": url,
            "adapter": f"{info.adapter} {info.version}",
            "layout": f"{LAYOUT_VERSION}, records {RECORD_FORMAT}",
            "incarnation": info.incarnation,
            "durability": info.durability,
            "leases": info.lease_lifetime,
            **dict(sorted(info.settings.items())),
            "offers": ", ".join(sorted(info.optional_ports)) or "nothing optional",
            "threads": f"{threads:,}",
            "records": f"{records:,}",
            "unsettled": _counts(work),
            **({"notes": "; ".join(info.notes)} if info.notes else {}),
        }
    )


def _counts(work: Mapping[State, int]) -> str:
    """Write how many submissions are in each state that any is in."""
    found = [f"{number:,} {state}" for state, number in work.items() if number]
    return ", ".join(found) or "no submission"


def _document(
    info: StorageInfo, url: str, threads: int, records: int, work: Mapping[State, int]
) -> dict[str, object]:
    return {
        "store": url,
        "adapter": info.adapter,
        "version": info.version,
        "layout": LAYOUT_VERSION,
        "recordFormat": RECORD_FORMAT,
        "incarnation": info.incarnation,
        "durability": info.durability,
        "leaseLifetime": info.lease_lifetime,
        "settings": dict(info.settings),
        "optionalPorts": sorted(info.optional_ports),
        "threads": threads,
        "records": records,
        "unsettled": dict(work),
        "notes": list(info.notes),
    }
