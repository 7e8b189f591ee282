"""States that lie in a file once there are many of them."""

from __future__ import annotations

import sqlite3

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.errors import StorageFull
from yielded_core.log.progress import FactReference, RunProgress
from yielded_core.records.identifiers import ToolCallId
from yielded_core.transfer.spill import SpilledStates, spilled_states

names = st.sampled_from(["a", "b", "c", "d", "e", "\x00", "", "\U0001f600"])
commands = st.lists(
    st.tuples(st.sampled_from(["put", "get", "remove", "first"]), names, st.binary(max_size=3))
)


@pytest.mark.rule("ARC-3")
@given(commands, st.integers(1, 4))
def test_they_are_what_a_dictionary_holds(
    given_commands: list[tuple[str, str, bytes]], in_memory: int
) -> None:
    model: dict[str, bytes] = {}
    with SpilledStates(bytes, bytes, in_memory=in_memory) as states:
        for command, name, value in given_commands:
            if command == "put":
                states.put(name, value)
                model[name] = value
            elif command == "remove":
                states.remove(name)
                model.pop(name, None)
            elif command == "first":
                assert states.first() == min(model, default=None)
            assert states.get(name) == model.get(name)
        assert {name: states.get(name) for name in model} == model


class Connections:
    """Every database that is opened, each of at most some pages."""

    def __init__(self, pages: int) -> None:
        self.pages = pages
        self.opened: list[sqlite3.Connection] = []
        self._connect = sqlite3.connect

    def connect(self, name: str, *, check_same_thread: bool) -> sqlite3.Connection:
        file = self._connect(name, check_same_thread=check_same_thread)
        file.execute(f"PRAGMA max_page_count = {self.pages}")
        self.opened.append(file)
        return file


@pytest.mark.rule("ARC-3", "LOG-16")
def test_the_states_of_a_replay_come_back_from_their_files(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = Connections(pages=100)
    monkeypatch.setattr(sqlite3, "connect", connections.connect)
    progress = RunProgress(
        record_count=3,
        submission="submission-1",
        original_input=FactReference("record-1", "ab" * 32),
        accounting={"model_calls": 2},
    )
    calls = (ToolCallId("call-1"), ToolCallId("call-2"))
    with spilled_states(in_memory=1) as states:
        for name in ("first", "second", "third"):
            states.runs.put(name, progress)
            states.handoffs.put(name, 7)
            states.children.put(name, calls)
        assert states.runs.get("first") == progress
        assert states.handoffs.get("first") == 7
        assert states.children.get("first") == calls
    assert len(connections.opened) == 3
    for file in connections.opened:
        with pytest.raises(sqlite3.ProgrammingError):
            file.execute("SELECT 1")


@pytest.mark.rule("ARC-3")
def test_no_room_for_the_file_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", Connections(pages=3).connect)
    with SpilledStates(bytes, bytes, in_memory=1) as states:
        states.put("a", b"x" * 100_000)
        with pytest.raises(StorageFull):
            states.put("b", b"")
