"""What a `postgresql://` URL says: the server, the schema, and how it is to be used."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, cast
from urllib.parse import urlencode

from sqlalchemy import URL, make_url
from sqlalchemy.dialects.postgresql.asyncpg import dialect
from sqlalchemy.exc import ArgumentError

from yielded_core.errors import InvalidStoreUrl
from yielded_storage_postgres.partitions import MOST_PARTITIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_$]{0,62}")
_OWN: Final = ("create", "deadline", "partitions", "pool", "schema", "shared")
SCHEMA_NAME: Final = "a lower-case name of at most 63 characters"
_PLACE: Final = re.compile(r"[^:,]+:[0-9]+")
"""One of several servers, each an option of its own."""
_PLACES: Final = ("host", "port")
"""Options that say where several servers are, or which socket."""
_TLS: Final = ("disable", "allow", "prefer", "require", "verify-ca", "verify-full")
_TLS_FILES: Final = ("sslcert", "sslcrl", "sslkey", "sslrootcert")
_TARGETS: Final = ("any", "primary", "read-write", "standby", "read-only")
_WRITABLE: Final = "read-write"
"""Which of several servers is meant where nothing else is said."""
_DRIVER: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    "command_timeout": ("command_timeout", float),
    "passfile": ("passfile", str),
    "prepared_statement_cache_size": ("prepared_statement_cache_size", int),
    "sslmode": ("ssl", lambda text: _TLS[_TLS.index(text)]),
    "statement_cache_size": ("statement_cache_size", int),
    "target_session_attrs": (
        "target_session_attrs",
        lambda text: _TARGETS[_TARGETS.index(text)],
    ),
}
"""Arguments of the driver: what it calls them, and as what it takes them."""
_SETTINGS: Final = (
    "application_name",
    "idle_in_transaction_session_timeout",
    "lock_timeout",
    "statement_timeout",
    "synchronous_commit",
)
"""Settings of the server, for every connection."""
_KNOWN: Final = tuple(sorted((*_OWN, *_PLACES, *_TLS_FILES, *_DRIVER, *_SETTINGS)))
_APPLICATION: Final = "yielded"
_MOST_PORT: Final = 65_535
_SEVERAL: Final = "write host=HOST:PORT for each server, or host=HOST,HOST&port=PORT,PORT"
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


def is_schema(name: str) -> bool:
    """Say whether a schema may be called so; such a name needs no care in a statement."""
    return _SCHEMA.fullmatch(name) is not None and not name.startswith("pg_")


def parse_url(url: str) -> Address:
    """Read `postgresql://role:password@host:port/database` with its options.

    Our options: `schema=NAME`, `shared=true|false`, `create=true|false`, `deadline=SECONDS`,
    `pool=CONNECTIONS`, and `partitions=COUNT` for a store that comes into being: its tables are
    partitioned by thread, and its header says so from then on.

    Several servers: `postgresql://role@/database?host=HOST:PORT&host=HOST:PORT`, or
    `?host=HOST,HOST&port=PORT,PORT`. Each new connection goes to the first of them that answers
    and fits `target_session_attrs`: `read-write` (the default where there are several), `primary`,
    `standby`, `read-only` or `any`. So a store follows a failover without being opened again.

    TLS: `sslmode=disable|allow|prefer|require|verify-ca|verify-full`, by default `prefer`. The last
    two check the server by the certificates in the file `sslrootcert`, which may also be named by
    the environment variable `PGSSLROOTCERT` or lie in `~/.postgresql/root.crt`; `sslcrl` lists what
    was revoked. `sslcert` and `sslkey` are the files by which the server knows us.

    Timeouts: `deadline`, 30 seconds by default, is how long an operation waits for a connection of
    the pool, and, shared out between several servers, how long it takes at most to connect.
    `command_timeout=SECONDS` ends a connection on which a statement was not answered; by default
    none does. `lock_timeout`, `statement_timeout` and `idle_in_transaction_session_timeout` are the
    server's, in its own units, such as `500ms`.

    Others of the driver's options, such as `statement_cache_size`, and of the server's, such as
    `application_name`, are passed on. Raises InvalidStoreUrl, which never repeats a value.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidStoreUrl("write postgresql://role@host/database") from None
    if parsed.get_backend_name() != "postgresql" or not parsed.database:
        raise InvalidStoreUrl("write postgresql://role@host/database")
    options = _options(parsed)
    place = parsed.difference_update_query(options)
    hosts = _hosts(place)
    schema = options.get("schema", "public")
    if not is_schema(schema):
        raise InvalidStoreUrl(f"schema is {SCHEMA_NAME}")
    return Address(
        place.set(drivername="postgresql+asyncpg"),
        schema,
        _choice(options, "shared", ("false", "true")) == "true",
        _choice(options, "create", ("true", "false")) == "true",
        _number(options, "deadline", _DEFAULT_DEADLINE, 3_600),
        _whole_number("pool", options.get("pool", "16"), 1, _MOST_CONNECTIONS),
        ({"target_session_attrs": _WRITABLE} if hosts > 1 else {})
        | _driver(options)
        | _tls_files(options),
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


def _hosts(place: URL) -> int:
    """Check where the servers are, and return how many there are."""
    if place.host and "host" in place.query:
        raise InvalidStoreUrl("its servers stand before the database or as options, not both")
    given = place.query.get("host", "")
    if not isinstance(given, str) and not all(_PLACE.fullmatch(each) for each in given):
        raise InvalidStoreUrl(_SEVERAL)
    try:
        found = dialect().create_connect_args(place)[1]
    except (ArgumentError, ValueError):
        raise InvalidStoreUrl(_SEVERAL) from None
    hosts, ports = _listed(found.get("host")), _listed(found.get("port", 1))
    if not all(isinstance(port, int) and 0 < port <= _MOST_PORT for port in ports):
        raise InvalidStoreUrl(f"its port is not one from 1 to {_MOST_PORT}")
    return len(hosts)


def _listed(value: object) -> list[object]:
    return cast("list[object]", value) if isinstance(value, list) else [value]


def _driver(options: Mapping[str, str]) -> dict[str, object]:
    given: dict[str, object] = {}
    for name, (argument, kind) in _DRIVER.items():
        if name in options:
            try:
                given[argument] = kind(options[name])
            except ValueError:
                raise InvalidStoreUrl(f"{name} has a value that the driver does not know") from None
    return given


def _tls_files(options: Mapping[str, str]) -> dict[str, object]:
    """Return files of certificates and keys as the driver takes them: in a URL of no server."""
    files = {name: options[name] for name in _TLS_FILES if name in options}
    for name, file in files.items():
        if not os.access(file, os.R_OK):
            raise InvalidStoreUrl(f"{name} names no file that can be read")
    return {"dsn": f"postgresql:///?{urlencode(files)}"} if files else {}


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
