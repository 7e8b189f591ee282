"""What PostgreSQL and its driver raise, as our own errors, by SQLSTATE (STO-3)."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

import asyncpg
from sqlalchemy.exc import DBAPIError, EmulatedDBAPIException
from sqlalchemy.exc import TimeoutError as PoolTimeout

from yielded_core.errors import (
    StorageBusy,
    StorageCorrupt,
    StorageError,
    StorageFull,
    StorageReadOnly,
    StorageUnavailable,
)

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

RETRIED: Final = frozenset({"40001", "40P01"})
"""Serialization failure and deadlock: the transaction did nothing and may be run again."""
READ_ONLY: Final = "25006"
"""The server is, or has become, a standby, or the role's transactions only read."""
_ENCODING: Final = "the database's encoding lacks a character: use one made with ENCODING 'UTF8'"
_STATES: Final[Mapping[str, tuple[type[StorageError], str]]] = {
    "22021": (StorageError, _ENCODING),
    "22P05": (StorageError, _ENCODING),
    "25P03": (StorageBusy, "the transaction was idle for too long"),
    "25P04": (StorageBusy, "the transaction ran into its timeout"),
    READ_ONLY: (StorageReadOnly, "the server is a standby, or the transaction is read-only"),
    "42501": (StorageReadOnly, "the role lacks a privilege"),
    "53100": (StorageFull, "the server's disk is full"),
    "53200": (StorageBusy, "the server is out of memory"),
    "53300": (StorageBusy, "the server has no connection left"),
    "55P03": (StorageBusy, "a lock was not given in time"),
    "57014": (StorageBusy, "the statement ran into its timeout"),
    "XX001": (StorageCorrupt, "the server found a damaged page"),
    "XX002": (StorageCorrupt, "the server found a damaged index"),
}
_CLASSES: Final[Mapping[str, tuple[type[StorageError], str]]] = {
    "08": (StorageUnavailable, "the connection was lost"),
    "28": (StorageUnavailable, "the server refuses the role or its password"),
    "3D": (StorageUnavailable, "the server has no such database"),
    "40": (StorageBusy, "other transactions were in the way"),
    "53": (StorageBusy, "the server is out of a resource"),
    "57": (StorageUnavailable, "the server shuts down or is starting"),
    "58": (StorageUnavailable, "the server's own system failed"),
}
DRIVER_ERRORS: Final = (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)
"""The last one where a connection ends between two statements and the driver has half noticed."""
_RAISED: Final = (
    DBAPIError,
    EmulatedDBAPIException,  # what SQLAlchemy's pool raises where it cannot connect
    *DRIVER_ERRORS,
    OSError,
)
_ENDED: Final = ("08", "57P")


def sqlstate_of(error: BaseException) -> str:
    """Return the SQLSTATE that an error carries, empty where there is none."""
    cause: BaseException | None = error
    while cause is not None:
        state = getattr(cause, "sqlstate", None)
        if isinstance(state, str):
            return state
        cause = getattr(cause, "orig", None) or cause.__cause__
    return ""


def is_lost(error: BaseException) -> bool:
    """Say whether a connection is of no use after an error, whether its end has shown yet or not.

    A server that ends it says so in an answer first.
    """
    return not isinstance(error, asyncpg.PostgresError) or sqlstate_of(error).startswith(_ENDED)


def storage_fault(error: BaseException) -> StorageError:
    """Return our error for what a statement or a connection failed with."""
    state = sqlstate_of(error)
    known = _STATES.get(state) or _CLASSES.get(state[:2])
    if known is not None:
        kind, detail = known
        return kind(detail)
    lost = isinstance(error, DBAPIError) and error.connection_invalidated
    if state and not lost:
        return StorageError(f"the server refuses a statement with {state}")
    return StorageUnavailable("the connection to the server failed")


@contextmanager
def typed() -> Generator[None]:
    """Raise what the driver raises as our own errors, which hold no SQL and no values.

    Not even as their cause: the server repeats the values of a row that it refuses, and whoever
    logs an error logs its causes too.
    """
    try:
        yield
    except PoolTimeout:
        raise StorageBusy("no connection came free in time") from None
    except _RAISED as error:
        raise storage_fault(error) from None
