"""`?create=false`: a store that is not there does not come into being (LAY-1, LAY-3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import InvalidStoreUrl, StoreMissing, StoreRefused
from yielded_storage_sqlite import open_storage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.rule("LAY-1")
@pytest.mark.parametrize("name", ["none.db", "no/folder/none.db"])
async def test_nothing_is_created(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreMissing, match=r"none\.db"):
        async with open_storage(f"sqlite:///{tmp_path}/{name}?create=false"):
            pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.rule("LAY-1")
async def test_an_empty_file_is_no_store(tmp_path: Path) -> None:
    file = tmp_path / "empty.db"
    file.touch()
    with pytest.raises(StoreMissing):
        async with open_storage(f"sqlite:///{file}?create=false"):
            pass
    assert list(tmp_path.iterdir()) == [file]
    assert file.read_bytes() == b""


@pytest.mark.rule("LAY-1")
async def test_a_store_that_is_there_is_opened(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with open_storage(f"{url}?create=true") as storage:
        created = await storage.info()
    async with open_storage(f"{url}?create=false") as storage:
        assert (await storage.info()).incarnation == created.incarnation


@pytest.mark.rule("LAY-3")
async def test_what_is_no_store_is_refused_as_ever(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("notes " * 1_000)
    with pytest.raises(StoreRefused):
        async with open_storage(f"sqlite:///{file}?create=false"):
            pass


def test_the_option_is_true_or_false() -> None:
    with pytest.raises(InvalidStoreUrl, match="create is true or false"):
        open_storage("sqlite:///store.db?create=maybe")
