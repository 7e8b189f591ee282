"""Deliberately wrong variants of the adapter's statements, each caught by a test that names it.

All of them look right to whoever believes that a statement which waits for a lock sees everything
anew. It sees the locked row anew, and nothing else (READ COMMITTED).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final
from unittest.mock import patch

from yielded_storage_postgres import appending, owning, planning

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from types import ModuleType

_SAME_VERSION: Final = "AND t.lane_version = seen.lane_version"
_CLOCK: Final = "FROM locked)"


def _without(text: str, part: str, instead: str = "") -> str:
    """Return a statement that lacks a part, which it must have had."""
    assert part in text
    return text.replace(part, instead)


def claim_that_looks_before_the_lock() -> tuple[ModuleType, str, str]:
    """A claim looks for the head of the lane, then waits for the lock, and believes what it saw."""
    return owning, "CLAIM", _without(owning.CLAIM, _SAME_VERSION)


def claim_that_locks_first_and_then_looks() -> tuple[ModuleType, str, str]:
    """A claim locks the row in front of everything else, and looks in the same statement."""
    text = _without(owning.CLAIM, _SAME_VERSION)
    text = _without(
        text,
        "seen AS MATERIALIZED (\n"
        "  SELECT generation, lane_version FROM yielded_threads WHERE thread_id = $1)",
        "seen AS MATERIALIZED (\n"
        "  SELECT generation, lane_version FROM yielded_threads WHERE thread_id = $1 FOR UPDATE)",
    )
    return owning, "CLAIM", text


def claim_whose_clock_stands_still() -> tuple[ModuleType, str, str]:
    """A claim takes the instant at which its transaction began."""
    return owning, "CLAIM", _without(owning.CLAIM, "clock_timestamp()", "now()")


def claim_that_reads_the_clock_before_the_lock() -> tuple[ModuleType, str, str]:
    """A claim reads the clock beside the lock, and so before it is given."""
    return owning, "CLAIM", _without(owning.CLAIM, _CLOCK, "FROM seen)")


def renewal_of_whoever_asks() -> tuple[ModuleType, str, str]:
    """A renewal looks at the token, and not at whether the lane was taken over since."""
    return owning, "RENEW", _without(owning.RENEW, "AND t.owner_epoch = t.epoch")


def append_that_looks_at_hot_records_only() -> tuple[ModuleType, str, str]:
    """An append relies on the key of the records, which those that an archive took have left."""
    text = planning.GUARD
    start = text.index("AND NOT EXISTS")
    return planning, "APPEND", _without(planning.APPEND, text[start:], "AND $6::text[] IS NOT NULL")


def append_that_believes_its_memory() -> tuple[ModuleType, str, str]:
    """An append compares where the thread ends, and not who may write to it."""
    text = planning.APPEND
    return planning, "APPEND", _without(text, "AND t.epoch = $3", "AND $3::bigint > 0")


def publication_that_lists_what_it_saw() -> tuple[ModuleType, str, str]:
    """A publication says what is claimable next by what it saw before the lock."""
    name = "PUBLISH_AND_FINALIZE"
    text = appending.PUBLISH_AND_FINALIZE
    return appending, name, _without(text, "t.lane_version = seen.lane_version\nAND ")


SABOTEURS: Final[dict[str, Callable[[], tuple[ModuleType, str, str]]]] = {
    make.__name__.replace("_", "-"): make
    for make in (
        claim_that_looks_before_the_lock,
        claim_that_locks_first_and_then_looks,
        claim_whose_clock_stands_still,
        claim_that_reads_the_clock_before_the_lock,
        renewal_of_whoever_asks,
        append_that_looks_at_hot_records_only,
        append_that_believes_its_memory,
        publication_that_lists_what_it_saw,
    )
}


@contextmanager
def applied(name: str) -> Generator[None]:
    """Make the adapter wrong in one way for as long as the context is open."""
    module, attribute, text = SABOTEURS[name]()
    caches = (planning.append_statement, appending.publish_statement)
    with patch.object(module, attribute, text):
        for cache in caches:
            cache.cache_clear()
        try:
            yield
        finally:
            for cache in caches:
                cache.cache_clear()
