"""Saboteurs of the bundle: what it says of itself, opening, closing, timelines (STO)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, Self

from yielded_core.log import offsets, retention
from yielded_testing.saboteurs.model import Saboteur, WrongRule
from yielded_testing.saboteurs.proxies import Archives, Bundle

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from yielded_core.ports.values import ImportState, StorageInfo, ThreadTail
    from yielded_core.records.identifiers import ThreadId


class ClaimsDurability(Bundle):
    """A storage says that it is durable without a setting that was read back."""

    async def info(self) -> StorageInfo:
        return replace(await self.inner.info(), durability="durable-file", settings={})


class TwoTransactions(Archives):
    """An import is published and its staging removed in two transactions, the second one later."""

    _late: ImportState | None = None

    async def publish_import(self, thread: ThreadId) -> ThreadTail:
        self._late = await self.inner.import_state(thread)
        return await self.inner.publish_import(thread)

    async def import_state(self, thread: ThreadId) -> ImportState | None:
        found, self._late = await self.inner.import_state(thread) or self._late, None
        return found


class NeverClosed(Bundle):
    """A storage that was left goes on."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.inner.info()


class OpensTwice(Bundle):
    """A storage that is open can be opened again."""

    _opened = False

    async def __aenter__(self) -> Self:
        if not self._opened:
            await self.inner.__aenter__()
        self._opened = True
        return self


def _one_step(_right: object) -> Callable[[int], int]:
    """A new timeline raises every epoch by one, which the lost timeline may have granted."""
    return lambda epoch: epoch + 1


def _from_the_bottom(_right: object) -> Callable[[int, int], int]:
    """A thread that a backup did not know begins at the epoch that its lost writers have."""
    return lambda epoch, _floor: epoch


def _timeless(right: Callable[[str, str], str]) -> Callable[[str, str], str]:
    """Offsets do not carry the incarnation of the store."""
    return lambda _incarnation, thread: right("", thread)


SABOTEURS: Final = (
    Saboteur("claims-durability", ("STO-1",), "test_a_storage_says_what_it_is", ClaimsDurability),
    Saboteur(
        "two-transactions", ("STO-2", "ARC-4"), "test_the_ports_show_one_state", TwoTransactions
    ),
    Saboteur("never-closed", ("STO-3",), "test_a_closed_storage_refuses_everything", NeverClosed),
    Saboteur("opens-twice", ("STO-3",), "test_a_storage_is_opened_once", OpensTwice),
    Saboteur(
        "timeline-one-step-on",
        ("STO-4",),
        "test_a_new_timeline_raises_every_epoch",
        WrongRule(retention, "leap", _one_step),
    ),
    Saboteur(
        "new-threads-at-lost-epochs",
        ("STO-4",),
        "test_a_thread_begins_above_every_lost_timeline",
        WrongRule(retention, "first_epoch", _from_the_bottom),
    ),
    Saboteur(
        "offsets-without-incarnation",
        ("STO-4",),
        "test_positions_of_the_old_timeline_are_refused",
        WrongRule(offsets, "offset_prefix", _timeless),
    ),
)
