"""Gives commands to a store and to the model, and compares what can be seen of both after each."""

from __future__ import annotations

from collections import Counter
from contextlib import aclosing
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, cast

from yielded_core.errors import YieldedError
from yielded_core.recovering import sweep
from yielded_testing.model.reference.answers import questions
from yielded_testing.model.reference.queueing import content_of
from yielded_testing.model.reference.world import Disagreement, World
from yielded_testing.model.store import Store

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from yielded_core.records.identifiers import Digest
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Queue
    from yielded_testing.model.store import Adapter

Effect: TypeAlias = Literal["changed", "repeated", "refused"]
"""What a command did: changed something, had nothing left to do, or was refused."""

EFFECTS: Final[tuple[Effect, ...]] = ("changed", "repeated", "refused")


class Tally(Counter[tuple[str, Effect]]):
    """How often each command had which effect."""

    def lines(self) -> list[str]:
        """Return a table: one line a command."""
        head = f"{'command':32}" + "".join(f"{effect:>10}" for effect in EFFECTS)
        return [head, *(self._line(title) for title in self.titles())]

    def titles(self) -> list[str]:
        """Return the commands that were counted."""
        return sorted({title for title, _ in self})

    def _line(self, title: str) -> str:
        return f"{title:32}" + "".join(f"{self[title, effect]:>10}" for effect in EFFECTS)


class Comparison:
    """One store beside the model."""

    def __init__(self, adapter: Adapter, folder: Path, tally: Tally | None = None) -> None:
        self.store = Store(adapter, folder)
        self.world = World(self.store.clock.now)
        self._tally = Tally() if tally is None else tally
        self._steps = 0

    async def run(self, command: Command) -> object:
        """Give a command to both, compare, and return the answer. Raises Disagreement."""
        world = self.world
        try:
            answer = await command.ask(self.store, world)
        except YieldedError as error:
            answer = error
        before = {thread: queue.ledger_state() for thread, queue in world.queues.items()}
        whole = world.state()
        command.learn(world, answer)
        try:
            expected = command.predict(world)
        except YieldedError as error:
            expected = error
        world.settle_queues()
        _compare(f"the answer to {command!r}", answer, expected)
        for thread, queue in world.queues.items():
            changed = thread in before and before[thread] != queue.ledger_state()
            await self._compare_lane(command, queue, answer, changed=changed)
        await self._learn_digests()
        self._steps += 1
        for question in questions(self.store.storage, world, self._steps):
            found = await question.answer
            if found != question.expected:
                _compare(f"{question.about} after {command!r}", found, question.expected)
        effect: Effect = "changed" if world.state() != whole else "repeated"
        self._tally[command.title, "refused" if command.is_refusal(answer) else effect] += 1
        return answer

    async def recover(self) -> None:
        """Sweep the store: each unsettled submission has a decision, and nothing changes by it."""
        owed = [
            work.view()
            for queue in sorted(self.world.queues.values(), key=lambda each: each.thread)
            for work in queue.work.values()
            if work.open
        ]
        async with aclosing(sweep(self.store.storage, limit=8)) as decisions:
            found = [submission async for submission, _ in decisions]
        _compare("what a sweep went through", found, owed)

    async def _compare_lane(
        self, command: Command, queue: Queue, answer: object, *, changed: bool
    ) -> None:
        """Compare what is seen of a lane, whose version only has to rise with every change."""
        lane = await self.store.storage.ledger.lane(queue.thread)
        before = queue.version
        if lane is not None:
            queue.version = lane.version
        expected = queue.view(self.world.now) if queue.exists else None
        if lane != expected:
            _compare(f"lane {queue.thread} after {command!r}", lane, expected)
        risen = queue.version - before
        refused = isinstance(answer, YieldedError)
        if risen < 0 or (changed and command.ledger and not risen) or (risen and refused):
            about = f"the version of lane {queue.thread} after {command!r}"
            raise Disagreement(f"{about}: it went from {before} to {queue.version}")

    async def _learn_digests(self) -> None:
        """Learn the digest of new work, equal for equal content and for no other."""
        for queue in self.world.queues.values():
            for work in queue.work.values():
                if not work.digest:
                    found = await self.store.storage.ledger.lookup(work.name)
                    if found is None:
                        raise Disagreement(f"{work.name} was admitted and is not found")
                    work.digest = found.submission.admission_digest
                    self._learn(content_of(work), work.digest)

    def _learn(self, content: bytes, digest: Digest) -> None:
        known = self.world.digests
        if known.setdefault(content, digest) != digest or list(known.values()).count(digest) > 1:
            raise Disagreement(f"{digest} is not the digest of {content.decode()} alone")


def _compare(about: str, found: object, expected: object) -> None:
    if not _same(found, expected):
        lines = "\n".join(f"  {line}" for line in _differences(found, expected))
        raise Disagreement(f"{about}\n{lines}")


def _same(found: object, expected: object) -> bool:
    if isinstance(expected, YieldedError):
        return type(found) is type(expected) and _error_fields(found) == _error_fields(expected)
    return found == expected


def _error_fields(error: object) -> dict[str, object]:
    return error.fields() if isinstance(error, YieldedError) else {}


def _differences(found: object, expected: object, at: str = "") -> Iterator[str]:
    """Go down to what differs."""
    parts = _parts(found, expected)
    if parts is None:
        yield f"{at or 'store'}: {found!r}"
        yield f"{'model':>{len(at or 'store')}}: {expected!r}"
        return
    for name, one, other in parts:
        if not _same(one, other):
            yield from _differences(one, other, at=f"{at}{name}")


def _parts(found: object, expected: object) -> list[tuple[str, object, object]] | None:
    """Return what two values consist of, where they consist of the same parts."""
    one, other = _fields(found), _fields(expected)
    if one is not None and other is not None and one.keys() == other.keys():
        return [(f".{name}", one[name], other[name]) for name in one]
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        some = cast("Sequence[object]", found)
        others = cast("Sequence[object]", expected)
        if len(some) == len(others):
            pairs = zip(some, others, strict=True)
            return [(f"[{index}]", *pair) for index, pair in enumerate(pairs)]
    return None


def _fields(value: object) -> dict[str, object] | None:
    if not is_dataclass(value) or isinstance(value, type):
        return None
    return {each.name: getattr(value, each.name) for each in fields(value)}
