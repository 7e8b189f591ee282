"""Archive files: whole under their name or not there, and no file that fills memory."""

from __future__ import annotations

import asyncio
import gzip
import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import zstandard

from yielded_core.errors import ArchiveRefused, InvalidArgument
from yielded_core.records.bounds import TRANSFER_BYTES
from yielded_core.transfer.files import read_archive, write_archive
from yielded_core.transfer.verify import verify_archive
from yielded_testing.suites.archive_pages import archive_lines, stored_log
from yielded_testing.suites.builders import batch, notes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

EXTENSIONS = ("jsonl", "jsonl.zst", "jsonl.gz")
LOG = stored_log(batch("batch-1", *notes("a", 2)), batch("batch-2", *notes("b", 1)))
LINES = archive_lines(LOG)
PLAIN = b"".join(line + b"\n" for line in LINES)


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


async def read(path: Path) -> list[bytes]:
    return [line async for line in read_archive(path)]


async def write(path: Path, lines: Iterable[bytes]) -> None:
    async with write_archive(path) as archive:
        for line in lines:
            await archive.write(line)


async def refusal(path: Path) -> ArchiveRefused:
    with pytest.raises(ArchiveRefused) as caught:
        await verify_archive(read_archive(path))
    return caught.value


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_what_was_written_is_read_back(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"thread.{extension}"
    lines = [*LINES, b"", b"x" * 3_000_000, b"y"]
    await write(path, lines)
    assert await read(path) == lines
    assert names(tmp_path) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o600
    await write(path, LINES)
    assert (await verify_archive(read_archive(path))).ok
    again = path.read_bytes()
    await write(path, LINES)
    assert path.read_bytes() == again


@pytest.mark.rule("ARC-5")
async def test_the_extension_says_how_it_is_compressed(tmp_path: Path) -> None:
    for extension in EXTENSIONS:
        await write(tmp_path / f"thread.{extension}", LINES)
    assert (tmp_path / "thread.jsonl").read_bytes() == PLAIN
    assert gzip.decompress((tmp_path / "thread.jsonl.gz").read_bytes()) == PLAIN
    zst = (tmp_path / "thread.jsonl.zst").read_bytes()
    assert zstandard.ZstdDecompressor().decompressobj().decompress(zst) == PLAIN


@pytest.mark.rule("ARC-5")
async def test_files_that_other_tools_wrote_in_several_parts_are_read(tmp_path: Path) -> None:
    half = len(PLAIN) // 2
    path = tmp_path / "thread.jsonl.gz"
    path.write_bytes(gzip.compress(PLAIN[:half]) + gzip.compress(PLAIN[half:]))
    assert await read(path) == LINES
    path = tmp_path / "thread.jsonl.zst"
    compress = zstandard.ZstdCompressor().compress
    path.write_bytes(compress(PLAIN[:half]) + compress(PLAIN[half:]))
    assert await read(path) == LINES


# --- Damaged files -------------------------------------------------------------------------------


@pytest.mark.rule("ARC-4", "ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_a_file_that_is_cut_off_anywhere_is_refused(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"thread.{extension}"
    await write(path, LINES)
    whole = path.read_bytes()
    # The checksum of the last zstd frame may be missing: everything before it is there.
    ends = len(whole) - (4 if extension.endswith("zst") else 0)
    for length in range(0, ends, 31 if extension == "jsonl" else 3):
        path.write_bytes(whole[:length])
        assert (await refusal(path)).reason in {"incomplete", "format"}
    path.write_bytes(whole[: ends - 1])
    assert (await refusal(path)).reason == "incomplete"


@pytest.mark.rule("ARC-4", "ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_a_changed_byte_is_refused_or_changes_nothing(tmp_path: Path, extension: str) -> None:
    """The headers of both compressions hold bits that say nothing about the content."""
    path = tmp_path / f"thread.{extension}"
    await write(path, LINES)
    whole = path.read_bytes()
    harmless = 0
    for index in range(0, len(whole), 31 if extension == "jsonl" else 2):
        changed = bytearray(whole)
        changed[index] ^= 0x10
        path.write_bytes(changed)
        try:
            await verify_archive(read_archive(path))
        except ArchiveRefused:
            continue
        harmless += 1
        assert await read(path) == LINES
    assert harmless < (1 if extension == "jsonl" else 12)


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize("extension", ["jsonl.zst", "jsonl.gz"])
async def test_a_file_that_is_not_what_its_name_says_is_refused(
    tmp_path: Path, extension: str
) -> None:
    path = tmp_path / f"thread.{extension}"
    path.write_bytes(PLAIN)
    assert (await refusal(path)).reason == "format"


@pytest.mark.rule("ARC-5")
async def test_a_file_that_is_not_there_is_an_error_of_the_file_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await read(tmp_path / "none.jsonl")
    with pytest.raises(FileNotFoundError):
        await write(tmp_path / "none" / "thread.jsonl", LINES)


# --- Bounds --------------------------------------------------------------------------------------


@pytest.mark.rule("ARC-2", "ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_a_line_is_at_most_32_mib(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"thread.{extension}"
    longest = b"x" * TRANSFER_BYTES
    await write(path, [b"first", longest])
    assert await read(path) == [b"first", longest]
    await write(path, [b"first", longest + b"x" * 2_000_000])
    lines = read_archive(path)
    assert await anext(lines) == b"first"
    with pytest.raises(ArchiveRefused) as caught:
        await anext(lines)
    assert (caught.value.reason, caught.value.page) == ("bound", 2)


def _gzip_bomb(path: Path) -> None:
    with gzip.open(path, "wb") as file:
        for _ in range(256):
            file.write(b"x" * 1_048_576)


def _zstd_bomb(path: Path) -> None:
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as frames:
        for _ in range(4_096):
            frames.write(b"x" * 1_048_576)


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize(
    ("name", "make"), [("thread.gz", _gzip_bomb), ("thread.zst", _zstd_bomb)], ids=["gz", "zst"]
)
async def test_a_small_file_that_unpacks_to_gigabytes_does_not_fill_memory(
    tmp_path: Path, name: str, make: Callable[[Path], None]
) -> None:
    path = tmp_path / name
    make(path)
    assert path.stat().st_size < 1_048_576
    tracemalloc.start()
    try:
        assert (await refusal(path)).reason == "bound"
        assert tracemalloc.get_traced_memory()[1] < 64 * 1_048_576
    finally:
        tracemalloc.stop()


@pytest.mark.rule("ARC-5")
async def test_a_frame_that_asks_for_a_giant_window_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "thread.jsonl.zst"
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    with (
        path.open("wb") as file,
        zstandard.ZstdCompressor(compression_params=parameters).stream_writer(file) as frames,
    ):
        frames.write(PLAIN)
    assert (await refusal(path)).reason == "format"


# --- Interruption --------------------------------------------------------------------------------


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_an_interrupted_export_leaves_no_file_or_the_one_before(
    tmp_path: Path, extension: str
) -> None:
    path = tmp_path / f"thread.{extension}"

    async def interrupted() -> None:
        async with write_archive(path) as archive:
            await archive.write(b"x" * 2_000_000)
            assert len(names(tmp_path)) == 1 + path.exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await interrupted()
    assert names(tmp_path) == []
    await write(path, LINES)
    with pytest.raises(ZeroDivisionError):
        await interrupted()
    assert names(tmp_path) == [path.name]
    assert await read(path) == LINES


@pytest.mark.rule("ARC-5")
@pytest.mark.parametrize("extension", EXTENSIONS)
async def test_a_cancelled_export_leaves_no_file_at_any_await(
    tmp_path: Path, extension: str
) -> None:
    path = tmp_path / f"thread.{extension}"
    for delay in range(12):
        task = asyncio.create_task(write(path, [*LINES, b"x" * 2_000_000]))
        for _ in range(delay):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert names(tmp_path) in ([], [path.name])
        if path.exists():
            assert (await read(path))[: len(LINES)] == LINES
            path.unlink()


@pytest.mark.rule("ARC-5")
async def test_a_reader_that_leaves_early_closes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "thread.jsonl.zst"
    await write(path, LINES)
    lines = read_archive(path)
    assert await anext(lines) == LINES[0]
    await lines.aclose()
    lines = read_archive(path)
    changed = archive_lines(LOG[:1])
    await write(path, [*changed[:1], *LINES[1:]])
    with pytest.raises(ArchiveRefused):
        await verify_archive(lines)
    with pytest.raises(StopAsyncIteration):
        await anext(lines)
    task = asyncio.create_task(read(path))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.rule("ARC-5")
async def test_a_name_that_is_no_file_is_refused_and_a_link_is_followed(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument):
        await write(tmp_path, LINES)
    with pytest.raises(InvalidArgument):
        await write(Path(os.devnull), LINES)
    link, real = tmp_path / "link.jsonl", tmp_path / "real.jsonl"
    real.write_bytes(b"old")
    link.symlink_to(real)
    await write(link, LINES)
    assert link.is_symlink()
    assert await read(real) == LINES
