"""From a position of the log, or a time, to the version of one user's stream.

A position belongs to whoever wrote the event there; what a user's stream had come to by then is its
last event before or at it. Positions grow with versions, so a search by halves finds it in twenty
reads. Times do too, unless the clock was set back: then a time may stand for several places, of
which one is taken, and only a position says exactly which is meant.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeAlias

from eventlog import EventStore, Recorded
from eventlog.records import to_datetime
from memory_actors.audit_records import Moment
from memory_actors.errors import InvalidInputError
from memory_actors.validation import check_count, time_us

AsOf: TypeAlias = int | datetime | str | None
"""A position of the log, a time (ISO 8601 will do), or None for now."""


async def moment(log: EventStore, stream: str, as_of: AsOf, now_us: int) -> Moment:
    """Return the moment that is meant; of a position, the time its event was recorded.

    :raises InvalidInputError: the log has no such position, or it is no time.
    """
    await log.flush()  # working memory is acknowledged before it is in the log
    head = (await log.head(stream)).version
    if as_of is None:
        return await _moment(log, stream, head, now_us)
    if isinstance(as_of, int):
        position, at_us = as_of, await _recorded_us(log, check_count(as_of, "as_of"))
        version = await _last(log, stream, head, lambda event: event.position <= position)
        return await _moment(log, stream, version, at_us)
    time = time_us(as_of, "as_of")
    assert time is not None
    version = await _last(log, stream, head, lambda event: event.recorded_at_us <= time)
    return await _moment(log, stream, version, time)


async def _recorded_us(log: EventStore, position: int) -> int:
    event = await log.read_event(position, dropped="mark")
    if event is None and position:
        raise InvalidInputError(f"the log has no event {position:,} yet: name an earlier position")
    return 0 if event is None else event.recorded_at_us


async def _last(
    log: EventStore, stream: str, head: int, passes: Callable[[Recorded[Any]], bool]
) -> int:
    """Return the last version that passes, 0 if none does."""
    passed, until = 0, head + 1
    while until - passed > 1:
        middle = (passed + until) // 2
        (event,) = await log.read_versions(stream, [middle], dropped="mark")
        passed, until = (middle, until) if passes(event) else (passed, middle)
    return passed


async def _moment(log: EventStore, stream: str, version: int, at_us: int) -> Moment:
    position = 0
    if version:
        (event,) = await log.read_versions(stream, [version], dropped="mark")
        position = event.position
    return Moment(position=position, version=version, at=to_datetime(at_us))
