"""How the records of an archived range are kept: compressed lines of canonical JSON (ARC-6).

Canonical JSON holds no raw line break, so that lines need no length and stay readable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import zstandard

from yielded_core.records.bounds import RECORD_BYTES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

CHUNK_BYTES: Final = 1_048_576
"""Raw bytes after which a chunk is closed; one record may be longer."""
_LONGEST: Final = CHUNK_BYTES + RECORD_BYTES + 1
_LEVEL: Final = 6


def pack_chunks(wires: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, int, bytes]]:
    """Yield (first sequence, last sequence, content) of chunks that hold records in order."""
    compressor = zstandard.ZstdCompressor(level=_LEVEL)
    first, last, size = 0, 0, 0
    lines: list[bytes] = []
    for sequence, wire in wires:
        first = first or sequence
        last = sequence
        lines.append(wire)
        size += len(wire)
        if size >= CHUNK_BYTES:
            yield first, last, compressor.compress(b"\n".join(lines))
            first, size, lines = 0, 0, []
    if lines:
        yield first, last, compressor.compress(b"\n".join(lines))


def chunk_lines(content: bytes) -> list[bytes]:
    """Return the records of a chunk. Raises ValueError for content that is not one."""
    try:
        raw = zstandard.ZstdDecompressor().decompress(content, max_output_size=_LONGEST)
    except zstandard.ZstdError as error:
        message = "a chunk does not decompress"
        raise ValueError(message) from error
    return raw.split(b"\n")
