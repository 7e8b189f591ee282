"""Repeated and missing identities, among more than memory holds."""

from __future__ import annotations

import tempfile
from typing import IO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from yielded_core.log.identities import LAST_PLACE, IdentityFaults, IdentitySet

NONE = IdentityFaults(None, None)


def naive(added: list[tuple[str, int]], named: list[tuple[str, int]]) -> IdentityFaults:
    places: dict[str, list[int]] = {}
    for name, where in added:
        places.setdefault(name, []).append(where)
    repeated = [place for found in places.values() for place in sorted(found)[1:]]
    missing = [where for name, where in named if where not in places.get(name, [])]
    return IdentityFaults(min(repeated, default=None), min(missing, default=None))


entries = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 12)), max_size=40)


@pytest.mark.rule("ARC-3")
@given(entries, entries, st.integers(1, 5))
def test_it_finds_what_a_dictionary_finds(
    added: list[tuple[str, int]], named: list[tuple[str, int]], in_memory: int
) -> None:
    with IdentitySet(in_memory) as identities:
        for index in range(max(len(added), len(named))):
            for entry in named[index : index + 1]:
                identities.name(*entry)
            for entry in added[index : index + 1]:
                identities.add(*entry)
        assert identities.faults() == naive(added, named)
        assert identities.faults() == naive(added, named)


@pytest.mark.rule("ARC-3")
def test_a_repetition_is_found_across_many_files_of_which_few_are_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[IO[bytes]] = []
    make = tempfile.TemporaryFile

    def counted() -> IO[bytes]:
        opened.append(make())
        return opened[-1]

    monkeypatch.setattr(tempfile, "TemporaryFile", counted)
    with IdentitySet(in_memory=4) as identities:
        for number in range(1, 20_001):
            identities.add(f"record-{number}", number)
        assert len(opened) > 5_000
        assert sum(not each.closed for each in opened) < 64
        assert identities.faults() == NONE
        identities.add("record-7", 20_001)
        identities.name("record-9", 9)
        assert identities.faults() == IdentityFaults(20_001, None)
        identities.name("record-9", 10)
        assert identities.faults() == IdentityFaults(20_001, 10)
    assert all(each.closed for each in opened)


def test_any_text_and_every_place_is_taken() -> None:
    with IdentitySet() as identities:
        for name in ("", "\x00", "\U0001f600", "\ud800"):
            identities.add(name, LAST_PLACE)
        assert identities.faults() == NONE
        identities.add("\ud800", 0)
        assert identities.faults() == IdentityFaults(LAST_PLACE, None)
