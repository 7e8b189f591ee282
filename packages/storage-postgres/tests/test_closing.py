"""Closing waits for an operation of several statements, whichever it is at (STO-3)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

import pytest

from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import EMPTY, OTHER, batch, note
from yielded_testing.suites.ledger_builders import LaneScript
from yielded_testing.suites.support import turns

if TYPE_CHECKING:
    from server_side import Place

NEW: Final = ThreadId("new")


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("moment", [1, 2, 4, 8, 16])
async def test_what_was_accepted_goes_on_to_its_end(place: Place, moment: int) -> None:
    """A first append looks and commits; a replay and a claimed lane take a transaction besides."""
    async with open_storage(place.url()) as storage:
        lane = await LaneScript.begin(storage)
        await lane.ready("key-1")
        await lane.claim()
        for thread in (OTHER, NEW):
            await storage.threads.materialize(thread, epoch=1)
        sent = batch("again", note("again"))
        first = await storage.threads.append(OTHER, sent, expected=EMPTY, epoch=1)
        again = storage.threads.append(OTHER, sent, expected=EMPTY, epoch=1)
        new = storage.threads.append(NEW, sent, expected=EMPTY, epoch=1)
        replaying, appending = asyncio.create_task(again), asyncio.create_task(new)
        claiming = asyncio.create_task(lane.try_claim())
        await turns(moment)
    replayed, appended, grant = await replaying, await appending, await claiming
    assert replayed.tail == first.tail
    assert replayed.replayed
    assert appended.tail.sequence == 1
    assert grant is None
