"""The peers on PostgreSQL: one durable step of a growing conversation, about a kilobyte each.

What a step is and what it guarantees differs: see the document. Each library is used as its own
documentation shows, with as many connections as tasks, and imported only where it is measured.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from yielded_bench.records import WIRE_BYTES
from yielded_bench.subjects import Subject

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from yielded_bench.server import Server
    from yielded_bench.subjects import Work

PACKAGES: Final = ("dbos", "eventsourcing", "langgraph-checkpoint-postgres", "openai-agents")
_TEXT: Final = "x" * (WIRE_BYTES - 64)
"""The content of a step, about as long as a record with what is around it."""


class Peer(Subject):
    """A library that keeps conversations: each task has one, which grows from round to round."""

    distribution: str
    size = 1

    def __init__(self, server: Server, tasks: int) -> None:
        """Measure a number of conversations at the same time."""
        self.name = f"{self.distribution}, PostgreSQL, {tasks} tasks"
        self.tasks = tasks
        self._url = make_url(server.url)
        self._stack = AsyncExitStack()

    async def prepare(self, steps: int) -> Work:
        """Have nothing to prepare: a step is as it would be in an agent."""

        async def work() -> None:
            await asyncio.gather(*(self.converse(task, steps) for task in range(self.tasks)))

        return work

    @abstractmethod
    async def converse(self, task: int, steps: int) -> None:
        """Take the next steps of a conversation, each durable before the one after it."""

    async def renew(self) -> None:
        """Go on."""

    async def close(self) -> None:
        """Give everything back."""
        await self._stack.aclose()

    @property
    def _text_url(self) -> str:
        return self._url.render_as_string(hide_password=False)


class EventSourcing(Peer):
    """An aggregate that is saved after each event; synchronous, so each task is a thread."""

    distribution = "eventsourcing"

    async def open(self, folder: Path) -> None:
        """Make the tables."""
        del folder
        from eventsourcing.application import Application

        from yielded_bench.conversation import Conversation

        self._application: Any = Application(
            {
                "PERSISTENCE_MODULE": "eventsourcing.postgres",
                "POSTGRES_DBNAME": str(self._url.database),
                "POSTGRES_HOST": str(self._url.host),
                "POSTGRES_PORT": str(self._url.port or 5432),
                "POSTGRES_USER": str(self._url.username),
                "POSTGRES_PASSWORD": self._url.password or "none",
                "POSTGRES_POOL_SIZE": str(self.tasks),
            }
        )
        self._stack.callback(self._application.close)
        self._conversations = [Conversation() for _ in range(self.tasks)]
        self._threads = ThreadPoolExecutor(self.tasks)
        self._stack.callback(self._threads.shutdown)

    async def converse(self, task: int, steps: int) -> None:
        """Save the aggregate after each event."""
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, self._converse, task, steps)

    def _converse(self, task: int, steps: int) -> None:
        conversation = self._conversations[task]
        for _ in range(steps):
            conversation.say(_TEXT)
            self._application.save(conversation)


class LangGraph(Peer):
    """A checkpoint of the messages after each of them, which is what a node of a graph leaves."""

    distribution = "langgraph-checkpoint-postgres"

    async def open(self, folder: Path) -> None:
        """Make the tables."""
        del folder
        from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
        from psycopg.rows import dict_row
        from psycopg_pool import AsyncConnectionPool

        settings = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        pool: Any = AsyncConnectionPool(
            self._text_url, min_size=self.tasks, max_size=self.tasks, kwargs=settings, open=False
        )
        await self._stack.enter_async_context(pool)
        self._saver = AsyncPostgresSaver(pool)
        await self._saver.setup()
        self._configs: list[Any] = [
            {"configurable": {"thread_id": f"thread-{task}", "checkpoint_ns": ""}}
            for task in range(self.tasks)
        ]
        self._messages: list[list[str]] = [[] for _ in range(self.tasks)]

    async def converse(self, task: int, steps: int) -> None:
        """Put a checkpoint with one message more each time."""
        from langgraph.checkpoint.base import empty_checkpoint

        messages = self._messages[task]
        for _ in range(steps):
            messages.append(_TEXT)
            step = len(messages)
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"messages": messages}
            checkpoint["channel_versions"] = {"messages": step}
            metadata: Any = {"source": "loop", "step": step}
            self._configs[task] = await self._saver.aput(
                self._configs[task], checkpoint, metadata, {"messages": step}
            )


class Dbos(Peer):
    """A workflow whose steps are recorded, another one each round; a process runs one DBOS."""

    distribution = "dbos"

    async def open(self, folder: Path) -> None:
        """Launch it."""
        del folder
        from dbos import DBOS

        DBOS(
            config={
                "name": "yielded-bench",
                "system_database_url": self._text_url,
                "sys_db_pool_size": self.tasks,
                "log_level": "ERROR",
            }
        )
        # It makes its own threads those of the event loop, and ends them.
        loop = asyncio.get_running_loop()
        self._stack.callback(lambda: loop.set_default_executor(ThreadPoolExecutor()))
        self._stack.callback(DBOS.destroy, destroy_registry=True)

        async def step() -> str:
            return _TEXT

        @DBOS.workflow()
        async def conversation(steps: int) -> int:
            for _ in range(steps):
                await DBOS.run_step_async(None, step)
            return steps

        self._workflow: Any = conversation
        await asyncio.to_thread(DBOS.launch)

    async def converse(self, task: int, steps: int) -> None:
        """Run a workflow of so many steps."""
        del task
        assert await self._workflow(steps) == steps, "every step was taken"


class OpenAiAgents(Peer):
    """A session to which one item is added at a time."""

    distribution = "openai-agents"

    async def open(self, folder: Path) -> None:
        """Make the tables."""
        del folder
        from agents.extensions.memory import SQLAlchemySession

        url = self._url.set(drivername="postgresql+asyncpg")
        engine = create_async_engine(url, pool_size=self.tasks, max_overflow=0)
        self._stack.push_async_callback(engine.dispose)
        self._sessions = [
            SQLAlchemySession(f"thread-{task}", engine=engine, create_tables=True)
            for task in range(self.tasks)
        ]
        await self._sessions[0].get_items()

    async def converse(self, task: int, steps: int) -> None:
        """Add the items."""
        for _ in range(steps):
            await self._sessions[task].add_items([{"role": "user", "content": _TEXT}])


def missing() -> Sequence[str]:
    """Return the peers that are not installed."""
    return [name for name in PACKAGES if not _is_installed(name)]


def _is_installed(distribution: str) -> bool:
    try:
        version(distribution)
    except PackageNotFoundError:
        return False
    return True


def peers(server: Server, tasks: int) -> Sequence[Peer]:
    """Return those that are installed, with so many conversations at the same time."""
    kinds = (EventSourcing, LangGraph, Dbos, OpenAiAgents)
    return [kind(server, tasks) for kind in kinds if _is_installed(kind.distribution)]
