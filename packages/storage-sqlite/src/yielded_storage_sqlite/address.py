"""What a `sqlite://` URL says: the file, and how it is to be used."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

from yielded_core.errors import InvalidStoreUrl

_DEFAULT_DEADLINE: Final = 30.0
_KNOWN: Final = ("create", "deadline", "shared", "synchronous")


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed URL."""

    path: str
    synchronous: str = "full"
    """`full` flushes every commit; `normal` may lose the last ones on a power cut."""
    shared: bool = False
    """Whether the file may hold other people's objects (LAY-1)."""
    deadline: float = _DEFAULT_DEADLINE
    """Seconds after which an operation that could not begin is StorageBusy."""
    create: bool = True
    """Whether a file that is not there yet comes into being."""

    def resolved(self) -> Address:
        """Return it with a path that no later change of directory or link leads elsewhere."""
        return replace(self, path=os.path.realpath(self.path))


def parse_url(url: str) -> Address:
    """Read `sqlite:///relative.db` or `sqlite:////absolute.db` with its options.

    Options: `synchronous=full|normal`, `shared=true|false`, `create=true|false`,
    `deadline=SECONDS`. Raises InvalidStoreUrl; `:memory:` is refused, because `memory://` is the
    storage without a file.
    """
    parts = urlsplit(url)
    path = unquote(parts.path)[1:]
    if parts.scheme.partition("+")[0] != "sqlite" or parts.netloc:
        raise InvalidStoreUrl("write sqlite:///relative.db or sqlite:////absolute.db")
    if not path or path == ":memory:" or "\x00" in path:
        raise InvalidStoreUrl("it names no file; use memory:// for a storage without one")
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    unknown = sorted(options.keys() - set(_KNOWN))
    if unknown:
        raise InvalidStoreUrl(f"unknown option {unknown[0]}; known are {', '.join(_KNOWN)}")
    return Address(
        path,
        _choice(options, "synchronous", ("full", "normal")),
        _choice(options, "shared", ("false", "true")) == "true",
        _seconds(options.get("deadline")),
        _choice(options, "create", ("true", "false")) == "true",
    )


def _choice(options: dict[str, str], name: str, choices: tuple[str, ...]) -> str:
    value = options.get(name, choices[0])
    if value not in choices:
        raise InvalidStoreUrl(f"{name} is {' or '.join(choices)}")
    return value


def _seconds(text: str | None) -> float:
    if text is None:
        return _DEFAULT_DEADLINE
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 3_600:  # noqa: PLR2004 - an hour, in seconds
        raise InvalidStoreUrl("deadline is a number of seconds from above 0 to 3600")
    return seconds
