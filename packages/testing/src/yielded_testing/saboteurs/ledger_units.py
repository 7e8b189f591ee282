"""How the operations of the ledger are made wrong: other evidence, other facts, another state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from yielded_core.ledger import transitions
from yielded_testing.saboteurs.model import WrongRule

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from yielded_core.errors import YieldedError
    from yielded_core.ledger.lane import LaneState
    from yielded_core.ledger.transitions import Facts, Operation
    from yielded_core.ledger.unit import LedgerUnit
    from yielded_core.ports.work import Outcome, Submission

Rule: TypeAlias = "Callable[..., Any]"


class WrongUnit:
    """A transaction that passes everything on but what it overrides."""

    def __init__(self, inner: LedgerUnit) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)


def in_unit(
    module: ModuleType, name: str, unit: type[WrongUnit], within: tuple[str, ...] = ()
) -> WrongRule:
    """Return an operation that sees, or writes, something else than is right."""

    def wrong(right: Rule) -> Rule:
        def operation(inner: LedgerUnit, *arguments: object, **named: object) -> object:
            return right(unit(inner), *arguments, **named)

        return operation

    wrong.__doc__ = unit.__doc__
    return WrongRule(module, name, wrong, within)


def told(operation: Operation, within: str, sentence: str, **facts: bool | None) -> WrongRule:
    """Return the table of transitions with facts of one operation that are not so."""

    def wrong(right: Rule) -> Rule:
        def advance(
            asked: Operation,
            lane: LaneState,
            found: Submission,
            given: Facts,
            outcome: Outcome | None = None,
        ) -> object:
            if asked == operation:
                given = given._replace(**facts)
            return right(asked, lane, found, given, outcome)

        return advance

    wrong.__doc__ = sentence
    return WrongRule(transitions, "advance", wrong, (within,))


def allowed(
    operation: Operation, within: str, sentence: str, refused: type[YieldedError], then: str
) -> WrongRule:
    """Return the table of transitions without one refusal of one operation."""

    def wrong(right: Rule) -> Rule:
        def advance(asked: Operation, *arguments: object) -> object:
            try:
                return right(asked, *arguments)
            except refused:
                if asked != operation:
                    raise
                return next(
                    row
                    for row in transitions.TRANSITIONS
                    if row.operation == operation and row.then == then
                )

        return advance

    wrong.__doc__ = sentence
    return WrongRule(transitions, "advance", wrong, (within,))
