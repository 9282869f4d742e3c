"""Places of stores, and connections with them: URLs as libpq takes them, and typed errors."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from contracts.stores import registry
from support.fakes import FakeEmbedder
from support.postgres import lent_url, server

from eventlog import EventLogError, LogUnavailable
from memory_actors import MemorySystem, Settings

psycopg = pytest.importorskip("psycopg")

from eventlog import PgEventStore  # noqa: E402 - of an extra
from eventlog.postgres import database, leases, store, tables  # noqa: E402 - the same
from eventlog.postgres.database import DatabasePlace, Lost, connect, hosts_of, run  # noqa: E402

pytestmark = pytest.mark.anyio

SETTINGS = Settings(latency_targets_ms={})


@pytest.mark.parametrize(
    ("url", "schema", "means"),
    [
        ("postgresql:///db", "eventlog", {"dbname": "db"}),
        ("postgresql:///db?host=/run/pg", "eventlog", {"dbname": "db", "host": "/run/pg"}),
        ("postgresql://%2Frun%2Fpg/db?schema=m", "m", {"dbname": "db", "host": "/run/pg"}),
        ("postgres://app@h:1/db?schema=m", "m", {"user": "app", "host": "h", "port": "1"}),
        ("postgresql://h/db?schema=a%2Fb%20c+d", "a/b c+d", {"host": "h"}),
        ("postgresql://h/db?schema=", "eventlog", {"host": "h"}),
        ("postgresql://h/db?x=1&schema=a", None, {}),
        ("postgresql://h/db?options=-c%20geqo%3Doff", "eventlog", {"options": "-c geqo=off"}),
        (
            "postgresql://h/db?application_name=my%20app&schema=m&sslmode=disable",
            "m",
            {"application_name": "my app", "sslmode": "disable"},
        ),
        ("postgresql://u:p%40s+s@h/db?schema=m", "m", {"user": "u", "password": "p@s+s"}),
        ("postgresql://u:what?now#@h/db?schema=m", "m", {"password": "what?now#", "host": "h"}),
        ("postgresql://a:1,b:2/db?schema=m", "m", {"host": "a,b", "port": "1,2"}),
        ("postgresql://[::1]:5/db", "eventlog", {"host": "::1", "port": "5"}),
        ("postgresql://h/db?schema=%ff", None, {}),
        ("postgresql://h/d\udc00b", None, {}),
        ("postgresql://[::1/db", None, {}),
        ("nonsense", None, {}),
    ],
)
def test_a_url_is_left_as_it_is_but_for_its_schema(url, schema, means):
    if schema is None:
        with pytest.raises(LogUnavailable, match="no URL of a database"):
            DatabasePlace.parse(url)
        return
    place = DatabasePlace.parse(url)
    given = psycopg.conninfo.conninfo_to_dict(place.url)
    assert place.schema == schema
    assert {name: given.get(name) for name in means} == means
    assert "schema" not in given


def _sockets(query: str = "", *, named: bool = False) -> str:
    one = server()
    where = f"host={one.directory}&port={one.port}&user=postgres"
    if named:
        host = str(one.directory).replace("/", "%2F")
        return f"postgresql://postgres@{host}:{one.port}/postgres?{query}"
    return f"postgresql:///postgres?{where}&{query}"


@pytest.mark.parametrize(
    "url",
    [
        lambda: _sockets("schema={schema}"),
        lambda: _sockets("schema={schema}", named=True),
        lambda: f"{server().url}?schema={{schema}}&options=-c%20geqo%3Doff",
        lambda: f"{server().url}?application_name=my%20app&schema={{schema}}",
    ],
    ids=["a socket", "a socket as a host", "options", "a name with a space"],
)
async def test_a_store_is_opened_by_any_url_that_libpq_takes(url: Callable[[], str]):
    with lent_url() as lent:
        at = url().format(schema=lent.rpartition("=")[2])
        place = DatabasePlace.parse(at)
        connection = await connect(place)
        shown = await run(connection, "SELECT current_setting('geqo')")
        name = await run(connection, "SELECT current_setting('application_name')")
        await connection.close()
        assert shown == [("off" if "geqo" in at else "on",)]
        assert name == [("my app" if "my%20app" in at else "eventlog",)]
        async with PgEventStore.open(at, registry) as log:
            assert await log.streams() == []


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("postgresql:///db", []),
        ("postgresql:///db?host=/run/pg", []),
        ("postgresql://a/db", [("a", "5432")]),
        ("postgresql://a:1,b:2/db", [("a", "1"), ("b", "2")]),
        ("postgresql://a,b:7/db", [("a", "5432"), ("b", "7")]),
        ("postgresql://a/db?hostaddr=10.0.0.1&port=9", [("10.0.0.1", "9")]),
    ],
)
def test_the_servers_that_a_url_leads_to_are_told(url, found, monkeypatch):
    for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert [(host, port or "5432") for host, port in hosts_of(url)] == found


def test_a_server_that_only_a_variable_names_is_told(monkeypatch):
    monkeypatch.setenv("PGHOST", "db.example")
    assert [host for host, _ in hosts_of("postgresql:///db")] == ["db.example"]


# --- errors


@contextmanager
def _role(limit: int) -> Iterator[str]:
    """Lend the URL of a new schema, for a role that may have so many connections."""
    name = f"app_{secrets.token_hex(4)}"
    with psycopg.connect(server().url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {name} LOGIN CONNECTION LIMIT {limit}")
        admin.execute(f"GRANT CREATE ON DATABASE postgres TO {name}")
        try:
            yield f"{server().url.replace('postgres@', f'{name}@')}?schema={name}"
        finally:
            admin.execute(f"DROP OWNED BY {name} CASCADE")
            admin.execute(f"DROP ROLE {name}")


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5, 6, 11])
async def test_a_node_with_few_connections_works_or_says_how_many_it_needs(
    limit, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    for module in (database, store, leases):
        monkeypatch.setattr(module, "CONNECT_S", 0.5)
    with _role(limit) as url:
        try:
            async with MemorySystem.open(url, embedder=FakeEmbedder(), settings=SETTINGS) as memory:
                await memory.user("ada").add("Ada enjoys skiing")
                assert await memory.user("ada").count() == 1
        except LogUnavailable as error:
            refusal = str(error)
        else:
            refusal = ""
    assert "takes up to 11 connections" in refusal or (not refusal and limit > 1)
    assert not refusal or limit < database.CONNECTIONS_MAX


async def test_a_session_that_the_server_ends_is_lost(url):
    connection = await connect(DatabasePlace.parse(url))
    if connection.info.server_version < database.TRANSACTION_TIMEOUT_VERSION:
        pytest.skip("PostgreSQL 17 and later end transactions that take too long")
    await run(connection, "SET transaction_timeout = '50ms'")
    with pytest.raises(Lost):
        await run(connection, "SELECT pg_sleep(5)")
    assert connection.closed


@pytest.mark.parametrize("host", ["a" * 70, "h..example", "no.such.host.invalid"])
async def test_a_host_that_is_none_is_a_typed_error(host, monkeypatch):
    monkeypatch.setattr(store, "CONNECT_S", 0.1)
    with pytest.raises(EventLogError):
        async with PgEventStore.open(f"postgresql://app@{host}/db", registry):
            pass


async def test_a_lease_whose_first_renewal_has_no_answer_is_a_typed_error(url, monkeypatch):
    monkeypatch.setattr(leases, "CONNECT_S", 0.1)
    async with PgEventStore.open(url, registry) as log:
        with psycopg.connect(server().url) as other:
            other.execute(f"LOCK {DatabasePlace.parse(url).schema}.node")
            with pytest.raises(LogUnavailable, match="no answer"):
                async with log.leases(b"here", lease_s=0.2):
                    pass


async def test_settings_are_read_from_a_store_that_nobody_opens(url):
    names, nowhere = (b"one", b"other"), f"{server().url}?schema=none_is_here"
    assert await tables.settings_at(nowhere, *names) == [None, None]
    async with PgEventStore.open(url, registry) as log:
        assert await tables.settings_at(url, *names) == [None, None]
        await log.save_setting("other", b"value", expected=None)
    assert await tables.settings_at(url, *names) == [None, b"value"]
