"""The storage bundle, and how a URL finds its adapter."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol, Self, cast, runtime_checkable
from urllib.parse import urlsplit

from yielded_core.errors import AdapterMissing, InvalidStoreUrl

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from yielded_core.ports.ledger import SettlementPublisher, SubmissionLedger
    from yielded_core.ports.threads import ArchiveStore, CheckpointStore, ThreadStore
    from yielded_core.ports.values import StorageInfo

ENTRY_POINTS = "yielded.storage"
"""Entry-point group: URL scheme -> factory taking the URL and returning an unopened Storage."""

_PACKAGES = {
    "memory": "yielded-storage-memory",
    "sqlite": "yielded-storage-sqlite",
    "postgresql": "yielded-storage-postgres",
}


@runtime_checkable
class Storage(Protocol):
    """The ports of one store, which share one transaction owner (STO-2).

    An async context manager: entering opens the store, leaving closes it. Closing waits for what
    was accepted; what comes later is StorageClosed (STO-3).
    """

    @property
    def threads(self) -> ThreadStore:
        """The thread log."""
        ...

    @property
    def archives(self) -> ArchiveStore:
        """Archive ranges and imports."""
        ...

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Application projections, where offered."""
        ...

    @property
    def ledger(self) -> SubmissionLedger:
        """Accepted work."""
        ...

    @property
    def settlements(self) -> SettlementPublisher:
        """The settlement publisher."""
        ...

    async def info(self) -> StorageInfo:
        """Say what this storage is, its settings read back from the engine (STO-1)."""
        ...

    async def new_incarnation(self) -> str:
        """Start a new timeline after a restore: every epoch rises by 2^32 (STO-4).

        That of a thread that is still to begin rises too. Returns the new incarnation. Raises
        InvalidIdentifier, and changes nothing, where an epoch cannot rise.
        """
        ...

    async def __aenter__(self) -> Self:
        """Open the store; StoreRefused leaves it byte for byte as it was (LAY-3)."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the store and leave no task, thread, connection or lock behind."""
        ...


def open_storage(url: str) -> Storage:
    """Return the storage that a URL names, to be entered with `async with`.

    `memory://`, `sqlite:///relative.db`, `sqlite:////absolute.db`, `postgresql://…`: the scheme
    finds the adapter among the installed distributions. With `?create=false`, which every adapter
    of a durable store knows, entering it raises StoreMissing where it would create the store.
    Raises InvalidStoreUrl, or AdapterMissing naming the distribution to install.
    """
    try:
        scheme = urlsplit(url).scheme.partition("+")[0]
    except ValueError:
        raise InvalidStoreUrl("its host is not one") from None
    if not scheme:
        detail = "it has no scheme; write sqlite:///agents.db or postgresql://host/database"
        raise InvalidStoreUrl(detail)
    found = entry_points(group=ENTRY_POINTS, name=scheme)
    if not found:
        package = _PACKAGES.get(scheme)
        detail = f"pip install {package}" if package else "no known distribution provides it"
        raise AdapterMissing(detail, scheme)
    factory = cast("Callable[[str], Storage]", next(iter(found)).load())
    return factory(url)
