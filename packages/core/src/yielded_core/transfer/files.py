"""Archive files: JSON Lines, compressed where the file's extension says so (ARC-5)."""

from __future__ import annotations

import gzip
import os
import tempfile
import zlib
from contextlib import ExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Protocol

import zstandard

from yielded_core.errors import ArchiveRefused, InvalidArgument
from yielded_core.records.bounds import TRANSFER_BYTES
from yielded_core.transfer.offload import off_loop

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_CHUNK: Final = 1_048_576
"""Bytes after decompression that are read at a time, so that a small file cannot fill memory."""
_WINDOW: Final = 32 * 1_048_576
"""Memory that a zstd frame may ask for; what `zstd -19` writes asks for 8 MiB."""


async def read_archive(path: str | Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of an archive file, each at most 32 MiB, without their line ends.

    `.zst` is read as zstd, `.gz` as gzip, everything else as plain text. Close the generator when
    leaving it early. Raises ArchiveRefused: `bound`, `format` (not what the extension says) or
    `incomplete` (the file ends within a page); OSError as the file system gives it.
    """
    resources = ExitStack()
    try:
        source = await off_loop(partial(_source, resources, Path(path)))
        while lines := await off_loop(source.lines):
            for line in lines:
                yield line
    finally:
        await off_loop(resources.close)


@asynccontextmanager
async def write_archive(path: str | Path) -> AsyncGenerator[ArchiveWriter, None]:
    """Write an archive file, compressed as `read_archive` reads it.

    The file has its name only once it is whole and on disk, in place of one that had it before:
    until then it is a hidden file beside it, which is removed when the block is left by an
    exception. It is readable by its owner alone. Raises InvalidArgument for a path that names
    something other than a file; OSError as the file system gives it.
    """
    resources = ExitStack()
    try:
        sink = await off_loop(partial(_sink, resources, Path(path)))
        writer = ArchiveWriter(sink)
        yield writer
        await writer.flush()
        await off_loop(sink.complete)
    finally:
        await off_loop(resources.close)


class ArchiveWriter:
    """Takes the pages of an archive in order."""

    def __init__(self, sink: _Sink) -> None:
        self._sink = sink
        self._lines: list[bytes] = []
        self._size = 0

    async def write(self, page: bytes) -> None:
        """Write the text of one page, without a line end."""
        self._lines += (page, b"\n")
        self._size += len(page) + 1
        if self._size >= _CHUNK:
            await self.flush()

    async def flush(self) -> None:
        """Hand over what was written so far."""
        text = b"".join(self._lines)
        self._lines, self._size = [], 0
        await off_loop(partial(self._sink.write, text))


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def write(self, text: bytes, /) -> int: ...

    def close(self) -> None: ...


class _Source:
    """A file that is read line by line; every method blocks."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._stream = _reading(path, self._file)
        self._pages = 0
        self._begun: list[bytes] = []
        self._begun_size = 0

    def lines(self) -> list[bytes]:
        """Return the next whole lines; an empty list at the end of the file."""
        while chunk := self._chunk():
            *ends, rest = chunk.split(b"\n")
            if ends:
                ends[0] = b"".join((*self._begun, ends[0]))
                self._begun, self._begun_size = [], 0
            self._begun.append(rest)
            self._begun_size += len(rest)
            self._pages += len(ends)
            if self._begun_size > TRANSFER_BYTES:
                detail = f"it is longer than {TRANSFER_BYTES} bytes"
                raise ArchiveRefused(self._pages + 1, "bound", detail)
            if ends:
                return ends
        if self._begun_size:
            raise ArchiveRefused(self._pages + 1, "incomplete", "the file ends within the page")
        return []

    def close(self) -> None:
        self._stream.close()
        self._file.close()

    def _chunk(self) -> bytes:
        page = self._pages + 1
        try:
            return self._stream.read(_CHUNK)
        except EOFError:
            raise ArchiveRefused(page, "incomplete", "the compressed file is cut off") from None
        except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
            detail = f"the file is damaged, or not compressed as its name says: {error}"
            raise ArchiveRefused(page, "format", detail) from None


class _Sink:
    """A file that has its name only once it is whole; every method blocks."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        if self._path.exists() and not self._path.is_file():
            raise InvalidArgument("path", "it names something other than a file")
        handle, name = tempfile.mkstemp(".partial", ".archive-", self._path.parent)
        self._partial = Path(name)
        self._file = os.fdopen(handle, "wb")
        self._compressed = _compressing(self._path, self._file)

    def write(self, text: bytes) -> None:
        (self._compressed or self._file).write(text)

    def complete(self) -> None:
        """Bring the file to disk and give it its name."""
        if self._compressed is not None:
            self._compressed.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._partial.replace(self._path)
        _sync_folder(self._path.parent)

    def abandon(self) -> None:
        """Remove the file if it was not completed."""
        with suppress(OSError, ValueError):  # a full disk, or closed already: it goes anyway
            if self._compressed is not None:
                self._compressed.close()
        with suppress(OSError):
            self._file.close()
        self._partial.unlink(missing_ok=True)


def _source(resources: ExitStack, path: Path) -> _Source:
    """Open a file to be closed with the resources, even if nobody waits for the result."""
    source = _Source(path)
    resources.callback(source.close)
    return source


def _sink(resources: ExitStack, path: Path) -> _Sink:
    """Begin a file, to be removed with the resources unless it is completed."""
    sink = _Sink(path)
    resources.callback(sink.abandon)
    return sink


def _reading(path: Path, file: IO[bytes]) -> _Stream:
    if path.suffix == ".zst":
        frames = zstandard.ZstdDecompressor(max_window_size=_WINDOW)
        return frames.stream_reader(file, read_across_frames=True, closefd=False)
    return gzip.GzipFile(fileobj=file, mode="rb") if path.suffix == ".gz" else file


def _compressing(path: Path, file: IO[bytes]) -> _Stream | None:
    if path.suffix == ".zst":
        frames = zstandard.ZstdCompressor(write_checksum=True)
        return frames.stream_writer(file, closefd=False)
    if path.suffix == ".gz":
        return gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0)
    return None


def _sync_folder(folder: Path) -> None:
    """Bring the file's new name to disk, where a folder can be opened."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
