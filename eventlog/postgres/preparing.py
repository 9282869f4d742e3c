"""The tables of a store: found, made where there are none, or brought to the format of today."""

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

# 1 had no table of what is derived, 2 none of settings, 3 none of shards, 4 neither movers nor
# eras; 5 had an array for each column of a batch.
FORMAT = 6
SHARDS_FORMAT = 4  # the first that may be one of several
MOVING = 1_000_000  # of a schema that a move has not filled yet: no version opens it
SERVER_VERSION_MIN = 160_000

READABLE = "SELECT name FROM stream WHERE version > erased_version AND name IS NOT NULL"
BEFORE = """
    SELECT pg_advisory_xact_lock(hashtextextended({name}, 0));
    CREATE SCHEMA IF NOT EXISTS {schema};
"""
AFTER = """
    INSERT INTO store (format, keys_identity) VALUES ({made_format}, {identity})
    ON CONFLICT (only_row) DO UPDATE SET format = excluded.format
    WHERE store.format < excluded.format AND excluded.format <> {moving};
"""


async def prepare(
    connection: Connection, place: DatabasePlace, make_identity: Callable[[], bytes]
) -> tuple[bytes, list[str]]:
    """Make the tables that are not there. Of two who come at once, one makes them.

    Return the identity of the keys that the store has, and if it has keys, the names of the streams
    that have something to read.

    :raises UnknownEvent: a later version made them.
    :raises LogUnavailable: the database is too old, or lets us make none; or it is away, or others
        hold its locks for too long.
    """
    with reaching("try again"):
        found = await _find(place, connection)
        if found is None:
            await make_tables(connection, place, make_identity())
        elif found[0] < FORMAT:
            await make_tables(connection, place, found[1])
        found = await _find(place, connection)
        assert found is not None
        names = await run(connection, READABLE) if found[1] else []
    return found[1], [name.decode() for [name] in names]


async def _find(place: DatabasePlace, connection: Connection) -> tuple[int, bytes] | None:
    """Return the format of the store and the identity of its keys, None if there is no store.

    :raises UnknownEvent: a later version made it.
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
    if made_format > FORMAT:
        raise UnknownEvent(f"schema {place.schema!r} has format {made_format}: upgrade")
    [[identity]] = await run(connection, "SELECT keys_identity FROM store")
    return made_format, bytes(identity)


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
    """Make what is missing in one transaction, behind a lock of its own.

    An older store is brought to this format so: the others who have it open go on. For a move, of
    which the format is `MOVING`, a store that is there stays as it is.
    """
    before = BEFORE.format(
        name=value_in_sql(connection, f"eventlog {place.schema}"),
        schema=name_in_sql(connection, place.schema),
    )
    after = AFTER.format(
        made_format=made_format, identity=value_in_sql(connection, identity), moving=MOVING
    )
    tables = files("eventlog.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    await run_script(connection, before + tables + after)
