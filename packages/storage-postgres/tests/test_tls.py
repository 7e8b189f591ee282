"""TLS through the URL, to a server that takes nothing else: who is checked, and by what (STO-3)."""

from __future__ import annotations

import ssl
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import pytest
import trustme
from sqlalchemy import make_url
from tls_proxy import TlsProxy

from yielded_core.errors import StorageUnavailable
from yielded_storage_postgres import open_storage
from yielded_testing.suites.builders import Writer, note
from yielded_testing.suites.support import observing

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from pathlib import Path

    from server_side import Place

RULES: Final = pytest.mark.rule("STO-3")


class Certificates(NamedTuple):
    """Files of the client, and what the server shows."""

    authority: Path
    """Who signed the server's certificate and the client's."""
    stranger: Path
    """Another authority."""
    client: Path
    key: Path
    server: ssl.SSLContext


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    authority, stranger = trustme.CA(), trustme.CA()
    client, server = authority.issue_cert("client@example.com"), authority.issue_cert("127.0.0.1")
    pems = {
        "authority": authority.cert_pem,
        "stranger": stranger.cert_pem,
        "client": client.cert_chain_pems[0],
        "key": client.private_key_pem,
        "shown": server.cert_chain_pems[0],
        "secret": server.private_key_pem,
    }
    for name, pem in pems.items():
        pem.write_to_path(tmp_path / name)
        (tmp_path / name).chmod(0o600)
    context = ssl.create_default_context(
        ssl.Purpose.CLIENT_AUTH, cafile=str(tmp_path / "authority")
    )
    context.load_cert_chain(tmp_path / "shown", tmp_path / "secret")
    return Certificates(
        tmp_path / "authority",
        tmp_path / "stranger",
        tmp_path / "client",
        tmp_path / "key",
        context,
    )


class Secured(NamedTuple):
    """A store behind TLS."""

    proxy: TlsProxy
    place: Place

    def url(self, *options: str, host: str = "127.0.0.1") -> str:
        """Return its URL, with TLS as the options say."""
        url = make_url(self.place.url(*options)).set(host=host, port=self.proxy.port)
        return url.render_as_string(hide_password=False)

    async def opens(self, *options: str, host: str = "127.0.0.1") -> None:
        """Open it."""
        before = self.proxy.encrypted
        async with open_storage(self.url(*options, host=host)) as storage:
            assert await storage.threads.threads() == ()
        assert self.proxy.encrypted > before

    async def fails(self, *options: str, host: str = "127.0.0.1") -> None:
        """See that it is refused, on whichever side."""
        before = self.proxy.encrypted
        with pytest.raises(StorageUnavailable):
            async with open_storage(self.url(*options, host=host)):
                pass
        assert self.proxy.encrypted == before


@asynccontextmanager
async def secured(place: Place, context: ssl.SSLContext) -> AsyncGenerator[Secured]:
    """Serve the server of the tests by TLS alone."""
    port = make_url(place.server).port
    assert port is not None
    async with TlsProxy(port, context).serving() as proxy:
        yield Secured(proxy, place)


@RULES
@pytest.mark.parametrize("mode", ["allow", "prefer", "require"])
async def test_the_connection_is_encrypted_where_the_server_wants_it(
    place: Place, certificates: Certificates, mode: str
) -> None:
    async with secured(place, certificates.server) as store:
        await store.opens(f"sslmode={mode}")
        await store.fails("sslmode=disable")


@RULES
async def test_the_server_is_known_by_its_authority_and_its_name(
    place: Place, certificates: Certificates
) -> None:
    known = f"sslrootcert={certificates.authority}"
    unknown = f"sslrootcert={certificates.stranger}"
    async with secured(place, certificates.server) as store:
        for mode in ("verify-ca", "verify-full"):
            await store.opens(f"sslmode={mode}", known)
            await store.fails(f"sslmode={mode}", unknown)
        await store.opens("sslmode=verify-ca", known, host="localhost")
        await store.fails("sslmode=verify-full", known, host="localhost")


@RULES
async def test_the_client_is_known_by_its_certificate(
    place: Place, certificates: Certificates
) -> None:
    known = ("sslmode=verify-full", f"sslrootcert={certificates.authority}")
    ours = (f"sslcert={certificates.client}", f"sslkey={certificates.key}")
    certificates.server.verify_mode = ssl.CERT_REQUIRED
    # Before 1.3, a client without a certificate is told in the handshake; since, with the answer.
    certificates.server.maximum_version = ssl.TLSVersion.TLSv1_2
    async with secured(place, certificates.server) as store:
        await store.fails(*known)
        await store.opens(*known, *ours)


@RULES
async def test_no_connection_goes_in_clear(place: Place, certificates: Certificates) -> None:
    """Those that tell of commits and listen to others neither."""
    options = ("sslmode=verify-full", f"sslrootcert={certificates.authority}", "pool=1")
    async with (
        secured(place, certificates.server) as store,
        open_storage(store.url(*options)) as storage,
        open_storage(store.url(*options)) as other,
    ):
        writer = await Writer.begin(other)
        async with observing(storage) as seen:
            await writer.append(note("one"))
            await seen.until(1)
            await writer.append(note("two"))
            await seen.until(2)  # it is told, since it listens by now
        assert store.proxy.encrypted >= 4  # two pools, one that listens, one that tells
        assert store.proxy.refused == 0
