"""Conformance suites: base classes whose cases are run over the fixtures of a subclass.

`storage` is an open storage of a fresh store, which follows the frozen `clock` of the pytest
plugin. Some cases also take `open_again`, a function that returns another storage, not yet opened:
of the same store where it outlives a storage, of another one elsewhere; it follows the clock that
the function is given, else those of the machine. BackupSuite takes `backups` besides.
"""

from __future__ import annotations

from yielded_testing.suites.append import AppendCases, MaterializeCases
from yielded_testing.suites.archive_facts import ArchivedFactCases
from yielded_testing.suites.archive_staging import StagedWorkCases
from yielded_testing.suites.archive_work import RestoredWorkCases
from yielded_testing.suites.backups import BackupSuite
from yielded_testing.suites.cancellation import CancellationCases
from yielded_testing.suites.checkpoints import CheckpointSuite
from yielded_testing.suites.durable import DurableSuite
from yielded_testing.suites.evidence import ContinuationCases, EvidenceCases, HandoffCases
from yielded_testing.suites.idempotency import RefusalCases, ReplayCases
from yielded_testing.suites.importing import ArchiveVerifyCases, ImportCases
from yielded_testing.suites.imports import ImportReaderCases, StagingCases
from yielded_testing.suites.indexes import IndexCases
from yielded_testing.suites.ledger_abort import AbortCases, ReadIntentCases
from yielded_testing.suites.ledger_admission import AdmissionCases, GroupCases
from yielded_testing.suites.ledger_children import ChildWakeCases, ReservationCases
from yielded_testing.suites.ledger_claim import EpochCases, HeadCases, LeaseCases
from yielded_testing.suites.ledger_clocks import RealClockCases
from yielded_testing.suites.ledger_durable import DurableLedgerSuite
from yielded_testing.suites.ledger_handoff import ClaimHandoffCases
from yielded_testing.suites.ledger_joining import JoinedCases, TakingCases
from yielded_testing.suites.ledger_lifecycle import LaneLifecycleCases, LedgerCancellationCases
from yielded_testing.suites.ledger_limits import HostileInputCases
from yielded_testing.suites.ledger_ownership import MarkerCases, ReleaseCases, RenewCases
from yielded_testing.suites.ledger_races import ClaimRaces, StormCases
from yielded_testing.suites.ledger_readiness import ReadinessCases
from yielded_testing.suites.ledger_recovery import RecoveryCases
from yielded_testing.suites.ledger_recovery_children import (
    AbortRecoveryCases,
    DelegationRecoveryCases,
)
from yielded_testing.suites.ledger_recovery_sweep import FaultCases, SweepCases
from yielded_testing.suites.ledger_reverting import RevertCases
from yielded_testing.suites.ledger_runnable import RunnableCases
from yielded_testing.suites.ledger_scans import ScanCases, SnapshotCases
from yielded_testing.suites.ledger_unknown import ParkingCases, ResolutionCases
from yielded_testing.suites.ledger_versions import VersionCases
from yielded_testing.suites.ledger_waiting import ApprovalCases, SuspendCases, WakingRaces
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
from yielded_testing.suites.settlement import FinalizeCases, OwnedCases, PublishingRaces
from yielded_testing.suites.settlement_authority import (
    JoinedSettlementCases,
    QueuedAbortCases,
    SettlementRecordCases,
)
from yielded_testing.suites.storage import StorageSuite
from yielded_testing.suites.transfer import ExportCases, FileCases, VerifyCases
from yielded_testing.suites.values import IdentityValueCases, ValueCases

__all__ = [
    "BackupSuite",
    "CheckpointSuite",
    "DurableLedgerSuite",
    "DurableSuite",
    "SettlementSuite",
    "StorageSuite",
    "SubmissionLedgerSuite",
    "ThreadStoreSuite",
]


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
    ArchivedFactCases,
    StagedWorkCases,
    RestoredWorkCases,
):
    """Every rule of the thread store and its archives that shows at the ports."""


class SubmissionLedgerSuite(
    AdmissionCases,
    GroupCases,
    ReadinessCases,
    HeadCases,
    LeaseCases,
    EpochCases,
    ClaimHandoffCases,
    RenewCases,
    ReleaseCases,
    MarkerCases,
    AbortCases,
    ReadIntentCases,
    TakingCases,
    JoinedCases,
    RevertCases,
    SuspendCases,
    ApprovalCases,
    WakingRaces,
    ParkingCases,
    ResolutionCases,
    ReservationCases,
    ChildWakeCases,
    ScanCases,
    SnapshotCases,
    RunnableCases,
    ClaimRaces,
    StormCases,
    RealClockCases,
    VersionCases,
    LaneLifecycleCases,
    LedgerCancellationCases,
    HostileInputCases,
    RecoveryCases,
    DelegationRecoveryCases,
    AbortRecoveryCases,
    FaultCases,
    SweepCases,
):
    """Every rule of the ledger and of recovery that shows at the ports (LED, RCV)."""


class SettlementSuite(
    OwnedCases,
    FinalizeCases,
    PublishingRaces,
    JoinedSettlementCases,
    QueuedAbortCases,
    SettlementRecordCases,
):
    """Every rule of the settlement publisher that shows at the ports (LED-8)."""
