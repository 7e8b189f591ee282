"""A storm of processes over one store, for the tests of adapters whose stores processes share.

Processes race for lanes, are killed, or outlive the kill of their server (`Storm`). They say what
they begin, what they are granted and what they are refused; `check_ledger` compares that with the
store, which it reads through the engine's own tools. It shares no rule with the adapters.
"""

from __future__ import annotations

from yielded_testing.storm.checker import Complaint, Counts, Findings, check_ledger
from yielded_testing.storm.driving import Storm
from yielded_testing.storm.log_checker import Query, StoredBatch, check_log
from yielded_testing.storm.processes import PATIENCE, Processes, Worker, Workers
from yielded_testing.storm.story import Life

__all__ = [
    "PATIENCE",
    "Complaint",
    "Counts",
    "Findings",
    "Life",
    "Processes",
    "Query",
    "StoredBatch",
    "Storm",
    "Worker",
    "Workers",
    "check_ledger",
    "check_log",
]
