"""Draws the parts of commands, rather such as fit what the model knows than any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar

from hypothesis import strategies as st

from yielded_core.records.identifiers import ThreadId

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from hypothesis.strategies import DrawFn

    from yielded_core.ports.work import AwaitedChild
    from yielded_testing.model.reference.world import Queue, Work, World

Part = TypeVar("Part")
Theme: TypeAlias = Literal[
    "settlement",
    "joining",
    "approvals",
    "children",
    "unknown",
    "reservations",
    "calls",
    "handoff",
    "abort",
]
"""What owners do more often than anything else, so that its states get deep."""

LANES: Final = ("a", "b", "c")
CALLS: Final = ("c1", "c2", "c3")
LEASES: Final = (100, 10, 1_000)


class Chooser:
    """Draws from the state of the model."""

    def __init__(self, draw: DrawFn, world: World, theme: Theme) -> None:
        self._draw = draw
        self.world = world
        self.theme: Theme = theme

    def one(self, parts: Sequence[Part]) -> Part:
        """Draw one of several, each as likely as the others; repeat one to make it likelier."""
        return parts[0] if len(parts) == 1 else self._draw(st.sampled_from(parts))

    def chance(self, one_in: int) -> bool:
        """Draw True once in so many times."""
        return self._draw(st.integers(0, one_in - 1)) == one_in - 1

    def rather(self, fitting: Sequence[Part], others: Sequence[Part]) -> Part:
        """Draw one that fits four times out of five, where there is one."""
        return self.one(others if not fitting or self.chance(5) else fitting)

    # --- what there is ---

    def queues(self) -> list[Queue]:
        """Return the lanes of all threads."""
        return [self.world.queue(ThreadId(lane)) for lane in LANES]

    def lane(self, fits: Callable[[Queue], bool]) -> Queue:
        """Draw a lane, rather one that fits."""
        queues = self.queues()
        return self.rather([queue for queue in queues if fits(queue)], queues)

    def works(self, fits: Callable[[Work], bool]) -> list[Work]:
        """Return the work that fits, of all lanes."""
        return [work for queue in self.queues() for work in queue.work.values() if fits(work)]

    def work(self, *cases: Callable[[Work], bool]) -> tuple[Queue, Work | None, str]:
        """Draw some work of one of several cases, each that there is as likely as the others.

        Once in eight times it is any work, or nobody's. Returns its lane, None for nobody's work,
        and what commands call it.
        """
        found = [works for case in cases if (works := self.works(case))]
        if found and not self.chance(8):
            drawn = self.one(self.one(found))
            return self.queue_of(drawn), drawn, drawn.label
        every = self.works(lambda _: True)
        if every and not self.chance(4):
            drawn = self.one(every)
            return self.queue_of(drawn), drawn, drawn.label
        queue = self.one(self.queues())
        return queue, None, f"{queue.thread}0"

    def queue_of(self, work: Work) -> Queue:
        """Return the lane of some work."""
        return self.world.queue(work.thread)

    def owns(self, work: Work) -> bool:
        """Say whether some work is that of its lane's owner."""
        return self.queue_of(work).owned is work

    def is_published(self, work: Work) -> bool:
        """Say whether the settlement record of some work exists."""
        return self.world.is_published(work.thread, work.name)

    def is_settled(self, child: AwaitedChild) -> bool:
        """Say whether the settlement record of a child exists."""
        return self.world.is_published(child.thread_id, child.submission_id)

    def label_of(self, child: AwaitedChild) -> str:
        """Return what commands call a child."""
        work = self.world.queue(child.thread_id).work.get(child.submission_id)
        return f"{child.thread_id}0" if work is None else work.label

    # --- parts that several commands have ---

    def token(self, *fitting: str | None) -> str:
        """Draw a token, rather one that fits."""
        known = [token for token in fitting if token is not None]
        return self.rather(known, ["nobody's", *dict.fromkeys(self.world.tokens)])

    def held_token(self, queue: Queue) -> str:
        """Draw a token, rather that of the owner of a lane."""
        return self.token(None if queue.held is None else queue.held.token)

    def fresh_token(self, queue: Queue) -> str:
        """Return a token that was not granted anything yet."""
        return f"t{queue.thread}{queue.epoch + 1}"
