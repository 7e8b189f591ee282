"""A connection that is cut anywhere in an operation: a retry ends in exactly one effect (LOG-7).

A proxy lets so many bytes of the request, or of the answer, pass and then ends the connection on
both sides. With `-m long` every offset is tried, without it the first, the last and some between.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import pytest
from proxy import STREAMS, Proxy, Stream, proxied
from repeated import KINDS, Append, Case, without_replay
from server_side import outcome

from yielded_core.errors import StorageUnavailable
from yielded_core.records.identifiers import ThreadId
from yielded_storage_postgres import open_storage

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterable

    from server_side import Place

    from yielded_storage_postgres.store import PostgresStorage

Fate: TypeAlias = Literal["heard", "unheard", "nothing"]
"""Answered; committed but not answered; or without any effect before the retry."""
SPREAD: Final = 12
"""Offsets between the first ones and the last ones that are tried without `-m long`."""
ENDS: Final = 3
FIRST: Final = ThreadId("first")


@dataclass
class Sweep:
    """One kind of operation, cut again and again."""

    place: Place
    proxy: Proxy
    through: PostgresStorage
    """Its one connection goes through the proxy."""
    direct: PostgresStorage
    kind: str
    made: int = 0

    async def case(self) -> Case:
        """Return an operation that was not done yet."""
        self.made += 1
        thread = ThreadId(f"{self.kind}-{self.made:06}")
        return await KINDS[self.kind].prepared(self.direct, thread)

    async def warm(self) -> None:
        """Let the connection prepare every statement that the operation needs."""
        await (await self.case()).run(self.through)

    async def measure(self) -> dict[Stream, int]:
        """Return how many bytes an operation sends and is answered."""
        case = await self.case()
        self.proxy.mark()
        await case.run(self.through)
        self.proxy.heal()
        return self.proxy.passed()

    async def cut(self, stream: Stream, after: int) -> Fate | None:
        """Cut one operation and repeat it; return what became of it, None if it was not cut."""
        case = await self.case()
        self.proxy.cut(stream, after)
        first = await outcome(case.run(self.through))
        was_cut = self.proxy.heal()
        heard = not isinstance(first, BaseException)
        if was_cut and heard:  # it is the next operation that finds the connection ended
            await outcome(self.through.threads.tail(FIRST))
        again = await case.run(self.through)
        await case.check(self.place, again)
        assert without_replay(await case.run(self.direct)) == without_replay(again)
        if heard:
            assert again.replayed
            assert without_replay(first) == without_replay(again)
        else:
            assert isinstance(first, StorageUnavailable), f"after {after} bytes: {first!r}"
            assert first.retryable
        if not was_cut:
            return None
        if again.replayed:
            await self.warm()
            return "heard" if heard else "unheard"
        return "nothing"


@asynccontextmanager
async def sweep(place: Place, kind: str) -> AsyncGenerator[Sweep]:
    """Open a store twice, once through a proxy, with every statement prepared."""
    async with proxied(place.server) as proxy, open_storage(place.url()) as direct:
        url = proxy.url(f"schema={place.schema}", "pool=1", "sslmode=disable")
        async with open_storage(url) as through:
            await (await Append.prepared(direct, FIRST)).run(through)
            await proxy.heard_of_notices()
            made = Sweep(place, proxy, through, direct, kind)
            await made.warm()
            yield made


def sample(size: int) -> Iterable[int]:
    """Return the first offsets of so many bytes, the last ones, and some between."""
    ends = {*range(ENDS), *range(size - ENDS + 1, size + 1)}
    return sorted(ends | {size * part // SPREAD for part in range(SPREAD)})


@pytest.mark.rule("LOG-7", "STO-3", "LED-4", "LED-8")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cut_connection_costs_a_retry_and_nothing_else(
    place: Place, kind: str, stream: Stream
) -> None:
    async with sweep(place, kind) as made:
        size = (await made.measure())[stream]
        fates = {after: await made.cut(stream, after) for after in sample(size)}
    if stream == "request":
        assert fates[0] == "nothing"
    else:  # all was done, and all but a byte of it, or all, was told
        assert (fates[size - 1], fates[size]) == ("unheard", "heard")


@pytest.mark.long
@pytest.mark.timeout(3_600)
@pytest.mark.rule("LOG-7", "STO-3", "LED-4", "LED-8")
@pytest.mark.parametrize("stream", STREAMS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_cut_at_every_byte_costs_a_retry_and_nothing_else(
    place: Place, kind: str, stream: Stream
) -> None:
    fates: Counter[Fate] = Counter()
    async with sweep(place, kind) as made:
        size = (await made.measure())[stream]
        for after in count():
            fate = await made.cut(stream, after)
            if fate is None:
                break
            fates[fate] += 1
    print(f"{kind}: {fates.total()} offsets of the {stream}, {dict(fates)}")  # noqa: T201
    assert fates.total() >= size
    assert fates["nothing"]
    assert fates["unheard"]
