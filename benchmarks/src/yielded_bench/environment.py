"""Where a run was measured: the machine, the versions, and durability as the engines report it."""

from __future__ import annotations

import os
import platform
import sqlite3
from contextlib import closing, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from yielded_bench.figures import Figure
from yielded_bench.peers import PACKAGES, missing
from yielded_bench.subjects import open_raw
from yielded_core.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yielded_bench.server import Server
    from yielded_core.ports.values import StorageInfo

_VERSIONS: Final = ("pydantic", "orjson", "sqlalchemy", "aiosqlite", "asyncpg")
_SYNCHRONOUS: Final = ("off", "normal", "full", "extra")


async def describe(folder: Path, server: Server, effort: str) -> tuple[Figure, ...]:
    """Return what the figures depend on; `folder` is where the stores lie."""
    async with open_storage(server.store("settings")) as storage:
        served = await storage.info()
    async with open_storage(f"sqlite:///{folder / 'settings.db'}") as storage:
        info = await storage.info()
    return (
        Figure("run", effort),
        Figure("processor", f"{_processor()}, {os.cpu_count()} cores"),
        Figure("system", f"{platform.system()} {platform.release()}, {_file_system(folder)}"),
        Figure("Python", f"{platform.python_implementation()} {platform.python_version()}"),
        Figure("SQLite", sqlite3.sqlite_version),
        Figure("packages", _versions(_VERSIONS)),
        Figure("peers", _peers()),
        Figure("SQLite store", _settings(info)),
        Figure("raw SQLite", _raw_settings(folder)),
        Figure("PostgreSQL", server.kind),
        Figure("PostgreSQL store", _settings(served)),
        Figure("raw PostgreSQL", await _server_settings(server, served)),
    )


async def _server_settings(server: Server, served: StorageInfo) -> str:
    """Return the same settings as a connection of the driver has them."""
    async with server.connected() as connection:
        found = {name: await connection.fetchval(f"SHOW {name}") for name in served.settings}
    return ", ".join(f"{name} = {value}" for name, value in sorted(found.items()))


def load() -> str:
    """Return how many processes wanted a core, on average over 1, 5 and 15 minutes."""
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


def _peers() -> str:
    absent = missing()
    found = [_versions([name]) for name in PACKAGES if name not in absent]
    return ", ".join([*found, *(f"{name} is not installed" for name in absent)])


def _versions(packages: Sequence[str]) -> str:
    return ", ".join(f"{name} {version(name)}" for name in packages)


def _settings(info: StorageInfo) -> str:
    return ", ".join(f"{name} = {value}" for name, value in sorted(info.settings.items()))


def _raw_settings(folder: Path) -> str:
    with closing(open_raw(folder)) as connection:
        found = {
            name: connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "page_size", "synchronous")
        }
    found["synchronous"] = _SYNCHRONOUS[found["synchronous"]]
    return ", ".join(f"{name} = {value}" for name, value in found.items())


def _processor() -> str:
    with suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(folder: Path) -> str:
    """Return the type of the file system that a folder is on, where the system tells."""
    best, kind = "", "file system unknown"
    with suppress(OSError), Path("/proc/mounts").open(encoding="utf-8") as lines:
        for line in lines:
            _, place, found, *_ = line.split()
            if folder.resolve().is_relative_to(place) and len(place) >= len(best):
                best, kind = place, found
    return kind
