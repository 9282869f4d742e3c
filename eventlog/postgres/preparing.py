"""The tables of a store: found, or made where there are none."""

from collections.abc import Callable
from importlib.resources import files

from eventlog.core.errors import LogUnavailable, UnknownEvent
from eventlog.postgres.database import (
    Connection,
    DatabasePlace,
    name_in_sql,
    reaching,
    run,
    run_script,
    value_in_sql,
)

FORMAT = 1
MOVING = 1_000_000  # of a schema that a move has not filled yet: no version opens it
SERVER_VERSION_MIN = 160_000

READABLE = "SELECT name FROM stream WHERE version > erased_version AND name IS NOT NULL"
BEFORE = """
    SELECT pg_advisory_xact_lock(hashtextextended({name}, 0));
    CREATE SCHEMA IF NOT EXISTS {schema};
"""
AFTER = """
    INSERT INTO store (format, keys_identity) VALUES ({made_format}, {identity})
    ON CONFLICT (only_row) DO NOTHING;
"""


async def prepare(
    connection: Connection, place: DatabasePlace, make_identity: Callable[[], bytes]
) -> tuple[bytes, list[str]]:
    """Make the tables that are not there. If two processes start at once, one makes them.

    Return the identity of the keys that the store has, and if it has keys, the names of the streams
    that have something to read.

    :raises UnknownEvent: another version made them.
    :raises LogUnavailable: the database is too old, or lets us make none; or it is away, or others
        hold its locks for too long.
    """
    with reaching("try again"):
        found = await _find(place, connection)
        if found is None:
            await make_tables(connection, place, make_identity())
            found = await _find(place, connection)
        assert found is not None
        names = await run(connection, READABLE) if found else []
    return found, [name.decode() for [name] in names]


async def _find(place: DatabasePlace, connection: Connection) -> bytes | None:
    """Return the identity of the keys of the store, None if there is no store.

    :raises UnknownEvent: another version made it.
    :raises LogUnavailable: a move has not filled it yet, or the database is too old.
    """
    made_format = await found_format(place, connection)
    if made_format is None:
        return None
    if made_format == MOVING:
        raise LogUnavailable(
            f"a store is being moved to schema {place.schema!r}, and is not whole: run "
            "`memory-actors move` again, or drop the schema"
        )
    if made_format != FORMAT:
        raise UnknownEvent(
            f"schema {place.schema!r} has format {made_format}, and this version reads {FORMAT}: "
            "open it with the version that made it"
        )
    [[identity]] = await run(connection, "SELECT keys_identity FROM store")
    return bytes(identity)


async def found_format(place: DatabasePlace, connection: Connection) -> int | None:
    """Return the format of the store in a schema, None if there is none.

    :raises LogUnavailable: the database is too old.
    """
    if connection.info.server_version < SERVER_VERSION_MIN:
        raise LogUnavailable("the database is older than PostgreSQL 16: upgrade it")
    table = name_in_sql(connection, place.schema, "store")
    [[there]] = await run(connection, "SELECT to_regclass(%s) IS NOT NULL", [table])
    rows = await run(connection, "SELECT format FROM store") if there else []
    return rows[0][0] if rows else None


async def make_tables(
    connection: Connection, place: DatabasePlace, identity: bytes, made_format: int = FORMAT
) -> None:
    """Create missing tables in one transaction, under a lock of its own.

    A move makes them with the format `MOVING`. A store that is there stays as it is.
    """
    before = BEFORE.format(
        name=value_in_sql(connection, f"eventlog {place.schema}"),
        schema=name_in_sql(connection, place.schema),
    )
    after = AFTER.format(made_format=made_format, identity=value_in_sql(connection, identity))
    tables = files("eventlog.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    await run_script(connection, before + tables + after)
