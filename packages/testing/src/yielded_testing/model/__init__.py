"""An executable model of accepted work, and a search for sequences in which an adapter departs.

`check_ledger` gives random commands to a store and to the model, and compares what can be seen of
both after each. `replay` does so with the commands of a printed program, whose names are those of
`yielded_testing.model.commands`.
"""

from __future__ import annotations

from yielded_testing.model.comparing import Tally
from yielded_testing.model.reference.world import Disagreement
from yielded_testing.model.replaying import replay
from yielded_testing.model.search.machine import check_ledger
from yielded_testing.model.store import Adapter

__all__ = ["Adapter", "Disagreement", "Tally", "check_ledger", "replay"]
