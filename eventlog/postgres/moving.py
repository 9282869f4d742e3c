"""The target of a move: a schema that is filled from another store, and is none until it is whole.

Each transaction puts some rows, and in the same commit how far the move has come. So one that is
killed goes on behind its last commit, and nothing is lost or put twice. Until the last commit the
format of the schema is `MOVING`, which nobody opens. A lock of the session keeps a second move out
for as long as the first one lives.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import msgspec

from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.records import Heads, Moved, VerifyReport
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.database import (
    CONNECT_S,
    Busy,
    Connection,
    Database,
    DatabasePlace,
    connect,
    patiently,
    reaching,
    run,
    translated,
)
from eventlog.postgres.preparing import FORMAT, MOVING, found_format, make_tables
from eventlog.postgres.verification import PgVerification

SETTING = b"move"

LOCK = "SELECT pg_advisory_lock(hashtextextended('move ' || current_schema(), 0))"
LATER = "SET synchronous_commit = off"  # what the server loses in a crash it loses from the end
NOW = "SET synchronous_commit = on"
LOAD = "SELECT value FROM setting WHERE name = %b"
SAVE = """
    INSERT INTO setting (name, value) VALUES (%b, %b)
    ON CONFLICT (name) DO UPDATE SET value = excluded.value
"""
PUT_TAIL = "UPDATE log_tail SET position = %b, revision = 1, names = %b, totals = %b"
TOTALS = "SELECT names, totals FROM log_tail"
OPEN = "UPDATE store SET format = %b"

AGAIN = "run the move again, it goes on where it was"


class MoveProgress(msgspec.Struct, frozen=True):
    """The progress of a move."""

    digest: str
    """Of the source's heads: of which store it is, and at which moment."""
    table: int = 0
    after: bytes = b""
    """The key of the last row that is here of that table of the source."""
    rows: tuple[int, ...] = ()
    """The number of rows of each table that are here."""
    done: Moved | None = None


class SqlStatement(NamedTuple):
    """Rows to be put."""

    query: str
    values: list[Any]


class MoveTarget:
    """A schema that is being filled. Open it with `target`."""

    def __init__(
        self, place: DatabasePlace, connection: Connection, reached: MoveProgress, *, is_new: bool
    ):
        self.reached = reached
        self.is_new = is_new
        self._place = place
        self._connection = connection

    async def put(self, statements: Sequence[SqlStatement], reached: MoveProgress) -> None:
        """Put rows, and how far that is, in one transaction."""
        values = [SETTING, msgspec.json.encode(reached)]
        with reaching(AGAIN), translated():
            async with self._connection.transaction():
                for query, columns in (*statements, SqlStatement(SAVE, values)):
                    await run(self._connection, query, columns)
        self.reached = reached

    async def verified(
        self, heads: Heads, totals: Mapping[str, int], progress: Progress
    ) -> VerifyReport:
        """Check every event and chain, the heads of the source, and the totals.

        :raises CorruptLog: it is not what the source has.
        """
        values = [heads.position, Bytes(name.encode() for name in totals), Ints(totals.values())]
        with reaching(AGAIN):
            await run(self._connection, PUT_TAIL, values)
        database = Database(self._place)
        async with database.opened():
            report = await PgVerification(database, progress, heads).run()
            [[names, counts]] = await database.run(TOTALS)
        same = dict(zip((name.decode() for name in names), counts, strict=True)) == dict(totals)
        if report.findings or report.streams != len(heads.streams) or not same:
            said = [finding.message for finding in report.findings[:1]] or ["streams or totals"]
            raise CorruptLog(
                f"what was moved is not what is in the source ({said[0]}): verify the source, drop "
                "the schema, and move again"
            )
        return report

    async def finish(self, done: Moved, settings: Mapping[str, bytes]) -> None:
        """Make it a store, with settings in it."""
        with reaching(AGAIN):
            await run(self._connection, NOW)
        statements = [
            SqlStatement(SAVE, [name.encode(), value]) for name, value in settings.items()
        ]
        statements.append(SqlStatement(OPEN, [FORMAT]))
        await self.put(statements, msgspec.structs.replace(self.reached, done=done))


@asynccontextmanager
async def target(url: str, digest: str) -> AsyncIterator[MoveTarget]:
    """Hold the target of a move: an empty schema, or one that an earlier run has begun to fill.

    `digest` is that of the source's heads.

    :raises LogUnavailable: the database cannot be used, or the schema has something else.
    """
    place = DatabasePlace.parse(url)
    connection = await patiently(lambda: connect(place), CONNECT_S)
    try:
        yield await _begun(place, connection, digest)
    finally:
        await connection.close()


async def _begun(place: DatabasePlace, connection: Connection, digest: str) -> MoveTarget:
    with reaching(AGAIN):
        found = await found_format(place, connection)
        if found is None:
            await make_tables(connection, place, b"", MOVING)
        elif found not in (MOVING, FORMAT):
            raise _is_there(place)
        await _locked(connection)
        await run(connection, LATER)
        rows = await run(connection, LOAD, [SETTING])
        is_moving = await found_format(place, connection) == MOVING
    reached = msgspec.json.decode(rows[0][0], type=MoveProgress) if rows else MoveProgress(digest)
    if not is_moving and (reached.digest != digest or reached.done is None):
        raise _is_there(place)
    if reached.digest != digest:
        raise LogUnavailable(
            f"schema {place.schema!r} has a part of another store, or this one was written to "
            "since: drop the schema, or move to another one"
        )
    return MoveTarget(place, connection, reached, is_new=found is None)


def _is_there(place: DatabasePlace) -> LogUnavailable:
    return LogUnavailable(
        f"there is a store in schema {place.schema!r}: name another one with ?schema="
    )


async def _locked(connection: Connection) -> None:
    try:
        await run(connection, LOCK)
    except Busy:
        raise LogUnavailable("another move into this schema is under way: wait for it") from None
