"""Keys of identifiers that no index takes whole (REC-1)."""

from __future__ import annotations

from typing import Final

import pytest

from yielded_storage_postgres.names import LONGEST_BYTES, is_key, key_of
from yielded_testing.suites.values import NOISE

LENGTHS: Final = (1, 60, 61, 240, 241, 4_000)


@pytest.mark.rule("REC-1")
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("letter", ["x", "é", "界", "\U0001f9f5"])
def test_keys_are_short_and_tell_names_apart(letter: str, length: int) -> None:
    names = [NOISE[start : start + length - 1] + letter for start in range(64)]
    names += [name.replace(letter, "?") for name in names] + [letter * length]
    keys = {key_of(name) for name in names}
    assert len(keys) == len(set(names))
    assert all(len(key.encode()) <= LONGEST_BYTES for key in keys)


@pytest.mark.rule("REC-1")
def test_a_short_name_is_its_own_key() -> None:
    assert [key_of(name) for name in ("a", NOISE[:240])] == ["a", NOISE[:240]]


@pytest.mark.rule("REC-1")
def test_a_name_that_looks_like_a_key_has_another_one() -> None:
    key = key_of(NOISE)
    assert is_key(key)
    assert is_key(key_of(key))
    assert key_of(key) != key


@pytest.mark.rule("REC-1", "LOG-19")
def test_a_long_name_comes_after_the_short_ones_that_begin_as_it_does() -> None:
    assert NOISE[:100] < NOISE[:240] < key_of(NOISE) < key_of(f"z{NOISE}")
