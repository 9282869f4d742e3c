"""Reading events: one statement a read, from rows to what callers get, checked on the way.

A row has the header of a frame and its payload, which makes the frame whole, archived or not: the
statement fetches a payload from where it is. A payload that is gone has a time at which it went;
what is left of the frame then has no CRC, and only its chain is checked, by `verify`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from eventlog.core import frame
from eventlog.core.errors import CorruptLog, KeyGone, UnknownEvent
from eventlog.core.reading import FrameReading, about, without_payload
from eventlog.core.records import Dropped, OnDropped, Recorded
from eventlog.postgres.database import Row

# The columns of an event, and those of its stream. An archived payload is looked for only where
# the row has none and says of none that it is gone.
EVENT = """
    e.position, e.sid, e.version, e.frame, e.gone_at,
    CASE WHEN e.payload IS NULL AND e.gone_at IS NULL
        THEN (SELECT payload FROM event_archive AS a WHERE a.sid = e.sid AND a.version = e.version)
        ELSE e.payload END AS payload
"""
OF_STREAM = "s.name, s.erased_version, s.erased_at"
READ_STREAM = f"""
    SELECT s.version, e.*, {OF_STREAM}
    FROM stream AS s
    LEFT JOIN LATERAL (
        SELECT {EVENT} FROM event AS e
        WHERE e.sid = s.sid AND e.version > %b AND e.version <= %b
        ORDER BY e.version
    ) AS e ON true
    WHERE s.sid = %b
"""  # noqa: S608 - of constants
READ_VERSIONS = f"""
    SELECT {EVENT}, {OF_STREAM} FROM event AS e JOIN stream AS s USING (sid)
    WHERE e.sid = %b AND e.version = ANY (%b)
"""  # noqa: S608 - of constants
READ_CHAIN = "SELECT position, frame FROM event WHERE sid = %b AND version = %b"
READ_ALL = f"""
    SELECT {EVENT}, {OF_STREAM} FROM event AS e JOIN stream AS s USING (sid)
    WHERE e.position > %b AND e.position <= %b ORDER BY e.position
"""  # noqa: S608 - of constants
# With the event there and the one behind it, which prove that it is this place: a header that is
# damaged leads a search by halves to its own event, and reading that finds the damage.
LOCATE = f"""
    SELECT v.version, {EVENT}, {OF_STREAM}
    FROM version_at(%b, %b, %b) AS v (version)
    LEFT JOIN stream AS s ON s.sid = %b
    LEFT JOIN event AS e ON e.sid = s.sid AND e.version IN (v.version, v.version + 1)
"""  # noqa: S608 - of constants


class RowReading(FrameReading):
    """Makes events of rows."""

    def stream(
        self, name: str, after: int, limit: int, rows: Sequence[Row], dropped: OnDropped
    ) -> list[Recorded[Any]]:
        """Return the events that `READ_STREAM` found.

        :raises CorruptLog: one is missing.
        """
        found = [row[1:] for row in rows if row[1] is not None]
        head = rows[0][0] if rows else 0
        expected = range(after + 1, min(head, after + limit) + 1)
        if [row[2] for row in found] != list(expected):
            raise CorruptLog(f"events of stream {name!r} are missing: restore a backup")
        return [self._recorded(row, name, dropped) for row in found]

    def versions(
        self, name: str, versions: Sequence[int], rows: Iterable[Row], dropped: OnDropped
    ) -> list[Recorded[Any]]:
        """Return the events that `READ_VERSIONS` found, in the order asked for.

        :raises CorruptLog: one is missing.
        """
        found = {row[2]: row for row in rows}
        missing = [version for version in versions if version not in found]
        if missing:
            raise CorruptLog(f"event {missing[0]} of stream {name!r} is missing: restore a backup")
        return [self._recorded(found[version], name, dropped) for version in versions]

    def located(self, name: str, rows: Sequence[Row], until: int, *, is_timed: bool) -> int:
        """Return the version that `LOCATE` found: of the last event by a position or a time.

        :raises CorruptLog: an event is missing there, or does not prove it.
        """
        version: int | None = rows[0][0]
        found = [self._recorded(row[1:], name, "mark") for row in rows if row[1] is not None]
        passed = {
            one.version: (one.recorded_at_us if is_timed else one.position) <= until
            for one in found
        }
        if version is None or any(passed[one] != (one <= version) for one in passed):
            raise CorruptLog(f"stream {name!r} is damaged or has gaps there: restore a backup")
        return version

    def all(self, after: int, rows: Iterable[Row], dropped: OnDropped) -> Iterator[Recorded[Any]]:
        """Yield the events that `READ_ALL` found.

        :raises CorruptLog: one is missing.
        """
        for position, row in enumerate(rows, after + 1):
            if row[0] != position:
                raise CorruptLog(f"event {position} is missing: restore a backup")
            name = row[6]
            try:
                yield self._recorded(row, None if name is None else name.decode(), dropped)
            except KeyGone:
                if dropped != "mark":
                    raise
                taken = frame.read(row[2], row[3] + row[5])
                gone = Dropped(taken[2], key_gone=True)
                yield without_payload(row[0], taken, name.decode(), gone, dropped)

    def _recorded(self, row: Row, name: str | None, dropped: OnDropped) -> Recorded[Any]:
        position, sid, version, header, gone_at, payload, stored_name, erased_version, erased_at = (
            row
        )
        if version <= erased_version or gone_at is not None:
            at_us = erased_at if gone_at is None else gone_at
            taken = frame.read(version, frame.erased(version, header, at_us))
            gone = Dropped(at_us, erased=version <= erased_version)
            return without_payload(position, taken, name, gone, dropped)
        if name is None or stored_name is None or stored_name.decode() != name:
            raise CorruptLog(f"event {position} has a stream of another name: restore a backup")
        if payload is None:
            raise CorruptLog(f"the payload of event {position} is missing: restore a backup")
        try:
            taken = frame.read(version, header + payload)
            if taken[0] != sid or taken[1] != version:
                raise CorruptLog("it is the frame of another event: restore a backup")
        except (CorruptLog, UnknownEvent) as error:
            raise about(error, position, name) from error
        return self.recorded(position, taken, name, taken[7])
