"""How calls and work are brought to their end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from yielded_testing.model.commands.lanes import RequestAbort
from yielded_testing.model.commands.settling import Publish
from yielded_testing.model.commands.store import Append, Materialize

if TYPE_CHECKING:
    from yielded_core.ports.work import Authority, Outcome
    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import Queue, Work
    from yielded_testing.model.search.chooser import Chooser


def settlement(
    choose: Chooser, work: Work, token: str, authority: Authority, outcome: Outcome
) -> Command:
    """Publish a settlement, and finalize it more often than not."""
    finalize = not choose.chance(3)
    return Publish(work.label, token, authority, outcome, finalize=finalize)


def result(queue: Queue, work: Work, call: str, value: int = 0) -> Command:
    """Write down the result of a call."""
    after = queue.tail.sequence
    return Append(queue.thread, queue.epoch, after, "result", work.place, call, value)


def end_child(choose: Chooser, parent: Work, child: Work | None) -> Command:
    """Bring a child nearer to its settlement: what never ran is aborted."""
    if child is None or child.state not in {"admitted", "ready"}:
        return RequestAbort(parent.label)
    if not choose.queue_of(child).epoch:
        return Materialize(child.thread, 1)
    if child.abort is None:
        return RequestAbort(child.label)
    return settlement(choose, child, "canceller", "queued-abort", "aborted")
