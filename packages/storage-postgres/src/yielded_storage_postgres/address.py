"""What a `postgresql://` URL says: the server, the schema, and how it is to be used."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from yielded_core.errors import InvalidStoreUrl

if TYPE_CHECKING:
    from collections.abc import Mapping

_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_$]{0,62}")
_OWN: Final = ("create", "deadline", "pool", "schema", "shared")
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

    @property
    def quoted_schema(self) -> str:
        """The schema as it stands in a statement."""
        return f'"{self.schema}"'


def parse_url(url: str) -> Address:
    """Read `postgresql://role:password@host:port/database` with its options.

    Our options: `schema=NAME`, `shared=true|false`, `create=true|false`, `deadline=SECONDS`,
    `pool=CONNECTIONS`. Every other one goes to the driver, such as `ssl` and
    `statement_cache_size`. Raises InvalidStoreUrl.
    """
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise InvalidStoreUrl("write postgresql://role@host/database") from None
    if parsed.get_backend_name() != "postgresql" or not parsed.database:
        raise InvalidStoreUrl("write postgresql://role@host/database")
    given = {name: value for name, value in parsed.query.items() if name in _OWN}
    if not all(isinstance(value, str) for value in given.values()):
        raise InvalidStoreUrl("an option stands in it twice")
    options = {name: str(value) for name, value in given.items()}
    schema = options.get("schema", "public")
    if not _SCHEMA.fullmatch(schema) or schema.startswith("pg_"):
        raise InvalidStoreUrl("schema is a lower-case name of at most 63 characters")
    return Address(
        parsed.difference_update_query(_OWN).set(drivername="postgresql+asyncpg"),
        schema,
        _choice(options, "shared", ("false", "true")) == "true",
        _choice(options, "create", ("true", "false")) == "true",
        _number(options, "deadline", _DEFAULT_DEADLINE, 3_600),
        int(_number(options, "pool", 16, _MOST_CONNECTIONS)),
    )


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
