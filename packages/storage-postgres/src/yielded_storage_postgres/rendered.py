"""Parts of statements that are made of the shared rules, so that no rule is written twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from yielded_core.ledger.transitions import ALL, Facts, step

if TYPE_CHECKING:
    from yielded_core.ports.work import State

NOW: Final = "floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint"
"""The server's instant, in milliseconds. Not `now()`, which is that of the transaction's beginning:
behind a lock it would revive a lease.
"""


def _claimed(state: State, *, aborted: bool) -> State | None:
    """Return the state that a claim leads to, None where it does not take that state."""
    then = step("claim", state, Facts(aborted=aborted)).then
    return state if then == "same" else next((each for each in ALL if each == then), None)


def _listed(*, aborted: bool) -> str:
    states = [state for state in ALL if _claimed(state, aborted=aborted) is not None]
    return ", ".join(f"'{state}'" for state in states)


def _moved(*, aborted: bool) -> str:
    changes = {state: _claimed(state, aborted=aborted) for state in ALL}
    cases = [f"WHEN '{at}' THEN '{to}'" for at, to in changes.items() if to not in {None, at}]
    return f"CASE s.state {' '.join(cases)} ELSE s.state END"


IS_CLAIMABLE: Final = (
    f"CASE WHEN s.abort_at IS NULL THEN s.state IN ({_listed(aborted=False)})"
    f" ELSE s.state IN ({_listed(aborted=True)}) END"
)
"""Whether a submission `s` that has its turn may be claimed."""
CLAIMED_STATE: Final = (
    f"CASE WHEN s.abort_at IS NULL THEN {_moved(aborted=False)} ELSE {_moved(aborted=True)} END"
)
"""The state of a submission `s` after it was claimed."""
