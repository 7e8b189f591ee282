"""The conformance suites over the memory adapter, whose stores live as long as they are open."""

from __future__ import annotations

from yielded_testing.suites import CheckpointSuite, StorageSuite, ThreadStoreSuite


class TestThreads(ThreadStoreSuite): ...


class TestCheckpoints(CheckpointSuite): ...


class TestStorage(StorageSuite): ...
