"""Connections to PostgreSQL. The only module that knows psycopg.

Every connection commits each statement by itself, so that no lock ever waits for a client. A
connection that is lost is `Lost`, whatever psycopg calls it; what the database itself says becomes
an error of the log.
"""

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NamedTuple, Self, TypeAlias, TypeVar
from urllib.parse import unquote

from eventlog.core.errors import DiskFull, LogClosed, LogUnavailable, MissingExtra, StorageFailed
from eventlog.postgres.arrays import Bytes, Ints, Records

try:
    import psycopg
    from psycopg import errors as said
    from psycopg import sql
    from psycopg.adapt import Dumper
    from psycopg.conninfo import conninfo_to_dict, make_conninfo
    from psycopg.pq import Conninfo, Format
    from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout
except ImportError as error:
    raise MissingExtra(
        "a store in PostgreSQL needs psycopg: run `pip install 'memory-actors[postgres]'`"
    ) from error

TRANSACTION_TIMEOUT_VERSION = 170_000
SCHEMA = "eventlog"
READERS_MAX = 8  # connections of one store that read at once
CONNECTIONS_MAX = READERS_MAX + 3  # of a node: it also writes, listens, and renews its lease
PATIENCE_S = 30.0  # how long a store tries to reach a database that is away
ANSWER_S = 15.0  # how long one answer may take before the connection counts as lost
LOCK_S = 10  # how long a call waits for a lock before it is tried again
TRANSACTION_S = 60  # the server ends what takes longer (17+): the second guard against a lock held
CONNECT_S = 5.0  # how long opening a store waits for the database
RETRY_S = 0.1
READER_S = 0.5  # how long a read waits for a connection before it has the pool look for one again
POLL_S = 1.0  # a notification may be lost with its connection: so the tail is also asked for

T = TypeVar("T")
Row = tuple[Any, ...]
Connection: TypeAlias = psycopg.AsyncConnection[Row]
# Keep-alives that detect a dead link; a URL that says otherwise wins.
_DEFAULTS: dict[str, str | int] = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "target_session_attrs": "read-write",
    "application_name": "eventlog",
}
# The server ends the connection with what it says: transactions that take or wait too long.
_ENDED = ("25P03", "25P04")
# If a server or a pooler refuses a connection, psycopg only gives a text.
_TOO_MANY = ("too many", "connection slots", "no more connections")
_ENOUGH = (
    f"A node takes up to {CONNECTIONS_MAX} connections: have the database, the role and the pooler "
    "between allow as many, or close other nodes"
)


class Lost(Exception):
    """The connection was lost: what was under way may have happened, or not."""


class Busy(Exception):
    """Another one holds the lock: nothing has happened."""


class _PackedDumper(Dumper):
    format = Format.BINARY

    def __init__(self, cls: type[Bytes | Ints | Records], context: Any = None):
        super().__init__(cls, context)
        self.oid = cls.TYPE_OID

    def dump(self, obj: Bytes | Ints | Records) -> bytes:
        return obj.packed()


class DatabasePlace(NamedTuple):
    """The place of a store: a database, and a schema in it."""

    url: str
    schema: str

    @classmethod
    def parse(cls, url: str, schema: str | None = None) -> Self:
        """Take `schema=` out of a URL, which libpq does not know.

        :raises LogUnavailable: it is no URL of a database, or no name of a schema.
        """
        try:
            url, named = _without_schema(url)
            given = conninfo_to_dict(url)
        except (ValueError, psycopg.Error):
            # The error may quote the password, if that is the invalid part of the URL.
            raise LogUnavailable(
                "this is no URL of a database: write postgresql://user@host:port/name?schema=name, "
                "and percent-encode what is special in a password"
            ) from None
        name = schema or named or SCHEMA
        if not 0 < len(name.encode()) < 64 or "\0" in name:
            raise LogUnavailable(f"schema {name!r:.100} is no name of 1 to 63 bytes")
        missing = {key: value for key, value in _DEFAULTS.items() if key not in given}
        return cls(make_conninfo(url, **missing), name)

    @property
    def channel(self) -> str:
        """The channel on which appends are told."""
        return f"{self.schema:.50}:log"


def _without_schema(url: str) -> tuple[str, str]:
    """Return a URL without `schema=`, and its value; all else as it is, for libpq to read.

    The query begins at the first `?` behind user and password, which end, as libpq has it, at the
    first `@` if no `/` comes before.
    """
    rest = url.partition("://")[2]
    login = rest.partition("/")[0].find("@") + 1
    at = url.find("?", len(url) - len(rest) + login)
    if at < 0:
        return url, ""
    parts, name = [], ""
    for part in url[at + 1 :].split("&"):
        if part.startswith("schema="):
            name = unquote(part.removeprefix("schema="), errors="strict")
        else:
            parts.append(part)
    return url[:at] + ("?" + "&".join(parts) if parts else ""), name


def hosts_of(url: str) -> list[tuple[str, str]]:
    """Return host and port of each server that a URL leads to, as libpq finds them; [] for sockets.

    Environment variables, such as `PGHOST`, or the service in `PGSERVICE` add the parts that the
    URL lacks.

    :raises LogUnavailable: it is no URL of a database.
    """
    given = conninfo_to_dict(DatabasePlace.parse(url).url)
    known = {one.keyword.decode(): (one.val or b"").decode() for one in Conninfo.get_defaults()}

    def said(name: str) -> list[str]:
        return str(given.get(name) or known.get(name) or "").split(",")

    named = said("hostaddr") if any(said("hostaddr")) else said("host")
    ports = said("port")
    if len(ports) < len(named):
        ports *= len(named)
    return [
        (host, port)
        for host, port in zip(named, ports, strict=False)
        if host and not host.startswith(("/", "@"))
    ]


class Looked(NamedTuple):
    """The findings at the place of a store."""

    server: str
    """The version of the server."""
    store_format: int | None
    """None: there is no store in this schema; `COPYING`: a copy of one that is not verified."""


def look(url: str) -> Looked:
    """Look whether there is a store at a URL, and make nothing. It blocks.

    :raises LogUnavailable: the database cannot be reached.
    """
    place = DatabasePlace.parse(url)
    try:
        with translated(), psycopg.connect(place.url, autocommit=True) as connection:
            version = connection.info.parameter_status("server_version") or "unknown"
            table = sql.Identifier(place.schema, "store")
            query = "SELECT 1 WHERE to_regclass(%s) IS NOT NULL"
            if not connection.execute(query, [table.as_string(connection)]).fetchone():
                return Looked(version, None)
            made = connection.execute(sql.SQL("SELECT format FROM {}").format(table)).fetchone()
            return Looked(version, None if made is None else made[0])
    except (Lost, Busy) as error:
        raise away(error) from error


async def connect(place: DatabasePlace, *, calls: bool = False) -> Connection:
    """Return a connection; with `calls`, one for the procedures.

    :raises Lost: the database does not answer.
    :raises LogUnavailable: it refuses.
    """
    with translated():
        connection = await psycopg.AsyncConnection.connect(place.url, autocommit=True)
        try:
            await _configure(connection, place, calls=calls)
        except BaseException:
            await connection.close()
            raise
        return connection


async def _configure(connection: Connection, place: DatabasePlace, *, calls: bool = False) -> None:
    for kind in (Bytes, Ints, Records):
        connection.adapters.register_dumper(kind, _PackedDumper)
    settings = {
        "search_path": sql.Identifier(place.schema).as_string(connection),
        "default_transaction_isolation": "read committed",
        "lock_timeout": f"{LOCK_S}s",
        "client_min_messages": "error",
    }
    if calls:
        # The statements of the procedures look up rows by their keys, however empty a table was
        # when they were planned.
        settings |= {"plan_cache_mode": "force_generic_plan", "jit": "off"}
        settings |= dict.fromkeys(("enable_seqscan", "enable_hashjoin", "enable_mergejoin"), "off")
        settings["idle_in_transaction_session_timeout"] = f"{LOCK_S}s"
        if connection.info.server_version >= TRANSACTION_TIMEOUT_VERSION:
            settings["transaction_timeout"] = f"{TRANSACTION_S}s"
    query = ", ".join(["set_config(%s, %s, false)"] * len(settings))
    parts = [part for item in settings.items() for part in item]
    await run(connection, f"SELECT {query}", parts)  # which waits no longer than for any answer


@asynccontextmanager
async def connected(place: DatabasePlace, then: str = "try again") -> AsyncIterator[Connection]:
    """Hold a connection for a block.

    :raises LogUnavailable: the database cannot be reached, or not any more: with the next step.
    """
    connection = await patiently(lambda: connect(place), CONNECT_S)
    try:
        with reaching(then):
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def listening(
    place: DatabasePlace,
) -> AsyncIterator[Callable[[float], Awaitable[str | None]]]:
    """Listen to the channel of a store; yield a function that waits for the next message.

    It returns None if nothing was, in so many seconds.
    """
    connection = await connect(place)

    async def heard(timeout_s: float) -> str | None:
        with translated():
            async for notification in connection.notifies(timeout=timeout_s, stop_after=1):
                payload: str = notification.payload
                return payload
        return None

    try:
        channel = sql.Identifier(place.channel).as_string(connection)
        await run(connection, f"LISTEN {channel}")
        yield heard
    finally:
        await connection.close()


async def run(connection: Connection, query: str, values: Sequence[object] = ()) -> list[Row]:
    """Run one statement and return its rows.

    :raises Lost: the connection went, or there was no answer in time.
    """
    with in_time(connection):
        async with connection.cursor(binary=True) as cursor:
            await cursor.execute(query, values)
            return await cursor.fetchall() if cursor.description else []


async def copy_rows(
    connection: Connection, target: str, rows: Iterable[tuple[int | bytes | None, ...]]
) -> None:
    """Put rows into a table: `target` names it, and its columns.

    :raises Lost: the connection went, or there was no answer in time.
    """
    query = sql.SQL("COPY {} FROM STDIN").format(sql.SQL(target))
    with in_time(connection):
        async with connection.cursor() as cursor, cursor.copy(query) as copy:
            for row in rows:
                await copy.write_row(row)


@contextmanager
def in_time(connection: Connection) -> Iterator[None]:
    """Have a connection that does not answer in time count as lost. Raises as `translated` does.

    It is shut down under whoever waits for it: psycopg would wait for the end of what is cancelled.
    """
    late = asyncio.get_running_loop().call_later(ANSWER_S, _shut_down, connection)
    try:
        with translated():
            yield
    finally:
        late.cancel()


def _shut_down(connection: Connection) -> None:
    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)


@contextmanager
def translated() -> Iterator[None]:
    """Raise what psycopg raises as an error of the log, or as `Lost` or `Busy`."""
    try:
        yield
    except (said.LockNotAvailable, said.DeadlockDetected, said.SerializationFailure) as error:
        raise Busy(str(error)) from error
    except said.DiskFull as error:
        raise DiskFull(f"the database has no room: {error}") from error
    except (said.InvalidPassword, said.InvalidAuthorizationSpecification) as error:
        raise LogUnavailable(f"the database lets nobody in with this: {error}") from error
    except (said.InvalidCatalogName, said.InsufficientPrivilege) as error:
        raise LogUnavailable(f"the database cannot be used: {error}") from error
    except (said.UndefinedTable, said.InvalidSchemaName) as error:
        raise LogUnavailable(f"the store is not there any more: {error}") from error
    except PoolClosed as error:
        raise LogClosed("the log is closed: open it again") from error
    except (psycopg.OperationalError, psycopg.InterfaceError, said.ReadOnlySqlTransaction) as error:
        raise Lost(str(error)) from error
    except psycopg.Error as error:
        failed = StorageFailed(f"the database failed: {error}")
        raise (Lost(str(error)) if error.sqlstate in _ENDED else failed) from error
    except UnicodeError as error:  # of a host that is no name: nobody has been asked
        raise LogUnavailable(f"the database cannot be reached: no such host: {error}") from error


def away(error: Lost | Busy, then: str = "") -> LogUnavailable:
    """Return the error for a database that cannot be reached, with the next step."""
    hint = f". {_ENOUGH}" if any(sign in str(error) for sign in _TOO_MANY) else ""
    return LogUnavailable(f"the database cannot be reached: {error}{then and ': '}{then}{hint}")


@contextmanager
def reaching(then: str) -> Iterator[None]:
    """Raise an error with the next step if the connection is lost or a lock is held.

    :raises LogUnavailable: the connection is lost, or another session holds the lock.
    """
    try:
        yield
    except (Lost, Busy) as error:
        raise away(error, then) from error


def name_in_sql(connection: Connection, *parts: str) -> str:
    """Return a name of the database as it stands in a statement; of several parts, from the top."""
    return sql.Identifier(*parts).as_string(connection)


def value_in_sql(connection: Connection, value: str | bytes) -> str:
    """Return a value as it stands in a statement that takes no parameters."""
    return sql.Literal(value).as_string(connection)


class Database:
    """A pool of connections for reads, and for writes that may be repeated."""

    def __init__(self, place: DatabasePlace):
        self.place = place
        self._pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
            place.url,
            kwargs={"autocommit": True},
            configure=lambda connection: _configure(connection, place),
            min_size=1,
            max_size=READERS_MAX,
            reconnect_timeout=RETRY_S,  # else it tries at growing intervals, long after an outage
            open=False,
        )

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Keep the pool open.

        :raises LogUnavailable: the database gives it no connection.
        """
        await self._pool.open()
        try:
            try:
                await patiently(lambda: self._once("SELECT", ()), CONNECT_S)
            except LogUnavailable as error:  # the pool does not tell why
                raise LogUnavailable(f"{error}. {_ENOUGH}") from error
            yield
        finally:
            await self._pool.close()

    async def run(self, query: str, values: Sequence[object] = ()) -> list[Row]:
        """Run one statement that may be carried out twice, and return its rows.

        :raises LogUnavailable: the database cannot be reached.
        """
        return await patiently(lambda: self._once(query, values), PATIENCE_S)

    async def _once(self, query: str, values: Sequence[object]) -> list[Row]:
        with translated():
            try:
                async with self._pool.connection(timeout=READER_S) as connection:
                    return await run(connection, query, values)
            except PoolTimeout as error:
                raise Lost(str(error)) from error


async def patiently(attempt: Callable[[], Awaitable[T]], patience_s: float) -> T:
    """Return the result of a repeatable attempt; repeat it while the database is away.

    :raises LogUnavailable: it stays away.
    """
    deadline = asyncio.get_running_loop().time() + patience_s
    while True:
        try:
            return await attempt()
        except (Lost, Busy) as error:
            if asyncio.get_running_loop().time() > deadline:
                raise away(error) from error
        await asyncio.sleep(RETRY_S)


async def cancel_all(tasks: Iterable[asyncio.Task[object]]) -> None:
    """Cancel tasks until they have ended: psycopg may take that for the end of a query alone."""
    going = set(tasks)
    while going:
        for task in going:
            task.cancel()
        _, going = await asyncio.wait(going, timeout=RETRY_S)
