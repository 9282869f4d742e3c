"""A user as they were: what reads see in the place of a live user, and never changes.

Nothing of it is shared with the live user: the state is a fold of its own, the indexes are made in
memory when they are first searched, and whoever wants to write is refused.

An index is made from rows and texts. Vectors and token states come from the table where they are
still there, and are computed again where they are not; nothing is written.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, NoReturn

import anyio.to_thread

from eventlog import EventStore
from eventlog.core.records import to_us
from eventlog.core.waiting import to_the_end
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.base.errors import ReadOnlyError, SystemClosedError
from memory_actors.base.reports import Moment
from memory_actors.kinds.kind import Kind, Passage
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.service import Embeddings
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import indexed
from memory_actors.search.indexes.pending import EmbeddedText
from memory_actors.search.indexes.user_indexes import UserIndexes
from memory_actors.search.reading import Found, texts
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import UserView
from memory_actors.users.services import Services
from memory_actors.users.values import Values


class PastUser:
    """One user's state at a version, with what is derived from it. Close it at the end."""

    def __init__(self, services: Services, stream: str, state: UserState):
        self.stream = stream
        self.state = state
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
            find=self._find,
        )
        self.values = Values(services.log, stream)

    def _find(self, kind: Kind, memory_id: str) -> Any:
        return kind.find(self.state.of(kind), memory_id)

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
        embeddings = self._services.embeddings.of(self.stream)
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

    def __init__(
        self,
        services: Services,
        user_id: str,
        agent_id: str | None,
        session_id: str | None,
        *,
        past: PastUser,
        moment: Moment,
    ):
        super().__init__(services, user_id, agent_id, session_id)
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
        """Answer nothing more, and let go of the indexes, to the end."""
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

    async def recalled(self, query: str, memory_ids: Sequence[str]) -> None:
        """Do nothing: looking back is nobody's recall."""

    def now_us(self) -> int:
        """Return the time of the moment."""
        return to_us(self.moment.at)

    async def versions_about(self, memory_id: str) -> list[int]:
        """Return the versions of the events about a memory until then."""
        about = await super().versions_about(memory_id)
        return [version for version in about if version <= self.moment.version]


PAGE = 256  # passages read, embedded and indexed at a time


class _Said(NamedTuple):
    """A passage with its text."""

    passage: Passage
    row: Any
    text: str


async def fill(
    index: MemoryIndex, kind: Kind, rows: Sequence[Any], log: EventStore, stream: str,
    embeddings: Embeddings,
) -> None:  # fmt: skip
    """Index these rows, which are all of a kind that have something to index.

    :raises EmbedderError: a text had to be embedded again, and could not be.
    :raises PayloadDropped: retention has dropped one of the texts.
    """
    said: list[_Said] = []
    for start in range(0, len(rows), PAGE):
        said += await _said(kind, rows[start : start + PAGE], log, stream)
    said.sort(key=lambda one: (one.passage.place, one.passage.label))  # most go to an end
    for start in range(0, len(said), PAGE):
        page = said[start : start + PAGE]
        wanted = {one.passage.digest: one.text for one in page}
        embedded, failed = await embeddings.embed_each(wanted, background=True)
        if failed:
            raise next(iter(failed.values()))
        await anyio.to_thread.run_sync(_insert, index, page, embedded)
    index.compare(rows)


async def _said(kind: Kind, rows: Sequence[Any], log: EventStore, stream: str) -> list[_Said]:
    events = await texts(log, stream, [Found(kind, row) for row in rows])
    said = []
    for row in rows:
        for passage in indexed(kind, row):
            text = kind.passage_text(row, passage.label, events)
            said.append(_Said(passage, row, text))
    return said


def _insert(index: MemoryIndex, page: Sequence[_Said], embedded: dict[bytes, Embedded]) -> None:
    """Index a page."""
    for passage, row, text in page:
        index.insert(row, passage, EmbeddedText(text, embedded[passage.digest]))
