"""The tables of a store: opens or makes them, and reads and writes all but the events.

It stores snapshots, checkpoints, entries, derived data and settings.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files

from eventlog.core import frame, requests
from eventlog.core.errors import CorruptLog, LogUnavailable, UnknownEvent
from eventlog.core.keys import Keys
from eventlog.core.records import SNAPSHOTS_KEPT, Checkpoint, Snapshot
from eventlog.core.rows import key_id, seal, snapshot_place, unseal
from eventlog.core.rules import cipher_to_read
from eventlog.postgres import database
from eventlog.postgres.arrays import Bytes
from eventlog.postgres.plan import U64, Believed
from eventlog.postgres.writer import STREAMS, PgWriter

FORMAT = 1
COPYING = 1_000_000  # of a schema whose copy is not verified yet: no version opens it
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

PIECES_MAX = 4096  # read at once: 4 MB of embeddings
PIECES_BYTES_MAX = 16 << 20  # read at once, but for the last of them

SAVE_SNAPSHOT = "CALL save_snapshot(%b, %b, %b, %b, %b)"
LOAD_SNAPSHOT = """
    SELECT n.version, n.data FROM snapshot AS n JOIN stream AS s USING (sid)
    WHERE n.sid = %b AND n.fingerprint = %b AND n.version > s.erased_version
        AND n.version <= least(s.version, %b) ORDER BY n.version DESC
"""
SAVE_CHECKPOINT = """
    WITH position AS (
        INSERT INTO checkpoint (name, position) VALUES (%b, %b)
        ON CONFLICT (name) DO UPDATE SET position = excluded.position
    ), gone AS (
        DELETE FROM entry WHERE name = %b AND key = ANY (%b)
    )
    INSERT INTO entry (name, key, value) SELECT %b, key, value FROM unnest(%b, %b) AS e (key, value)
    ON CONFLICT (name, key) DO UPDATE SET value = excluded.value
"""
LOAD_CHECKPOINT = "SELECT position FROM checkpoint WHERE name = %b"
LOAD_ENTRY = "SELECT value FROM entry WHERE name = %b AND key = %b"
SAVE_DERIVED = "CALL save_derived(%b, %b, %b, %b, NULL)"
LOAD_DERIVED, FIND_DERIVED = (
    f"""
        SELECT name, piece FROM (
            SELECT name, piece, sum(size) OVER (ORDER BY name) - size AS before
            FROM (
                SELECT d.name, d.piece, octet_length(d.piece) AS size
                FROM derived AS d JOIN stream AS s USING (sid)
                WHERE d.sid = %b AND d.name > %b {named} AND s.version > s.erased_version
                ORDER BY d.name LIMIT {PIECES_MAX}
            ) AS next
        ) AS page WHERE before < {PIECES_BYTES_MAX}
    """  # noqa: S608 - of constants
    for named in ("", "AND d.name = ANY (%b)")
)
LOAD_SETTING = "SELECT value FROM setting WHERE name = %b"
LOAD_SETTINGS = "SELECT name, value FROM setting WHERE name = ANY (%b)"
NEW_SETTING = """
    INSERT INTO setting (name, value) VALUES (%b, %b) ON CONFLICT (name)
    DO UPDATE SET value = excluded.value WHERE setting.value = excluded.value RETURNING true
"""
CHANGE_SETTING = (
    "UPDATE setting SET value = %b WHERE name = %b AND value IN (%b, %b) RETURNING true"
)


async def prepare(
    connection: database.Connection,
    place: database.DatabasePlace,
    make_identity: Callable[[], bytes],
) -> tuple[bytes, list[str]]:
    """Make the tables that are not there. If two processes start at once, one makes them.

    Return the identity of the keys that the store has, and if it has keys, the names of the streams
    that have something to read.

    :raises UnknownEvent: another version made them.
    :raises LogUnavailable: the database is too old, or lets us make none; or it is away, or others
        hold its locks for too long.
    """
    with database.reaching("try again"):
        made_format = await found_format(place, connection)
        if made_format is None:
            await make_tables(connection, place, make_identity())
            made_format = await found_format(place, connection)
        if made_format == COPYING:
            raise LogUnavailable(
                f"a store is being copied to schema {place.schema!r}, and is not whole: run "
                "`memory-actors copy` again, or drop the schema"
            )
        if made_format != FORMAT:
            raise UnknownEvent(
                f"schema {place.schema!r} has format {made_format}, and this version reads "
                f"{FORMAT}: open it with the version that made it"
            )
        [[identity]] = await database.run(connection, "SELECT keys_identity FROM store")
        names = await database.run(connection, READABLE) if identity else []
    return bytes(identity), [name.decode() for [name] in names]


async def found_format(
    place: database.DatabasePlace, connection: database.Connection
) -> int | None:
    """Return the format of the store in a schema, None if there is none.

    :raises LogUnavailable: the database is too old.
    """
    if connection.info.server_version < SERVER_VERSION_MIN:
        raise LogUnavailable("the database is older than PostgreSQL 16: upgrade it")
    table = database.name_in_sql(connection, place.schema, "store")
    [[there]] = await database.run(connection, "SELECT to_regclass(%s) IS NOT NULL", [table])
    rows = await database.run(connection, "SELECT format FROM store") if there else []
    return rows[0][0] if rows else None


async def make_tables(
    connection: database.Connection,
    place: database.DatabasePlace,
    identity: bytes,
    made_format: int = FORMAT,
) -> None:
    """Create missing tables in one transaction, under a lock of its own.

    A copy makes them with the format `COPYING`. A store that is there stays as it is.
    """
    before = BEFORE.format(
        name=database.value_in_sql(connection, f"eventlog {place.schema}"),
        schema=database.name_in_sql(connection, place.schema),
    )
    after = AFTER.format(
        made_format=made_format, identity=database.value_in_sql(connection, identity)
    )
    tables = files("eventlog.postgres").joinpath("schema.sql").read_text(encoding="utf-8")
    with database.in_time(connection):
        await connection.execute(before + tables + after)  # one message is one transaction


# --- beside the events


async def settings_at(url: str, *names: bytes) -> list[bytes | None]:
    """Return the values under some names in the store at a URL, None for none; make nothing.

    :raises LogUnavailable: the database cannot be reached.
    """
    place, found = database.DatabasePlace.parse(url), dict[bytes, bytes]()
    async with database.connected(place) as connection:
        if await found_format(place, connection) == FORMAT:  # else opening the store says it
            found |= await database.run(connection, LOAD_SETTINGS, [Bytes(names)])
    return [found.get(name) for name in names]


class SideTables:
    """The part of a store that is about what lies beside the events."""

    _database: database.Database
    _keys: Keys | None
    _writer: PgWriter

    async def _believed(self, sid: bytes) -> Believed:
        rows = await self._database.run(STREAMS, [Bytes([sid])])
        return Believed(*rows[0][1:]) if rows else Believed.nowhere(sid)

    async def save_snapshot(self, stream: str, snapshot: Snapshot, fingerprint: str) -> None:
        """Keep a snapshot and the newest one before it; not one ahead of its stream."""
        requests.check_snapshot(stream, snapshot, fingerprint)
        if snapshot.version > requests.I64_MAX:
            return
        sid, data = frame.stream_id(stream), snapshot.data
        if self._keys is not None:
            if (await self._believed(sid)).is_empty:
                return
            at = snapshot_place(sid, snapshot.version, fingerprint)
            data = self._keys.cipher(stream).encrypt(data, at)
        version = snapshot.version
        values = [sid, version, fingerprint.encode(), seal(data), SNAPSHOTS_KEPT]
        await self._database.run(SAVE_SNAPSHOT, values)

    async def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Store a subscriber's position and entries in one transaction."""
        requests.check_checkpoint(checkpoint)
        name, writes = key_id(checkpoint.name), checkpoint.writes
        gone = Bytes(key for key, value in writes.items() if value is None)
        kept = {key: value for key, value in writes.items() if value is not None}
        values = [name, U64.pack(checkpoint.position), name, gone]
        await self._database.run(
            SAVE_CHECKPOINT, [*values, name, Bytes(kept), Bytes(kept.values())]
        )

    async def save_derived(
        self, stream: str, pieces: Mapping[bytes, bytes | None], *, epoch: int
    ) -> bool:
        """Keep pieces beside a stream. See `DerivingStore`."""
        requests.check_derived(stream, pieces, epoch)
        self._writer.check_open()
        values = [frame.stream_id(stream), epoch, Bytes(pieces), Bytes(pieces.values())]
        [[kept]] = await self._database.run(SAVE_DERIVED, values)
        return bool(kept)

    async def save_setting(self, name: str, value: bytes, *, expected: bytes | None) -> bool:
        """Save a value over the expected one. See `SettingStore`."""
        requests.check_setting(name, value)
        self._writer.check_open()
        if expected is None:
            return bool(await self._database.run(NEW_SETTING, [name.encode(), value]))
        values = [value, name.encode(), expected, value]
        return bool(await self._database.run(CHANGE_SETTING, values))

    async def load_snapshot(
        self, stream: str, fingerprint: str, *, until: int | None = None
    ) -> Snapshot | None:
        """Return the newest snapshot of this schema, not beyond `until`, if any."""
        requests.check_stream_name(stream)
        requests.check_text("snapshot's fingerprint", fingerprint)
        sid = frame.stream_id(stream)
        until = requests.I64_MAX if until is None else max(-1, min(until, requests.I64_MAX))
        values = [sid, fingerprint.encode(), until]
        for version, sealed in await self._database.run(LOAD_SNAPSHOT, values):
            try:
                data = unseal(sealed, "a snapshot")
                cipher = cipher_to_read(self._keys, stream)
                if cipher is not None:
                    data = cipher.decrypt(data, snapshot_place(sid, version, fingerprint))
            except CorruptLog:
                continue  # the one before it, or the whole stream, is read instead
            return Snapshot(version, data)
        return None

    async def load_derived(
        self, stream: str, names: Sequence[bytes] | None = None
    ) -> dict[bytes, bytes]:
        """Return pieces that are kept beside a stream, read in pages."""
        requests.check_stream_name(stream)
        sid = frame.stream_id(stream)
        if names is None:
            return await self._pages(LOAD_DERIVED, sid)
        sought, found = sorted(set(names)), dict[bytes, bytes]()
        for start in range(0, len(sought), PIECES_MAX):
            some = Bytes(sought[start : start + PIECES_MAX])
            found |= await self._pages(FIND_DERIVED, sid, some)
        return found

    async def _pages(self, query: str, sid: bytes, *named: Bytes) -> dict[bytes, bytes]:
        after, found = b"", dict[bytes, bytes]()
        while page := await self._database.run(query, [sid, after, *named]):
            found |= page
            after = page[-1][0]
            size = sum(len(piece) for _, piece in page)
            if len(page) < PIECES_MAX and size < PIECES_BYTES_MAX:
                break
        return found

    async def load_checkpoint(self, name: str) -> int:
        """Return a subscriber's position, 0 if it has none."""
        requests.check_text("checkpoint's name", name)
        rows = await self._database.run(LOAD_CHECKPOINT, [key_id(name)])
        return U64.unpack(rows[0][0])[0] if rows else 0

    async def load_entry(self, name: str, key: bytes) -> bytes | None:
        """Return one entry that a subscriber stored."""
        requests.check_entry(name, key)
        rows = await self._database.run(LOAD_ENTRY, [key_id(name), key])
        return rows[0][0] if rows else None

    async def load_setting(self, name: str) -> bytes | None:
        """Return the value under a name."""
        requests.check_setting(name)
        rows = await self._database.run(LOAD_SETTING, [name.encode()])
        return rows[0][0] if rows else None
