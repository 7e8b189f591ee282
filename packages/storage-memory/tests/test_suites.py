"""The conformance suites over the memory adapter."""

from __future__ import annotations

from yielded_testing.suites import ThreadStoreSuite


class TestThreads(ThreadStoreSuite): ...
