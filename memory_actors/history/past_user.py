"""A user as they were at a moment: what reads see in the place of a live user, and never changes.

The state is a fold of its own, the indexes are made in memory when they are first searched, and
writes are refused. Vectors and token states that the table no longer has are computed again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple, NoReturn

import anyio.to_thread

from eventlog import (
    Dropped,
    EventStore,
    PayloadDropped,
    PayloadErased,
    Recorded,
    StreamHead,
    replay,
)
from eventlog.core.records import OnDropped, to_datetime, to_us
from eventlog.core.subscription import version_at, version_at_time
from eventlog.core.waiting import to_the_end
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.base.errors import (
    InvalidInputError,
    NotFoundError,
    ReadOnlyError,
    SystemClosedError,
)
from memory_actors.base.on import On
from memory_actors.base.records import AsOf
from memory_actors.base.reports import Moment
from memory_actors.base.streams import user_of
from memory_actors.base.validation import check_count, time_us
from memory_actors.kinds import snapshots, user_state
from memory_actors.kinds.effects import Event
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.passages import Passage
from memory_actors.kinds.rows import Row
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.indexes.user_indexes import UserIndexes
from memory_actors.search.reading import Values, texts
from memory_actors.users.handles.scope import Scope, Services
from memory_actors.users.live_user import UserView

# --- a moment of the past: which version of a user's stream is meant, and the user's state at it
#
# Positions grow with versions, so the stream is halved to find the last event before or at one.
# Times do too, unless the clock was set back: then only a position says exactly which is meant.
#
# Moments before an erasure are not available, except before the first event of all.
#
# The state is that of the nearest snapshot and the events after it. A payload that retention
# dropped matters only if the memory was compressed after the version: then its text is lost, which
# is an error unless the caller asks for what is left. That is a fold of all events, because a
# snapshot still has the rows of these memories.


class StateThen(NamedTuple):
    """A moment of the past, and a user at it."""

    moment: Moment
    state: UserState
    lost: int
    """The number of events about what was there whose payload retention has dropped."""

    def find(self, kind: Kind, memory_id: str) -> Row | None:
        """Return a row, None if there was none."""
        row: Row | None = kind.find(self.state.of(kind), memory_id)
        return row


async def state_then(
    services: Services, stream: str, head: StreamHead, as_of: AsOf, dropped: OnDropped
) -> StateThen:
    """Return the moment that is meant, and the state at it.

    `head` is the end of the stream, of a user who is known.

    :raises InvalidInputError: the log has no such position, or it is no time.
    :raises NotFoundError: what there was then is erased.
    :raises PayloadDropped: something of it was dropped by retention, and `dropped` is not "mark".
    """
    version, at_us = await _meant(services, stream, head.version, as_of)
    position, at = 0, to_datetime(at_us)
    if 0 < version <= head.erased_version:
        raise NotFoundError(
            f"no memory of user {user_of(stream)!r} is left of {at:%Y-%m-%d %H:%M} UTC: what "
            "there was then is erased; name a moment since they came back"
        )
    if version:
        (event,) = await services.log.read_versions(stream, [version], dropped="mark")
        position = event.position
    state, lost = await _state_at(services, stream, version, head.erased_version, dropped)
    return StateThen(Moment(position=position, version=version, at=at), state.at(at_us), lost)


async def _meant(services: Services, stream: str, head: int, as_of: AsOf) -> tuple[int, int]:
    """Return the version that is meant, and its time; of a position, when it was recorded."""
    log = services.log
    if as_of is None:
        return head, services.clock_us()
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
        version = await version_at(log, stream, position)
        return min(version, head), 0 if at is None else at.recorded_at_us
    time = time_us(as_of, "as_of")
    assert time is not None
    return min(await version_at_time(log, stream, time), head), time


@dataclass(slots=True)
class _Seen:
    """Notes that a fold has made: payloads that are gone, and memories that were compressed."""

    dropped: dict[int, Dropped] = field(default_factory=dict)
    compressed: list[tuple[int, tuple[str, ...]]] = field(default_factory=list)
    """By the version that did it."""

    def note(self, events: Iterable[Recorded[Event]]) -> Iterator[Recorded[Event]]:
        for recorded in events:
            if isinstance(recorded.data, Dropped):
                self.dropped[recorded.version] = recorded.data
            elif ids := getattr(recorded.data, "compressed_from_ids", ()):
                self.compressed.append((recorded.version, ids))
            yield recorded


async def _state_at(
    services: Services, stream: str, version: int, erased: int, dropped: OnDropped
) -> tuple[UserState, int]:
    """Return the state at a version, and how many events about what was there then are gone."""
    log, state, after = services.log, UserState(), erased
    if dropped == "raise":
        state, after = await snapshots.fold_start(log, stream, erased, version)
    seen = _Seen()
    noting = replace(
        services.decider, evolve_many=lambda was, new: user_state.fold(was, seen.note(new))
    )
    state, _ = await replay(
        log, noting, stream, state=state, after=after, until=version, dropped="mark"
    )
    about = set[int]()  # memories that were compressed in what was folded
    for compressed, memory_ids in seen.compressed if seen.dropped else ():
        for memory_id in memory_ids:
            versions = await log.versions_about(stream, memory_id)
            about.update(one for one in versions if one < compressed)
    lost = sorted(seen.dropped.keys() - about)
    if lost and dropped == "raise":
        gone = seen.dropped[lost[0]]
        kind = PayloadErased if gone.erased else PayloadDropped
        raise kind(stream, lost[0], gone.since_us)
    return state, len(lost)


# --- the user at it


class PastUser:
    """One user's state at a version, with what is derived from it. Close it at the end."""

    def __init__(self, services: Services, stream: str, state: UserState):
        self.stream = stream
        self.state = state
        self.epoch = 0
        self._services = services
        self._tasks = BackgroundTasks()
        self._filling = asyncio.Lock()
        self._filled = False
        self.indexes = UserIndexes(
            stream,
            None,
            log=services.log,
            embeddings=services.embeddings.of(stream),
            tasks=self._tasks,
            find=lambda kind, memory_id: kind.find(state.of(kind), memory_id),
        )
        self.values = Values(services.log, stream)

    def touch(self, memory_id: str) -> None:
        """Do nothing: a read of what was is no use of it."""

    def note_read(self, entry_id: str, now_us: int) -> None:
        """Do nothing: the past does not change."""

    async def fill(self) -> None:
        """Index all there is, once.

        :raises EmbedderError: a text had to be embedded again, and could not be.
        :raises PayloadDropped: retention has dropped one of the texts.
        """
        log = self._services.log
        embeddings = self.indexes.embeddings
        async with self._filling:
            if self._filled:
                return
            for kind in KINDS:
                rows = [row for row in kind.rows(self.state.of(kind)) if indexed(kind, row)]
                if rows:
                    index = self.indexes.made(kind)
                    await fill(index, kind, rows, log, self.stream, embeddings)
            self._filled = True

    async def close(self) -> None:
        """Let go of the indexes."""
        await self._tasks.cancel()
        self.indexes.retire()


class PastScope(Scope):
    """A user at a moment of the past. Reads see what was then; there are no writes."""

    def __init__(self, services: Services, on: On, *, past: PastUser, moment: Moment):
        super().__init__(services, on)
        self.moment = moment
        self.closed = False
        self._past = past

    @asynccontextmanager
    async def live(self) -> AsyncIterator[UserView]:
        """Hold the user as they were.

        :raises SystemClosedError: the block of the replay has ended.
        """
        if self.closed:
            raise SystemClosedError("this replay has ended: open another one")
        yield self._past

    @asynccontextmanager
    async def searching(self) -> AsyncIterator[UserView]:
        """Hold the user as they were, with all that is indexed."""
        async with self.live() as past:
            await self._past.fill()
            yield past

    async def close(self) -> None:
        """Refuse further reads, and close the indexes even if the caller is cancelled."""
        if not self.closed:
            self.closed = True
            await to_the_end(self._past.close())

    def check_writable(self) -> NoReturn:
        """Refuse.

        :raises ReadOnlyError: always.
        """
        raise ReadOnlyError("the past cannot be written: write to `memory.user(...)`")

    def writable(self) -> NoReturn:
        """Refuse.

        :raises ReadOnlyError: always.
        """
        self.check_writable()

    async def recalled(self, live: UserView, query: str, memory_ids: Sequence[str]) -> None:
        """Do nothing: looking back is nobody's recall."""

    def now_us(self) -> int:
        """Return the time of the moment."""
        return to_us(self.moment.at)

    async def versions_about(self, memory_id: str) -> list[int]:
        """Return the versions of the events about a memory until then."""
        about = await super().versions_about(memory_id)
        return [version for version in about if version <= self.moment.version]


PAGE = 256  # passages read, embedded and indexed at a time


class _PastText(NamedTuple):
    passage: Passage
    row: Row
    text: str


async def fill(
    index: MemoryIndex, kind: Kind, rows: Sequence[Row], log: EventStore, stream: str,
    embeddings: Embeddings,
) -> None:  # fmt: skip
    """Index these rows, which are all of a kind that have something to index.

    :raises EmbedderError: a text had to be embedded again, and could not be.
    :raises PayloadDropped: retention has dropped one of the texts.
    """
    said: list[_PastText] = []
    for start in range(0, len(rows), PAGE):
        page_of_rows = rows[start : start + PAGE]
        events = await texts(log, stream, [Found(kind, row) for row in page_of_rows])
        said += (
            _PastText(passage, row, kind.passage_text(row, passage.label, events))
            for row in page_of_rows
            for passage in indexed(kind, row)
        )
    said.sort(key=lambda one: (one.passage.place, one.passage.label))  # most go to an end
    for start in range(0, len(said), PAGE):
        page = said[start : start + PAGE]
        wanted = {one.passage.digest: one.text for one in page}
        await embeddings.recall(wanted)
        embedded, failed = await embeddings.embed_each(wanted, background=True)
        if failed:
            raise next(iter(failed.values()))
        await anyio.to_thread.run_sync(_insert, index, page, embedded)
    index.compare_all(rows)


def _insert(index: MemoryIndex, page: Sequence[_PastText], embedded: dict[bytes, Embedded]) -> None:
    for passage, row, text in page:
        index.insert(row, passage, EmbeddedText(text, embedded[passage.digest]))
