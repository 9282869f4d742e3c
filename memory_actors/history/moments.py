"""From a position of the log, or a time, to the version of one user's stream.

A position belongs to whoever wrote the event there; what a user's stream had come to by then is its
last event before or at it. Positions grow with versions, so a search by halves finds it in twenty
reads. Times do too, unless the clock was set back: then a time may stand for several places, of
which one is taken, and only a position says exactly which is meant.

Of a user who was erased and came back, what lies before their return is no moment: what there was
then is gone, and "nothing" would be a wrong answer. Before their first event of all it is the right
one, as of everybody.
"""

from datetime import date
from typing import TypeAlias

from eventlog import EventStore, StreamHead
from eventlog.core.records import to_datetime
from eventlog.core.subscription import last_version
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.reports import Moment
from memory_actors.base.streams import user_of
from memory_actors.base.validation import check_count, time_us

AsOf: TypeAlias = int | date | str | None
"""A position of the log, a time (ISO 8601 will do), or None for now."""


async def moment(
    log: EventStore, stream: str, head: StreamHead, as_of: AsOf, now_us: int
) -> Moment:
    """Return the moment that is meant; of a position, the time its event was recorded.

    `head` is the end of the stream, of a user who is known.

    :raises InvalidInputError: the log has no such position, or it is no time.
    :raises NotFoundError: what there was then is erased.
    """
    then = await _meant(log, stream, head.version, as_of, now_us)
    if 0 < then.version <= head.erased_version:
        raise NotFoundError(
            f"no memory of user {user_of(stream)!r} is left of {then.at:%Y-%m-%d %H:%M} UTC: what "
            "there was then is erased; name a moment since they came back"
        )
    return then


async def _meant(log: EventStore, stream: str, head: int, as_of: AsOf, now_us: int) -> Moment:
    if as_of is None:
        return await _moment(log, stream, head, now_us)
    if isinstance(as_of, float):
        raise InvalidInputError(
            f"as_of {as_of!r:.80} is neither a position, which is a whole number, nor a time: a "
            "datetime, a date or ISO 8601"
        )
    if isinstance(as_of, int):
        position, at_us = as_of, await _recorded_us(log, check_count(as_of, "as_of"))
        version = await last_version(log, stream, head, lambda event: event.position <= position)
        return await _moment(log, stream, version, at_us)
    time = time_us(as_of, "as_of")
    assert time is not None
    version = await last_version(log, stream, head, lambda event: event.recorded_at_us <= time)
    return await _moment(log, stream, version, time)


async def _recorded_us(log: EventStore, position: int) -> int:
    event = await log.read_event(position, dropped="mark")
    if event is None and position:
        raise InvalidInputError(f"the log has no event {position:,} yet: name an earlier position")
    return 0 if event is None else event.recorded_at_us


async def _moment(log: EventStore, stream: str, version: int, at_us: int) -> Moment:
    position = 0
    if version:
        (event,) = await log.read_versions(stream, [version], dropped="mark")
        position = event.position
    return Moment(position=position, version=version, at=to_datetime(at_us))
