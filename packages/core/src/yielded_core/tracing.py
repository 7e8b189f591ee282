"""Spans around port operations (extra `tracing`): wrap a storage, and only then does it cost."""

from __future__ import annotations

import functools
import inspect
from typing import TYPE_CHECKING, Any, Final, Self, cast

from opentelemetry import trace

from yielded_core.errors import YieldedError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from types import TracebackType

    from opentelemetry.trace import Span, Tracer

    from yielded_core.ports.ledger import SettlementPublisher, SubmissionLedger
    from yielded_core.ports.threads import ArchiveStore, CheckpointStore, ThreadStore
    from yielded_core.ports.values import StorageInfo
    from yielded_core.records.identifiers import ThreadId
    from yielded_core.storage import Storage

INSTRUMENTATION: Final = "yielded"
"""Name under which the tracer is asked for."""
_THREAD: Final = "thread"
"""The parameter by which every operation on a thread names it, first of all."""


class TracedStorage:
    """A storage whose every awaited operation is one span, named `yielded.<port>.<operation>`.

    A span carries the thread id where the operation names one and, when it fails, the error's
    code: never a payload, a URL or a message. `observe` has no end and so no span.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._tracer = trace.get_tracer(INSTRUMENTATION)

    @property
    def threads(self) -> ThreadStore:
        """The thread log, traced."""
        return cast("ThreadStore", self._traced(self._storage.threads, "threads"))

    @property
    def archives(self) -> ArchiveStore:
        """Archive ranges and imports, traced."""
        return cast("ArchiveStore", self._traced(self._storage.archives, "archives"))

    @property
    def checkpoints(self) -> CheckpointStore | None:
        """Application projections, traced, where offered."""
        port = self._storage.checkpoints
        return None if port is None else cast("CheckpointStore", self._traced(port, "checkpoints"))

    @property
    def ledger(self) -> SubmissionLedger:
        """Accepted work, traced."""
        return cast("SubmissionLedger", self._traced(self._storage.ledger, "ledger"))

    @property
    def settlements(self) -> SettlementPublisher:
        """The settlement publisher, traced."""
        return cast("SettlementPublisher", self._traced(self._storage.settlements, "settlements"))

    def _traced(self, port: object, name: str) -> object:
        return _TracedPort(port, name, self._tracer)

    async def info(self) -> StorageInfo:
        """Say what this storage is (STO-1)."""
        return await self._storage.info()

    async def new_incarnation(self) -> str:
        """Start a new timeline after a restore (STO-4)."""
        return await self._storage.new_incarnation()

    async def __aenter__(self) -> Self:
        """Open the storage."""
        await self._storage.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the storage."""
        await self._storage.__aexit__(kind, error, trace)


class _TracedPort:
    """Passes everything on to a port, coroutines inside a span."""

    def __init__(self, port: object, name: str, tracer: Tracer) -> None:
        self._port = port
        self._name = name
        self._tracer = tracer

    def __getattr__(self, name: str) -> object:
        member = getattr(self._port, name)
        if name == "import_reader":
            return self._import_reader
        if inspect.iscoroutinefunction(member):
            return self._spanned(f"yielded.{self._name}.{name}", member)
        return member

    def _import_reader(self, thread: ThreadId) -> object:
        archives = cast("ArchiveStore", self._port)
        return _TracedPort(archives.import_reader(thread), "imports", self._tracer)

    def _spanned(
        self, name: str, operation: Callable[..., Coroutine[Any, Any, object]]
    ) -> Callable[..., Coroutine[Any, Any, object]]:
        names_thread = next(iter(inspect.signature(operation).parameters), "") == _THREAD

        @functools.wraps(operation)
        async def spanned(*arguments: object, **options: object) -> object:
            with self._tracer.start_as_current_span(
                name, record_exception=False, set_status_on_exception=False
            ) as span:
                thread = arguments[0] if arguments else options.get(_THREAD)
                if names_thread and isinstance(thread, str):
                    span.set_attribute("yielded.thread", thread)
                try:
                    return await operation(*arguments, **options)
                except YieldedError as error:
                    _mark_failed(span, error)
                    raise

        return spanned


def _mark_failed(span: Span, error: YieldedError) -> None:
    span.set_attribute("yielded.error", error.code)
    span.set_status(trace.StatusCode.ERROR)
