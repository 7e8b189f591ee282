"""The conformance suites over the memory adapter, whose stores live as long as they are open."""

from __future__ import annotations

from yielded_testing.suites import (
    CheckpointSuite,
    SettlementSuite,
    StorageSuite,
    SubmissionLedgerSuite,
    ThreadStoreSuite,
)


class TestThreads(ThreadStoreSuite): ...


class TestLedger(SubmissionLedgerSuite): ...


class TestSettlements(SettlementSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...
