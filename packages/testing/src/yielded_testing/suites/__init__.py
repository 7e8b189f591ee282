"""Conformance suites: base classes whose cases are run over the fixtures of a subclass.

`storage` is an open storage of a fresh store. StorageSuite and DurableSuite also take `open_again`,
a function that returns another storage, not yet opened: of the same store where it outlives a
storage, of another one elsewhere.
"""

from __future__ import annotations

from yielded_testing.suites.append import AppendCases, MaterializeCases
from yielded_testing.suites.cancellation import CancellationCases
from yielded_testing.suites.checkpoints import CheckpointSuite
from yielded_testing.suites.durable import DurableSuite
from yielded_testing.suites.evidence import ContinuationCases, EvidenceCases, HandoffCases
from yielded_testing.suites.idempotency import RefusalCases, ReplayCases
from yielded_testing.suites.importing import ArchiveVerifyCases, ImportCases
from yielded_testing.suites.imports import ImportReaderCases, StagingCases
from yielded_testing.suites.indexes import IndexCases
from yielded_testing.suites.limits import RunLimitCases
from yielded_testing.suites.listing import DeletionCases, ListingCases
from yielded_testing.suites.observe import ObserveCases
from yielded_testing.suites.progress import ContinuationRules, PlacementCases
from yielded_testing.suites.prompt import PromptCases
from yielded_testing.suites.ranges import RangeCases
from yielded_testing.suites.reads import (
    BatchPageCases,
    ExactCases,
    IdentifierCases,
    IdentityCases,
    PageCases,
)
from yielded_testing.suites.storage import StorageSuite
from yielded_testing.suites.transfer import ExportCases, FileCases, VerifyCases
from yielded_testing.suites.values import IdentityValueCases, ValueCases

__all__ = ["CheckpointSuite", "DurableSuite", "StorageSuite", "ThreadStoreSuite"]


class ThreadStoreSuite(
    MaterializeCases,
    AppendCases,
    RefusalCases,
    ReplayCases,
    CancellationCases,
    PageCases,
    BatchPageCases,
    IdentityCases,
    ExactCases,
    IdentifierCases,
    ValueCases,
    IdentityValueCases,
    ObserveCases,
    PromptCases,
    ContinuationRules,
    PlacementCases,
    RunLimitCases,
    ContinuationCases,
    EvidenceCases,
    HandoffCases,
    IndexCases,
    ListingCases,
    DeletionCases,
    RangeCases,
    ExportCases,
    VerifyCases,
    FileCases,
    StagingCases,
    ImportReaderCases,
    ImportCases,
    ArchiveVerifyCases,
):
    """Every rule of the thread store and its archives that shows at the ports."""
