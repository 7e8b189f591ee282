"""Which command comes next: what a lane waits for, or any of the others, whatever it waits for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias, cast

from hypothesis import strategies as st

from yielded_testing.model.commands.store import Advance, NewIncarnation, Reopen
from yielded_testing.model.search import fact_choices, lane_choices, settling_choices
from yielded_testing.model.search.chooser import Chooser
from yielded_testing.model.search.progress import next_step

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from hypothesis.strategies import DrawFn, SearchStrategy

    from yielded_testing.model.commands.base import Command
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.search.chooser import Theme
    from yielded_testing.model.store import Adapter

Choice: TypeAlias = "Callable[[Chooser], Command]"


def new_incarnation(choose: Chooser) -> Command:
    """Begin a new timeline, seldom: it ends every ownership."""
    return NewIncarnation() if choose.chance(4) else Advance(1)


def reopen(choose: Chooser) -> Command:
    """Lose the storage and open the store again."""
    del choose
    return Reopen()


_CHOICES: Final[tuple[Choice, ...]] = (
    lane_choices.admit,
    lane_choices.mark_ready,
    lane_choices.materialize,
    lane_choices.claim,
    lane_choices.claim_past,
    lane_choices.renew,
    lane_choices.release,
    lane_choices.mark_input_applied,
    lane_choices.append,
    fact_choices.append_fact,
    lane_choices.claim_joining,
    lane_choices.mark_joined,
    lane_choices.revert_joining,
    settling_choices.suspend,
    settling_choices.decide,
    settling_choices.record_child_settled,
    settling_choices.mark_unknown,
    settling_choices.resolve,
    settling_choices.request_abort,
    settling_choices.publish,
    settling_choices.finalize,
    settling_choices.reservation,
    lane_choices.advance,
    new_incarnation,
    reopen,
)
_OF_THEME: Final[dict[Theme, tuple[Choice, ...]]] = {
    "settlement": (
        settling_choices.publish,
        settling_choices.finalize,
        lane_choices.mark_input_applied,
        lane_choices.append,
        settling_choices.request_abort,
        lane_choices.admit,
        lane_choices.materialize,
    ),
    "joining": (
        lane_choices.mark_joined,
        lane_choices.revert_joining,
        lane_choices.claim_joining,
        settling_choices.publish,
        settling_choices.request_abort,
    ),
    "approvals": (
        settling_choices.decide,
        settling_choices.suspend,
        settling_choices.mark_unknown,
        settling_choices.request_abort,
    ),
    "children": (
        settling_choices.record_child_settled,
        settling_choices.suspend,
        settling_choices.finalize,
    ),
    "unknown": (
        settling_choices.resolve,
        settling_choices.mark_unknown,
        lane_choices.append,
        lane_choices.mark_input_applied,
        lane_choices.claim_joining,
        settling_choices.suspend,
    ),
    "reservations": (settling_choices.reservation,),
    "calls": (
        fact_choices.call_of_owner,
        fact_choices.call_of_owner,
        fact_choices.append_fact,
        settling_choices.suspend,
        lane_choices.append,
    ),
    "handoff": (
        lane_choices.claim_past,
        lane_choices.release,
        lane_choices.renew,
        lane_choices.claim,
        lane_choices.materialize,
    ),
    "abort": (
        settling_choices.request_abort,
        settling_choices.publish,
        lane_choices.claim,
        lane_choices.mark_ready,
    ),
}
CHOICE_NAMES: Final = tuple(choice.__name__ for choice in _CHOICES)
THEMES: Final[tuple[Theme, ...]] = tuple(_OF_THEME)


def available(adapter: Adapter, without: Collection[str]) -> Sequence[Choice]:
    """Return what is tried on an adapter; only what survives it is opened again."""
    return [
        choice
        for choice in _CHOICES
        if choice.__name__ not in without and (choice is not reopen or adapter.survives_reopening)
    ]


def chosen() -> SearchStrategy[Command]:
    """Draw the next command from the state of the machine's model."""

    @st.composite
    def strategy(draw: DrawFn) -> Command:
        machine = draw(st.runner())
        choose = Chooser(draw, cast("World", machine.world), machine.theme)
        if not choose.chance(2):
            return next_step(choose)
        some = machine.choices if choose.chance(3) else _OF_THEME[choose.theme]
        return choose.one(some)(choose)

    return strategy()
