"""What an existing database is: fresh, a current store, or refused with a reason (LAY-1 to 3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from yielded_core.errors import StoreRefused
from yielded_core.layout.compare import differences, extra_indexes, shown
from yielded_core.layout.facts import Facts, Found, Header
from yielded_core.layout.statements import DEFAULT_OPTIONS, HEADER_TABLE
from yielded_core.records.bounds import LAYOUT_VERSION, RECORD_FORMAT

SHOWN_DIFFERENCES: Final = 5
"""How many differences the message itself repeats; all of them are in the error's fields."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """There is no object of ours: the layout may be created (LAY-1)."""


@dataclass(frozen=True, slots=True)
class Current:
    """A store of this layout: open it without any DDL (LAY-2)."""

    header: Header
    extra_indexes: tuple[str, ...]
    """The indexes that an operator added, as `name on table`."""


def classify(
    expected: Facts, found: Found, *, shared: bool, options: str = DEFAULT_OPTIONS
) -> Fresh | Current:
    """Judge what an inspection found against the layout that this version creates.

    `options` are what the header of a store with the expected facts says of its variant.

    `shared` says that living beside other people's objects is meant; without it a database that
    holds theirs and none of ours is refused. Raises StoreRefused with `predecessor`, `newer`,
    `ambiguous` or `foreign` (LAY-3).
    """
    if found.facts.empty:
        return _without_ours(found, shared=shared)
    version = _version(found)
    if version is not None and version != LAYOUT_VERSION:
        raise _other_version(version)
    header, header_problems = _header(found, options)
    problems = (*header_problems, *differences(expected, found.facts), *found.remarks)
    if problems or header is None:
        raise ambiguous(problems)
    return Current(header, extra_indexes(expected, found.facts))


def ambiguous(problems: tuple[str, ...]) -> StoreRefused:
    """Return the refusal of a store that is neither fresh nor current, each difference named."""
    listed = "; ".join(problems[:SHOWN_DIFFERENCES])
    more = len(problems) - SHOWN_DIFFERENCES
    rest = f"; and {more} more" if more > 0 else ""
    return StoreRefused(reason="ambiguous", detail=listed + rest, differences=problems)


def _without_ours(found: Found, *, shared: bool) -> Fresh:
    foreign = found.facts.foreign
    if foreign and not shared:
        listed = ", ".join(shown(name) for name in foreign[:SHOWN_DIFFERENCES])
        detail = (
            f"it holds what is not ours ({listed}) and no store; "
            "add ?shared=true to the URL if a store shall live beside it"
        )
        raise StoreRefused(reason="foreign", detail=detail)
    if found.remarks:
        detail = "; ".join(found.remarks)
        raise StoreRefused(reason="foreign", detail=detail, differences=found.remarks)
    return Fresh()


def _version(found: Found) -> int | None:
    """Return the layout version that the header names, when it names exactly one."""
    if len(found.header_rows) != 1:
        return None
    version = found.header_rows[0].get("layout_version")
    return version if type(version) is int else None


def _other_version(version: int) -> StoreRefused:
    difference = f"header: layout_version is {version}, expected {LAYOUT_VERSION}"
    reason = "predecessor" if version < LAYOUT_VERSION else "newer"
    detail = (
        f"it has layout {version} and this version reads only {LAYOUT_VERSION}; "
        "export it with the version that wrote it, and import the archive into a new store"
    )
    return StoreRefused(reason=reason, detail=detail, differences=(difference,))


def _header(found: Found, variant: str) -> tuple[Header | None, tuple[str, ...]]:
    """Return the header row, or None, and what is wrong; a missing table is named elsewhere."""
    if not any(table.name == HEADER_TABLE for table in found.facts.tables):
        return None, ()
    if len(found.header_rows) != 1:
        count = "no row" if not found.header_rows else "more than one row"
        return None, (f"header: it has {count}",)
    match found.header_rows[0]:
        case {
            "layout_version": int(version),
            "record_format": str(record_format),
            "options": str(options),
            "incarnation": str(incarnation),
            "created_at": int(created_at),
        }:
            header = Header(version, record_format, options, incarnation, created_at)
        case _:
            return None, ("header: a value is missing or not of its type",)
    wanted = (
        ("record_format", record_format, RECORD_FORMAT),
        ("options", options, variant),
    )
    return header, tuple(
        f"header: {name} is {shown(value)}, expected {expected}"
        for name, value, expected in wanted
        if value != expected
    )
