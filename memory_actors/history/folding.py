"""A user's state as it was at a version: the nearest snapshot before it, and the events after that.

Retention may have dropped payloads of memories that were compressed later. A fold passes over those
events, and that is right where the compression lies before the version: the memory had gone by
then. Where it lies behind it the memory was there, and nobody can tell any more what it said: that
is an error, unless the caller asks for what is left.

A user who was erased and came back starts anew behind that: what was erased was not theirs at any
later moment. Of a moment before it nothing is left; until their first event since, nobody can tell
the two apart.

A snapshot still has the rows of such memories, and reading their texts says that they are gone.
Who asks for what is left gets a fold of all events instead, in which they are not; one of whose
events only the last are gone reads there as those before left it.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from eventlog import Dropped, EventStore, PayloadDropped, PayloadErased, Recorded, replay
from eventlog.core.records import OnDropped
from memory_actors.kinds import user_state
from memory_actors.kinds.user_state import UserState
from memory_actors.users.live_user import UserDecider


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
