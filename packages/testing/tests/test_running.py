"""Running cases without pytest: what counts as failed, what as a crash, each on its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from yielded_core.errors import StorageClosed
from yielded_testing.cases import cases_of
from yielded_testing.running import run_cases
from yielded_testing.saboteurs.proxies import Bundle
from yielded_testing.suites.support import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import Self

    from yielded_core.storage import Storage


class Opened(Bundle):
    """A storage that does nothing but count how often it was opened and closed."""

    log: list[str] = []  # noqa: RUF012 - cleared by the fixture below

    def __init__(self, *, clock: Callable[[], int] | None = None) -> None:
        del clock

    async def __aenter__(self) -> Self:
        self.log.append("opened")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.log.append("closed")


@pytest.fixture(autouse=True)
def _fresh() -> None:
    Opened.log.clear()


class _Suite:
    async def test_1_passes(self, storage: Storage) -> None:
        assert isinstance(storage, Opened)

    async def test_2_is_wrong(self, storage: Storage) -> None:
        assert not isinstance(storage, Opened), "canary"

    async def test_3_raises_nothing(self, storage: Storage) -> None:
        del storage
        with pytest.raises(ValueError, match="never"):
            await asyncio.sleep(0)

    async def test_4_is_refused(self, storage: Storage) -> None:
        del storage
        raise StorageClosed("it was closed")

    async def test_5_waits(self, storage: Storage) -> None:
        del storage
        async with asyncio.timeout(PATIENCE.get()):
            await asyncio.Event().wait()

    async def test_6_crashes(self, storage: Storage) -> None:
        del storage
        raise KeyError("key")

    async def test_7_takes_a_folder(
        self, tmp_path: Path, open_again: Callable[[], Storage]
    ) -> None:
        async with open_again():
            assert tmp_path.is_dir()
            assert not Path.cwd().samefile(tmp_path)


def test_outcomes_are_told_apart() -> None:
    outcomes = run_cases(cases_of(_Suite), Opened, patience=0.01)
    assert [each.result for each in outcomes] == [
        "passed",
        "failed",
        "failed",
        "failed",
        "failed",
        "crashed",
        "passed",
    ]
    assert outcomes[0].detail == outcomes[6].detail == ""
    assert outcomes[1].detail.startswith("AssertionError: canary")
    assert outcomes[5].detail == "KeyError: 'key'"
    assert all(len(each.detail) <= 200 for each in outcomes)


def test_each_case_has_a_storage_of_its_own() -> None:
    run_cases(cases_of(_Suite), Opened, patience=0.01)
    assert Opened.log == ["opened", "closed"] * 7
