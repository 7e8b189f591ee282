"""What a `postgresql://` URL may say, and that no error repeats it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import pytest
from server_side import part
from sqlalchemy import make_url
from sqlalchemy.dialects.postgresql.asyncpg import dialect

from yielded_core.errors import InvalidStoreUrl, StorageError, StorageUnavailable
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.address import parse_url
from yielded_testing.suites.builders import THREAD

if TYPE_CHECKING:
    from server_side import Place

PLAIN: Final = "postgresql://role:hunter2@host:5433/agents"
CANARY: Final = "hunter2"
REFUSED: Final = {
    "another scheme": ("mysql://role:hunter2@host/agents", "write postgresql://"),
    "no database": ("postgresql://role:hunter2@host", "write postgresql://"),
    "no URL": ("hunter2", "write postgresql://"),
    "no host": ("postgresql://role:hunter2@[::1/agents", "write postgresql://"),
    "no number for a port": ("postgresql://role:hunter2@host:port/agents", "write postgresql://"),
    "a port too high": ("postgresql://role:hunter2@host:65536/agents", "port"),
}
OPTIONS: Final = {
    "schema": ("", "A", "1a", "pg_agents", "a-b", 'a"b', "a.b", "x" * 64, "é"),
    "shared": ("", "maybe", "True", "1"),
    "create": ("", "maybe", "False", "0"),
    "deadline": ("", "0", "-1", "nan", "inf", "3600.1", "soon"),
    "pool": ("", "0", "-1", "0.5", "1.5", "257", "1e2", "many", "٣"),
    "statement_cache_size": ("", "few", "1.5"),
    "prepared_statement_cache_size": ("", "few"),
    "command_timeout": ("", "soon"),
    "sslmode": ("", "perhaps", "Require", "verify"),
    "ssl": ("require",),
    "sslrootcert": ("", "/no/such/file"),
    "sslcrl": ("/no/such/file",),
    "sslcert": ("/no/such/file",),
    "sslkey": ("/no/such/file",),
    "target_session_attrs": ("", "primaries", "prefer-standby"),
    "application_name": ("a%00b",),
    "hunter2": ("hunter2",),
    "password": ("hunter2",),
    "crate": ("false",),
}


def told(error: StorageError) -> str:
    """Return all that a log would show of an error."""
    return f"{error} {error!r} {error.fields()} {error.__cause__} {error.__suppress_context__}"


def test_what_a_url_says_nothing_of_has_a_default() -> None:
    address = parse_url(PLAIN)
    assert (address.schema, address.shared, address.create) == ("public", False, True)
    assert (address.deadline, address.pool) == (30.0, 16)
    assert address.arguments == {
        "timeout": 30.0,
        "server_settings": {"application_name": "yielded"},
    }
    assert address.url.render_as_string(hide_password=False) == PLAIN.replace(
        "postgresql", "postgresql+asyncpg"
    )


def test_every_option_arrives_as_what_it_is() -> None:
    address = parse_url(
        f"{PLAIN}?schema=agents_1$&shared=true&create=false&deadline=0.5&pool=256"
        "&statement_cache_size=0&prepared_statement_cache_size=0&command_timeout=7.5&sslmode=require"
        "&application_name=mine&lock_timeout=50ms"
    )
    assert address.quoted_schema == '"agents_1$"'
    assert (address.shared, address.create, address.pool) == (True, False, 256)
    assert address.arguments == {
        "timeout": 0.5,
        "statement_cache_size": 0,
        "prepared_statement_cache_size": 0,
        "command_timeout": 7.5,
        "ssl": "require",
        "server_settings": {"application_name": "mine", "lock_timeout": "50ms"},
    }
    assert not address.url.query


@pytest.mark.parametrize("length", [1, 63])
def test_a_schema_has_up_to_63_characters(length: int) -> None:
    assert parse_url(f"{PLAIN}?schema={'s' * length}").schema == "s" * length


@pytest.mark.parametrize("query", ["host=a:1&host=b:2", "host=a,b&port=1,2"])
def test_several_servers_may_be_named_and_the_one_that_takes_writes_is_meant(query: str) -> None:
    address = parse_url(f"postgresql://role@/agents?{query}")
    place = dialect().create_connect_args(address.url)[1]
    assert (place["host"], place["port"]) == (["a", "b"], [1, 2])
    assert address.driver == {"target_session_attrs": "read-write"}
    address = parse_url(f"postgresql://role@/agents?{query}&target_session_attrs=standby")
    assert address.driver == {"target_session_attrs": "standby"}


def test_one_server_is_taken_as_it_is() -> None:
    for url in (PLAIN, "postgresql://role@/agents?host=/run/postgresql", "postgresql:///agents"):
        assert "target_session_attrs" not in parse_url(url).driver


@pytest.mark.parametrize(
    "query",
    [
        "host=a:1&host=b",
        "host=a&host=b",
        "host=a:1&host=:2",
        "host=a:1&host=hunter2:port",
        "host=a:1&host=b:0",
        "host=a:1&host=b:65536",
        "host=a:1:2&host=b:1",
        "host=a:1&host=b:2&port=3",
        "host=a,b&port=1",
        "host=a,b",
        "host=a,&port=1,2",
        "port=1,2",
    ],
)
def test_several_servers_have_each_a_name_and_a_port(query: str) -> None:
    with pytest.raises(InvalidStoreUrl, match=r"port|server") as caught:
        open_storage(f"postgresql://role@/agents?{query}")
    assert CANARY not in told(caught.value)


def test_servers_stand_in_one_place() -> None:
    with pytest.raises(InvalidStoreUrl, match="not both"):
        open_storage(f"{PLAIN}?host=a:1&host=b:2")


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_url_of_a_database_is_refused(name: str) -> None:
    url, says = REFUSED[name]
    with pytest.raises(InvalidStoreUrl, match=says) as caught:
        open_storage(url)
    assert CANARY not in told(caught.value)


@pytest.mark.parametrize(
    ("option", "value"), [(name, value) for name, values in OPTIONS.items() for value in values]
)
def test_an_option_that_is_not_one_is_refused(option: str, value: str) -> None:
    with pytest.raises(InvalidStoreUrl) as caught:
        open_storage(f"{PLAIN}?{option}={value}&x=1" if not value else f"{PLAIN}?{option}={value}")
    assert "host=" not in caught.value.detail
    assert CANARY not in told(caught.value)


@pytest.mark.parametrize("option", ["schema=a", "lock_timeout=1", "statement_cache_size=0"])
def test_an_option_stands_in_it_once(option: str) -> None:
    with pytest.raises(InvalidStoreUrl, match="twice"):
        open_storage(f"{PLAIN}?{option}&{option}")


@pytest.mark.rule("STO-3")
async def test_where_no_server_is_the_store_is_unavailable() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(StorageUnavailable) as caught:
        async with open_storage(f"postgresql://role:{CANARY}@127.0.0.1:{port}/agents"):
            pass
    assert caught.value.retryable
    assert CANARY not in told(caught.value)
    assert str(port) not in told(caught.value)


@pytest.mark.rule("STO-3")
async def test_a_server_that_does_not_answer_is_unavailable_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(StorageUnavailable):
            async with open_storage(f"postgresql://role@127.0.0.1:{port}/agents?deadline=0.2"):
                pass


@pytest.mark.rule("STO-3")
async def test_a_role_or_a_database_that_is_not_there_is_named_in_no_error(place: Place) -> None:
    for url in (place.url(role=CANARY, password=CANARY), place.server.rsplit("/", 1)[0] + "/none"):
        with pytest.raises(StorageUnavailable, match="server") as caught:
            async with open_storage(url):
                pass
        assert CANARY not in told(caught.value)
        assert "none" not in told(caught.value).lower().replace(" none", "")


@pytest.mark.rule("STO-1")
@pytest.mark.parametrize(("option", "name"), [("", "yielded"), ("application_name=mine", "mine")])
async def test_every_connection_has_a_name(place: Place, option: str, name: str) -> None:
    query = "SHOW application_name"
    async with open_storage(f"{place.server}?schema={place.schema}&{option}") as storage:
        database = part(storage, "_database")
        async with database.engine.connect() as connection:
            assert (await connection.exec_driver_sql(query)).scalar_one() == name
        other = await part(database, "_notices", "_connect")()
        assert await other.fetchval(query) == name
        await other.close()


def among(place: Place, *ports: int, options: str) -> str:
    """Return the URL of a store on one of several servers."""
    there = make_url(place.server)
    servers = [("127.0.0.1", port) for port in ports] + [(there.host, there.port)]
    hosts = "&".join(f"host={host}:{port}" for host, port in servers)
    return (
        f"postgresql://{there.username}@/{there.database}?{hosts}&schema={place.schema}&{options}"
    )


@pytest.mark.rule("STO-3")
async def test_a_server_that_does_not_answer_leaves_time_for_the_next_one(place: Place) -> None:
    """The first one accepts connections and says nothing, as a machine that hangs does."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = among(place, silent.getsockname()[1], options="deadline=1")
        async with open_storage(url) as storage:
            assert (await storage.info()).durability == "durable-server"


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("several", [False, True])
async def test_a_server_of_another_kind_is_unavailable(place: Place, *, several: bool) -> None:
    """The one that is there takes writes: it is a primary and no standby."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        nobody = listener.getsockname()[1]
    kinds = ("target_session_attrs=standby", "target_session_attrs=primary")
    standby, primary = (
        among(place, nobody, options=kind) if several else place.url(kind) for kind in kinds
    )
    with pytest.raises(StorageUnavailable) as caught:
        async with open_storage(standby):
            pass
    assert caught.value.retryable
    async with open_storage(primary) as storage:
        assert await storage.threads.threads() == ()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
async def test_a_server_without_tls_is_used_where_that_is_allowed(place: Place, mode: str) -> None:
    async with open_storage(place.url(f"sslmode={mode}")) as storage:
        assert await storage.threads.threads() == ()


@pytest.mark.rule("STO-3")
@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
async def test_a_server_without_tls_is_unavailable_where_it_is_asked_for(
    place: Place, mode: str
) -> None:
    with pytest.raises(StorageUnavailable):
        async with open_storage(place.url(f"sslmode={mode}")):
            pass


@pytest.mark.rule("STO-3")
async def test_a_statement_without_an_answer_ends_at_the_timeout_of_commands(place: Place) -> None:
    async with open_storage(place.url("command_timeout=0.2")) as impatient:
        await impatient.threads.materialize(THREAD, epoch=1)
        row = "SELECT 1 FROM yielded_threads WHERE thread_id = $1 FOR UPDATE"
        async with place.holding(row, THREAD):
            with pytest.raises(StorageUnavailable):
                await impatient.threads.materialize(THREAD, epoch=2)
        assert (await impatient.threads.materialize(THREAD, epoch=2)).epoch == 2
