"""The memory storage: one set of dictionaries, one event loop, one process."""

from __future__ import annotations

import asyncio
import uuid
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Self

from yielded_core.errors import InvalidStoreUrl
from yielded_core.ledger_ports import LedgerPort, SettlementPort
from yielded_core.lifecycle import Lifecycle
from yielded_core.log.append import ThreadState, require_live
from yielded_core.log.retention import leap
from yielded_core.ports.values import StorageInfo
from yielded_storage_memory.archives import MemoryArchives, StagedImport
from yielded_storage_memory.checkpoints import MemoryCheckpoints
from yielded_storage_memory.clock import Clock
from yielded_storage_memory.lanes import Lanes
from yielded_storage_memory.ledger import MemoryTransactions
from yielded_storage_memory.threads import MemoryThreads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from types import TracebackType

    from yielded_core.ports.values import Tombstone
    from yielded_core.records.identifiers import ThreadId
    from yielded_storage_memory.state import Log, Thread


class Store:
    """The dictionaries behind the ports, and who waits for news of which thread."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self.lifecycle = Lifecycle()
        self.incarnation = uuid.uuid4().hex
        self.epoch_floor = 0
        self.threads: dict[ThreadId, Thread] = {}
        self.tombstones: dict[ThreadId, Tombstone] = {}
        self.imports: dict[ThreadId, StagedImport] = {}
        self.lanes = Lanes()
        self.clock = Clock(clock)
        self._observers: dict[ThreadId, set[asyncio.Event]] = {}

    def check(self) -> None:
        """Raise unless an operation may start here and now."""
        self.lifecycle.check()

    def operation(self) -> AbstractContextManager[object]:
        """Hold closing back while an operation runs."""
        return self.lifecycle.operation()

    def find(self, thread: ThreadId) -> Thread | None:
        """Return a live thread, None for one never materialized; a deleted one is refused."""
        found = self.threads.get(thread)
        buried = self.tombstones.get(thread)
        if found is None and buried is not None:
            require_live(thread, None, buried.tail)
        return found

    def live(self, thread: ThreadId) -> Thread:
        """Return a live thread, or raise ThreadNotMaterialized or ThreadDeleted."""
        found = self.find(thread)
        state = None if found is None else found.state(thread)
        require_live(thread, state, None)
        return self.threads[thread]

    def resolve(self, thread: ThreadId) -> tuple[ThreadState, Log]:
        """Return the snapshot that a read is about."""
        found = self.live(thread)
        return found.state(thread), found.log

    @contextmanager
    def observer(self, thread: ThreadId) -> Generator[asyncio.Event]:
        """Register an event that is set at every commit to a thread."""
        news = asyncio.Event()
        waiting = self._observers.setdefault(thread, set())
        waiting.add(news)
        try:
            yield news
        finally:
            waiting.discard(news)
            if not waiting:
                self._observers.pop(thread, None)

    def wake(self, thread: ThreadId) -> None:
        """Wake the observers of a thread."""
        for news in self._observers.get(thread, ()):
            news.set()

    def wake_all(self) -> None:
        """Wake every observer, so that it notices that the storage was closed."""
        for thread in self._observers:
            self.wake(thread)


class MemoryStorage:
    """A storage whose contents live as long as it is open (STO-1: non-durable)."""

    def __init__(self, clock: Callable[[], int] | None = None) -> None:
        self._store = Store(clock)
        self._threads = MemoryThreads(self._store)
        self._archives = MemoryArchives(self._store)
        self._checkpoints = MemoryCheckpoints(self._store)
        transactions = MemoryTransactions(self._store)
        self._ledger = LedgerPort(transactions)
        self._settlements = SettlementPort(transactions)

    @property
    def threads(self) -> MemoryThreads:
        """The thread log."""
        return self._threads

    @property
    def archives(self) -> MemoryArchives:
        """Archive ranges and imports."""
        return self._archives

    @property
    def checkpoints(self) -> MemoryCheckpoints:
        """Application projections."""
        return self._checkpoints

    @property
    def ledger(self) -> LedgerPort:
        """Accepted work."""
        return self._ledger

    @property
    def settlements(self) -> SettlementPort:
        """The settlement publisher."""
        return self._settlements

    async def info(self) -> StorageInfo:
        """Say what this storage is (STO-1)."""
        with self._store.operation():
            return StorageInfo(
                adapter="yielded-storage-memory",
                version=version("yielded-storage-memory"),
                durability="non-durable",
                lease_lifetime="process",
                incarnation=self._store.incarnation,
                settings={},
                optional_ports=frozenset({"checkpoints"}),
            )

    async def new_incarnation(self) -> str:
        """Start a new timeline: every epoch rises by 2^32 (STO-4)."""
        with self._store.operation():
            epochs = {name: leap(thread.epoch) for name, thread in self._store.threads.items()}
            self._store.epoch_floor = leap(self._store.epoch_floor)
            for name, epoch in epochs.items():
                self._store.threads[name].epoch = epoch
                self._store.lanes.end_ownership(name, self._store.clock.moment().store)
            self._store.incarnation = uuid.uuid4().hex
            return self._store.incarnation

    async def __aenter__(self) -> Self:
        """Open the storage, empty."""
        self._store.lifecycle.begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the storage; its contents are gone."""
        self._store.lifecycle.stop_accepting()
        self._store.wake_all()
        await self._store.lifecycle.drained()


def open_storage(
    url: str = "memory://", *, clock: Callable[[], int] | None = None
) -> MemoryStorage:
    """Return an empty storage for `memory://`; a URL with more in it is InvalidStoreUrl.

    `clock` gives tests an instant of their own, in milliseconds since 1970 UTC.
    """
    if url not in {"memory:", "memory://", "memory:///"}:
        message = "memory:// takes no host, path or options"
        raise InvalidStoreUrl(message)
    return MemoryStorage(clock)
