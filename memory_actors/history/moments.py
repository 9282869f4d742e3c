"""A moment of the past: which version of a user's stream is meant, and the user's state at it.

A position belongs to whoever wrote the event there; a user's stream had come by then to its last
event before or at it. Positions grow with versions, so a search by halves finds it in twenty reads.
Times do too, unless the clock was set back: then a time may stand for several places, of which one
is taken, and only a position says exactly which is meant.

Of a user who was erased and came back, what lies before their return is no moment: what there was
then is gone, and "nothing" would be a wrong answer. Before their first event of all it is the right
one, as of everybody. At a later moment their state starts anew behind what was erased.

The state is that of the nearest snapshot before the version, and the events after that. Retention
may have dropped payloads of memories that were compressed later. A fold passes over those events,
and that is right where the compression lies before the version: the memory had gone by then. Where
it lies behind it the memory was there, and nobody can tell any more what it said: that is an error,
unless the caller asks for what is left.

A snapshot still has the rows of such memories, and reading their texts says that they are gone.
Who asks for what is left gets a fold of all events instead, in which they are not; one of whose
events only the last are gone reads there as those before left it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from eventlog import (
    Dropped,
    EventStore,
    PayloadDropped,
    PayloadErased,
    Recorded,
    StreamHead,
    replay,
)
from eventlog.core.records import OnDropped, to_datetime
from eventlog.core.subscription import last_version
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.records import AsOf
from memory_actors.base.reports import Moment
from memory_actors.base.streams import user_of
from memory_actors.base.validation import check_count, time_us
from memory_actors.kinds import user_state
from memory_actors.kinds.user_state import UserState
from memory_actors.users.live_user import UserDecider


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
        position = check_count(as_of, "as_of")
        at = await log.read_event(position, dropped="mark")
        if at is None and position:
            raise InvalidInputError(
                f"the log has no event {position:,} yet: name an earlier position"
            )
        version = await last_version(log, stream, head, lambda event: event.position <= position)
        return await _moment(log, stream, version, 0 if at is None else at.recorded_at_us)
    time = time_us(as_of, "as_of")
    assert time is not None
    version = await last_version(log, stream, head, lambda event: event.recorded_at_us <= time)
    return await _moment(log, stream, version, time)


async def _moment(log: EventStore, stream: str, version: int, at_us: int) -> Moment:
    position = 0
    if version:
        (event,) = await log.read_versions(stream, [version], dropped="mark")
        position = event.position
    return Moment(position=position, version=version, at=to_datetime(at_us))


@dataclass(slots=True)
class _Seen:
    """Notes that a fold has made: payloads that are gone, and memories that were compressed."""

    dropped: dict[int, Dropped] = field(default_factory=dict)
    compressed: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """By the version that did it."""

    def note(self, events: Iterable[Recorded[Any]]) -> Iterator[Recorded[Any]]:
        """Pass events on."""
        for recorded in events:
            if isinstance(recorded.data, Dropped):
                self.dropped[recorded.version] = recorded.data
            elif ids := getattr(recorded.data, "compressed_from_ids", ()):
                self.compressed.append((recorded.version, ids))
            yield recorded


async def state_at(
    log: EventStore,
    decider: UserDecider,
    stream: str,
    version: int,
    *,
    erased: int,
    dropped: OnDropped = "raise",
) -> tuple[UserState, int]:
    """Return the state at a version, and how many events about what was there then are gone.

    The stream is erased up to version `erased`: nothing that lived since depends on that.

    :raises PayloadDropped: there are such, and `dropped` is not "mark".
    """
    state, after = UserState(), erased
    if dropped == "raise":
        state, after = await user_state.fold_start(log, stream, erased, version)
    seen = _Seen()
    noting = replace(decider, evolve_many=lambda was, new: user_state.fold(was, seen.note(new)))
    state, _ = await replay(
        log, noting, stream, state=state, after=after, until=version, dropped="mark"
    )
    lost = await _lost(log, stream, seen) if seen.dropped else []
    if lost and dropped == "raise":
        gone = seen.dropped[lost[0]]
        kind = PayloadErased if gone.erased else PayloadDropped
        raise kind(stream, lost[0], gone.since_us)
    return state, len(lost)


async def _lost(log: EventStore, stream: str, seen: _Seen) -> list[int]:
    """Return the dropped versions that are not about memories compressed in what was folded."""
    about = set[int]()
    for version, memory_ids in seen.compressed:
        for memory_id in memory_ids:
            versions = await log.versions_about(stream, memory_id)
            about.update(one for one in versions if one < version)
    return sorted(seen.dropped.keys() - about)
