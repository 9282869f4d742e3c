"""The rows of a stream that moves: how they are read at the old place, and put at the new one.

Whatever changes the new place says which mover sends it and which step of the copying it is, and is
void if another mover has taken over or a later step of the same stream was done. So it does no harm
when it is sent twice, nor when it comes after its time.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

SIDS = "SELECT sid FROM stream WHERE shard = %b AND version > 0 ORDER BY sid"
HEADS = """
    SELECT s.sid, s.name, s.version, s.epoch, s.stored_bytes, s.chain, s.recorded_at,
        s.erased_version, s.erased_at, a.archived, a.archived_at,
        (SELECT coalesce(max(n.version), 0) FROM snapshot AS n WHERE n.sid = s.sid),
        (SELECT count(*) FROM derived AS d WHERE d.sid = s.sid)
    FROM stream AS s, LATERAL (
        SELECT count(*) AS archived, coalesce(max(e.archived_at), 0) AS archived_at
        FROM event_archive AS e WHERE e.sid = s.sid
    ) AS a
    WHERE s.sid = ANY (%b) AND s.version > 0
"""
COPIED = "SELECT sid, mark, names, totals, step FROM arriving WHERE shard = %b"
IS_MINE = "SELECT true FROM shard WHERE shard = %b AND state = 'arriving' AND mover = %b"
RECEIVE = "CALL receive_events(%b, %b, %b, %b, %b, %b, %b, %b, %b, %b, NULL)"
EVENTS = """
    SELECT version, frame, payload, gone_at FROM event
    WHERE sid = %b AND version > %b AND version <= %b ORDER BY version LIMIT %b::bigint
"""
CHAIN_AT = "SELECT frame FROM event WHERE sid = %b AND version = %b"
# What changes the new place is done only while the shard arrives by this mover, the stream is not
# erased any further, and no later step was done: the locks of the rows order that with each.
MINE = f"WITH mine AS ({IS_MINE} FOR SHARE)"
WHERE_TAKEN = "sid = %b AND erased_version = %b AND step <= %b AND EXISTS (SELECT FROM mine)"
TAKEN = f"{MINE}, ok AS (UPDATE arriving SET step = %b WHERE {WHERE_TAKEN} RETURNING true)"  # noqa: S608 - of constants
KEEP = f"""
    {MINE} UPDATE arriving SET step = %b, mark = %b, name = %b, epoch = %b, stored_bytes = %b,
        recorded_at = %b, erased_at = %b, names = %b, totals = %b
    WHERE {WHERE_TAKEN} RETURNING true
"""  # noqa: S608 - of constants
COUNTS = """
    SELECT (SELECT count(*) FROM event WHERE sid = %b AND version > %b AND version <= %b),
        (SELECT count(*) FROM event_archive WHERE sid = %b AND version > %b AND version <= %b),
        (SELECT count(*) FROM event_key WHERE sid = %b AND version > %b AND version <= %b),
        (SELECT count(*) FROM request
            WHERE sid = %b AND last_version > %b AND last_version <= %b),
        (SELECT count(*) FROM snapshot WHERE sid = %b AND version > %b AND version <= %b),
        (SELECT count(*) FROM derived WHERE sid = %b)
"""
COUNTS_FIXED = 4  # of versions that are there these change only with the mark that they are under


class CopiedTable(NamedTuple):
    """A table beside the events: how its rows are read in order, and put."""

    read: str
    put: str
    kinds: str
    """Of the columns: i for an integer, b for bytes."""
    clear: str
    first: Sequence[Any]
    """The values before the first row: as many as the order has columns."""


def _table(
    name: str, columns: str, kinds: str, order: str, version: str, first: Any
) -> CopiedTable:
    """Return how a table is copied: its columns but for that of the stream, which is the first."""
    marks = ", ".join({"i": "%b::bigint", "b": "%b::bytea"}[kinds[at]] for at in range(len(first)))
    arrays = ", ".join(["%b"] * len(kinds))
    return CopiedTable(
        f"""
            SELECT {columns} FROM {name}
            WHERE sid = %b AND {version} > %b AND {version} <= %b AND ({order}) > ({marks})
            ORDER BY {order} LIMIT %b::bigint
        """,  # noqa: S608 - of constants
        f"""
            {TAKEN} INSERT INTO {name} (sid, {columns})
            SELECT %b, {columns} FROM unnest({arrays}) AS t ({columns})
            WHERE EXISTS (SELECT FROM ok) ON CONFLICT (sid, {order}) DO NOTHING
        """,  # noqa: S608 - of constants
        kinds,
        f"{TAKEN} DELETE FROM {name} WHERE sid = %b AND EXISTS (SELECT FROM ok)",  # noqa: S608 - of constants
        first,
    )


ARCHIVE = _table("event_archive", "version, payload, archived_at", "ibi", "version", "version", [0])
KEYS = _table("event_key", "key, version", "bi", "key, version", "version", [b"", 0])
REQUESTS = _table(
    "request", "key, digest, first_version, last_version", "bbii", "key", "last_version", [b""]
)
SNAPSHOTS = _table("snapshot", "version, fingerprint, data", "ibb", "version", "version", [0])
PIECES = "SELECT name, decode(md5(piece), 'hex') FROM derived WHERE sid = %b"
READ_PIECES = "SELECT name, piece FROM derived WHERE sid = %b AND name = ANY (%b)"
PUT_PIECES = f"""
    {TAKEN} INSERT INTO derived (sid, name, piece)
    SELECT %b, name, piece FROM unnest(%b, %b) AS t (name, piece) WHERE EXISTS (SELECT FROM ok)
    ON CONFLICT (sid, name) DO UPDATE SET piece = excluded.piece
"""  # noqa: S608 - of constants
DROP_PIECES = f"""
    {TAKEN} DELETE FROM derived WHERE sid = %b AND name = ANY (%b) AND EXISTS (SELECT FROM ok)
"""  # noqa: S608 - of constants
