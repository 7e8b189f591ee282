"""What is the memory adapter's own: its URL, what it says of itself, and that it shares nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import InvalidStoreUrl, OffsetRefused, ThreadNotMaterialized
from yielded_core.storage import open_storage as open_by_url
from yielded_storage_memory import MemoryStorage, open_storage
from yielded_testing.suites.builders import THREAD, Writer

if TYPE_CHECKING:
    from yielded_core.storage import Storage


@pytest.mark.parametrize("url", ["memory://", "memory:", "memory:///"])
def test_its_url_finds_it(url: str) -> None:
    assert isinstance(open_by_url(url), MemoryStorage)


@pytest.mark.parametrize("url", ["memory://host", "memory:///path", "memory://?shared=true"])
def test_a_url_with_more_in_it_is_refused(url: str) -> None:
    with pytest.raises(InvalidStoreUrl):
        open_storage(url)


@pytest.mark.rule("STO-1")
async def test_it_claims_no_durability(storage: Storage) -> None:
    info = await storage.info()
    assert (info.adapter, info.durability) == ("yielded-storage-memory", "non-durable")
    assert (info.lease_lifetime, info.settings) == ("process", {})


@pytest.mark.rule("STO-3")
async def test_storages_share_nothing(storage: Storage) -> None:
    await storage.threads.materialize(THREAD, epoch=1)
    async with open_storage() as other:
        with pytest.raises(ThreadNotMaterialized):
            await other.threads.tail(THREAD)
        assert (await other.info()).incarnation != (await storage.info()).incarnation


@pytest.mark.rule("LOG-9")
async def test_an_offset_of_another_store_is_refused(storage: Storage) -> None:
    await (await Writer.begin(storage)).fill(1)
    offset = (await storage.threads.read(THREAD))[0].offset
    async with open_storage() as other:
        await (await Writer.begin(other)).fill(1)
        with pytest.raises(OffsetRefused):
            await anext(other.threads.observe(THREAD, after=offset))
