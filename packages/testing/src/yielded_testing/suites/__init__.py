"""Conformance suites: base classes whose cases are run over the `storage` fixture of a subclass."""

from __future__ import annotations

from yielded_testing.suites.append import AppendCases, MaterializeCases
from yielded_testing.suites.evidence import ContinuationCases, EvidenceCases, HandoffCases
from yielded_testing.suites.idempotency import RefusalCases, ReplayCases
from yielded_testing.suites.indexes import IndexCases
from yielded_testing.suites.limits import RunLimitCases
from yielded_testing.suites.observe import ObserveCases
from yielded_testing.suites.progress import ContinuationRules, PlacementCases
from yielded_testing.suites.prompt import PromptCases
from yielded_testing.suites.reads import (
    BatchPageCases,
    ExactCases,
    IdentifierCases,
    IdentityCases,
    PageCases,
)


class ThreadStoreSuite(
    MaterializeCases,
    AppendCases,
    RefusalCases,
    ReplayCases,
    PageCases,
    BatchPageCases,
    IdentityCases,
    ExactCases,
    IdentifierCases,
    ObserveCases,
    PromptCases,
    ContinuationRules,
    PlacementCases,
    RunLimitCases,
    ContinuationCases,
    EvidenceCases,
    HandoffCases,
    IndexCases,
):
    """Every rule of the thread store that shows at its port."""
