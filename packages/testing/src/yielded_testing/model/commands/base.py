"""A command that is given to a store and to the model: a plain value that can be written down.

Work is named by its lane and its place, `a2`; `a0` is nobody's. A command turns the names into the
ids that the store gave, asks the store, and asks the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any, ClassVar, cast

from yielded_core.errors import YieldedError

if TYPE_CHECKING:
    from yielded_testing.model.reference.world import World
    from yielded_testing.model.store import Store


class Command(ABC):
    """One call of a port."""

    ledger: ClassVar[bool] = True
    """Whether it goes to the ledger, whose every change is a new version of the lane."""

    @property
    def title(self) -> str:
        """What it is counted as."""
        return type(self).__name__

    @abstractmethod
    async def ask(self, store: Store, world: World) -> object:
        """Call the port; what it raises is its answer too."""

    def learn(self, world: World, answer: object) -> None:
        """Take what an adapter chooses by itself from its answer, before that is predicted."""
        del world, answer

    @abstractmethod
    def predict(self, world: World) -> object:
        """Return what the port must answer, or raise it, and change the model."""

    def is_refusal(self, answer: object) -> bool:
        """Say whether an answer refuses."""
        return isinstance(answer, YieldedError)

    def __repr__(self) -> str:
        given = (
            (each.name, cast("object", getattr(self, each.name)), each.default)
            for each in fields(cast("Any", self))
        )
        shown = (
            f"{name}={value!r}"
            for name, value, default in given
            if default is MISSING or value != default
        )
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ANN401, FBT001
        """Print the same where hypothesis prints a failing program."""
        del cycle
        printer.text(repr(self))
