"""Opening one connection: of several servers, to the one that may be used."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import asyncpg


async def reached(**given: Any) -> asyncpg.Connection[asyncpg.Record]:  # noqa: ANN401 - a driver's
    """Connect to the first server that may be used; of several, each has its share of the time.

    The driver, given them all, would wait for the first one as long as it may wait altogether.
    """
    if not isinstance(given.get("host"), list):
        return await _fitting(**given)
    places = list(zip(cast("list[str]", given["host"]), given["port"], strict=True))
    given["timeout"] /= len(places)
    for host, port in places[:-1]:
        with suppress(OSError, asyncpg.CannotConnectNowError):
            return await _fitting(**{**given, "host": host, "port": port})
    host, port = places[-1]
    return await _fitting(**{**given, "host": host, "port": port})


async def _fitting(**given: Any) -> asyncpg.Connection[asyncpg.Record]:  # noqa: ANN401 - a driver's
    try:
        return await asyncpg.connect(**given)
    except asyncpg.TargetServerAttributeNotMatched as error:
        raise ConnectionError("the server is not the kind that is asked for") from error
