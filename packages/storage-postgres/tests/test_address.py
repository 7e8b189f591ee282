"""What a `postgresql://` URL may say, and that no error repeats it."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Final

import pytest
from server_side import part

from yielded_core.errors import InvalidStoreUrl, StorageError, StorageUnavailable
from yielded_storage_postgres import open_storage
from yielded_storage_postgres.address import parse_url

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
    "ssl": ("", "perhaps"),
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
        "&statement_cache_size=0&prepared_statement_cache_size=0&command_timeout=7.5&ssl=require"
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


def test_several_servers_may_be_named() -> None:
    address = parse_url("postgresql://role@/agents?host=a:1&host=b:2&target_session_attrs=primary")
    assert address.url.query == {"host": ("a:1", "b:2")}
    assert address.driver == {"target_session_attrs": "primary"}


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
