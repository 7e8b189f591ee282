"""What a `postgresql://` URL says: the server, the schema, and how it is to be used."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from yielded_core.errors import InvalidStoreUrl
from yielded_storage_postgres.partitions import MOST_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_$]{0,62}")
_OWN: Final = ("create", "deadline", "partitions", "pool", "schema", "shared")
_PLACES: Final = ("host", "port")
"""Options that say where several servers are, or which socket."""
_TLS: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_DRIVER: Final[Mapping[str, Callable[[str], object]]] = {
    "command_timeout": float,
    "passfile": str,
    "prepared_statement_cache_size": int,
    "ssl": lambda text: _TLS[_TLS.index(text)],
    "statement_cache_size": int,
    "target_session_attrs": str,
}
"""Arguments of the driver, as it takes them."""
_SETTINGS: Final = (
    "application_name",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit",
)
"""Settings of the server, for every connection."""
_KNOWN: Final = tuple(sorted((*_OWN, *_PLACES, *_DRIVER, *_SETTINGS)))
_APPLICATION: Final = "yielded"
_MOST_PORT: Final = 65_535
_DEFAULT_DEADLINE: Final = 30.0
_MOST_CONNECTIONS: Final = 256


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL."""

    url: URL
    """Without our own options; with asyncpg as its driver."""
    schema: str = "public"
    shared: bool = False
    """Whether the schema may hold other people's objects (LAY-1)."""
    create: bool = True
    """Whether a store that is not there yet comes into being."""
    deadline: float = _DEFAULT_DEADLINE
    """Seconds after which an operation that could not begin is StorageBusy."""
    pool: int = 16
    """Connections at most, those of observers apart."""
    driver: Mapping[str, object] = field(default_factory=dict[str, object])
    """Arguments of the driver that the URL gives."""
    settings: Mapping[str, str] = field(default_factory=dict[str, str])
    """Settings of the server that the URL gives."""
    partitions: int = 0
    """Parts of each table of a store that comes into being; 0: tables are whole."""

    @property
    def quoted_schema(self) -> str:
        """The schema as it stands in a statement."""
        return f'"{self.schema}"'

    @property
    def arguments(self) -> dict[str, Any]:
        """What every connection is opened with, beside the URL."""
        settings = {"application_name": _APPLICATION, **self.settings}
        return {"timeout": self.deadline, **self.driver, "server_settings": settings}


def parse_url(url: str) -> Address:
    """Read `postgresql://role:password@host:port/database` with its options.

    Our options: `schema=NAME`, `shared=true|false`, `create=true|false`, `deadline=SECONDS`,
    `pool=CONNECTIONS`, and `partitions=COUNT` for a store that comes into being: its tables are
    partitioned by thread, and its header says so from then on. Some of the
    driver's, such as `ssl` and `statement_cache_size`, and of the server's, such as
    `application_name` and `lock_timeout`, are passed on. Raises InvalidStoreUrl, which never
    repeats a value.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidStoreUrl("write postgresql://role@host/database") from None
    if parsed.get_backend_name() != "postgresql" or not parsed.database:
        raise InvalidStoreUrl("write postgresql://role@host/database")
    if not 0 < (parsed.port or 1) <= _MOST_PORT:
        raise InvalidStoreUrl(f"its port is not one from 1 to {_MOST_PORT}")
    options = _options(parsed)
    schema = options.get("schema", "public")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidStoreUrl("schema is a lower-case name of at most 63 characters")
    return Address(
        parsed.difference_update_query(options).set(drivername="postgresql+asyncpg"),
        schema,
        _choice(options, "shared", ("false", "true")) == "true",
        _choice(options, "create", ("true", "false")) == "true",
        _number(options, "deadline", _DEFAULT_DEADLINE, 3_600),
        _whole_number("pool", options.get("pool", "16"), 1, _MOST_CONNECTIONS),
        _driver(options),
        {name: options[name] for name in _SETTINGS if name in options},
        _whole_number("partitions", options.get("partitions", "0"), 0, MOST_PARTITIONS),
    )


def _options(parsed: URL) -> dict[str, str]:
    """Return the options that are not about where the server is."""
    unknown = sorted(parsed.query.keys() - set(_KNOWN))
    if unknown:
        raise InvalidStoreUrl(f"an option is unknown; known are {', '.join(_KNOWN)}")
    options: dict[str, str] = {}
    for name, value in parsed.query.items():
        if name in _PLACES:
            continue
        if not isinstance(value, str):
            raise InvalidStoreUrl(f"{name} stands in it twice")
        if "\x00" in value:
            raise InvalidStoreUrl(f"{name} has a NUL in it")
        options[name] = value
    return options


def _driver(options: Mapping[str, str]) -> dict[str, object]:
    given: dict[str, object] = {}
    for name, kind in _DRIVER.items():
        if name in options:
            try:
                given[name] = kind(options[name])
            except ValueError:
                raise InvalidStoreUrl(f"{name} has a value that the driver does not know") from None
    return given


def _whole_number(name: str, text: str, least: int, most: int) -> int:
    """Read a number of things; a pool of 0 connections would be one without a limit."""
    if not re.fullmatch("0|[1-9][0-9]{0,3}", text) or not least <= int(text) <= most:
        raise InvalidStoreUrl(f"{name} is a whole number from {least} to {most}")
    return int(text)


def _choice(options: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0])
    if value not in choices:
        raise InvalidStoreUrl(f"{name} is {' or '.join(choices)}")
    return value


def _number(options: Mapping[str, str], name: str, default: float, most: int) -> float:
    try:
        number = float(options.get(name, default))
    except ValueError:
        number = 0.0
    if not 0 < number <= most:
        raise InvalidStoreUrl(f"{name} is a number from above 0 to {most}")
    return number
