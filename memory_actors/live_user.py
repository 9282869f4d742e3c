"""A live user: the actor of one user's stream with what is derived from it.

Derived are the index of long-term memories, kept in step with each published event, and the order
of last use of working memory, which is known here only and never logged.

A memory's vector usually comes right after its event: the caller computes it while the log writes.
Until it has come the memory is wanting: kept, readable, but not found by meaning. A memory whose
vector never came (a failed embedder, a cancelled caller, a crash) is picked up by `index_wanting`.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn

import anyio
import anyio.to_thread
import msgspec
import structlog

from eventlog import (
    Decider,
    EventLogError,
    EventStore,
    PoisonedStream,
    Recorded,
    Snapshot,
    replay,
)
from memory_actors import user
from memory_actors.actor import Actor
from memory_actors.embedding.protocol import Vectors
from memory_actors.embedding.service import EmbeddingService
from memory_actors.embedding.spoken import spoken
from memory_actors.errors import InvalidInputError
from memory_actors.indexes.dense import DenseIndex
from memory_actors.kinds import long_term, working
from memory_actors.kinds.kind import Command
from memory_actors.user import UserState

SNAPSHOT_EVERY_EVENTS = 4_000  # a tail of this length is folded in some 20 ms
SNAPSHOT_MIN_EVENTS = 100  # a shorter tail is quicker read than a snapshot written
INDEX_TEXTS_MAX = 64  # memories without a vector embedded in one go
INDEX_RETRY_S = 5.0
INDEX_WAIT_S = 5.0  # how long a query waits for memories that are just being indexed
INLINE_ROWS_MAX = 32  # vectors read on the loop: cheaper than a hop to a thread
BASE_BYTES = 8_000  # measured: an actor, an empty index and their maps
ROW_BYTES = 800  # measured: a row with a small metadata dict, its place in a map, its label

_logger = structlog.get_logger("memory_actors.user")

UserDecider = Decider[Command, Any, UserState]
_LONG_TERM_EVENTS = frozenset(long_term.registry.classes())


class StateDivergedError(AssertionError):
    """A live state is not what a replay of its stream gives: a bug in an evolve."""


class LiveUser:
    """One user's actor and what is derived from it. Make one with `activate`."""

    def __init__(
        self,
        stream: str,
        *,
        log: EventStore,
        decider: UserDecider,
        embeddings: EmbeddingService,
        index_path: Path,
    ):
        self.stream = stream
        self.index = DenseIndex(embeddings.embedder.dimension)
        self.actor: Actor[UserState]
        self._log = log
        self._decider = decider
        self._embeddings = embeddings
        self._index_path = index_path
        self._index_changed = False
        self._memory_of: dict[int, str] = {}  # label -> memory id
        self._wanting: dict[bytes, set[int]] = {}  # digest -> labels whose vector has not come
        self._index_waits = False  # for an embedder that failed
        self._snapshot_version = 0
        self._rebuilds = 0
        self._last_use: dict[str, int] = {}
        self._uses = 0
        self._chores: dict[str, asyncio.Task[None]] = {}

    @property
    def state(self) -> UserState:
        """The confirmed state."""
        return self.actor.state

    # --- what the runtime asks

    @property
    def busy(self) -> bool:
        """Whether a command is under way, or a quarantine, which must not be forgotten."""
        return self.actor.busy or self.actor.quarantined is not None

    @property
    def size_bytes(self) -> int:
        """Memory held, roughly; texts are in the log and not counted."""
        rows = len(self.state.long_term.rows) + len(self.state.short_term.session_of)
        working_bytes = self.state.working.size_bytes
        return BASE_BYTES + ROW_BYTES * rows + working_bytes + self.index.size_bytes

    async def passivate(self) -> None:
        """Finish what is under way; keep a snapshot and the index."""
        try:
            await self.actor.drain()
            await self._cancel_chores()
            if self.actor.version - self._snapshot_version >= SNAPSHOT_MIN_EVENTS:
                await self._snapshot()
            if self._index_changed:
                model = self._embeddings.embedder.fingerprint
                await anyio.to_thread.run_sync(self.index.save, self._index_path, model)
        finally:
            self.actor.retire()

    async def _cancel_chores(self) -> None:
        chores = list(self._chores.values())
        for chore in chores:
            chore.cancel()
        if chores:
            await asyncio.wait(chores)

    # --- what the actor asks

    async def enrich(self, command: Any, state: UserState) -> Any:
        """Add what a decision needs: the order of last use, the ids that were used before.

        :raises InvalidInputError: an id of the caller's own stands for something else.
        """
        if isinstance(command, working.SetKey | working.UpdateKey):
            command = msgspec.structs.replace(command, least_recent=self._least_recent(state))
        if not getattr(command, "own_ids", False) and not getattr(command, "own_id", False):
            return command
        if isinstance(command, long_term.AddMemories):
            return msgspec.structs.replace(command, used=await self._first_digests(command))
        first = await self._first_event(command.memory_id)
        if first is None:
            return command
        if isinstance(command, working.SetKey):
            if getattr(first, "key", None) != command.key:
                _refuse_id(command.memory_id)
            return command
        if getattr(first, "content", None) != command.content:
            _refuse_id(command.memory_id)
        return msgspec.structs.replace(command, used=True)

    async def _first_digests(self, command: long_term.AddMemories) -> dict[str, bytes]:
        used = {}
        for memory in command.memories:
            first = await self._first_event(memory.memory_id)
            if first is not None:
                used[memory.memory_id] = getattr(first, "digest", b"")
            await asyncio.sleep(0)  # thousands of look-ups are no reason to hold the loop
        return used

    async def _first_event(self, memory_id: str) -> Any:
        """Return the event that a memory began with, None if the id was never used."""
        versions = await self._log.versions_about(self.stream, memory_id)
        if not versions:
            return None
        (first,) = await self._log.read_versions(self.stream, versions[:1])
        return first.data

    def published(
        self, events: Sequence[Recorded[Any]], before: UserState, after: UserState
    ) -> None:
        """Keep the index and the order of use in step; snapshot now and then."""
        for memory_id in _touched(events):
            old, new = before.long_term.rows.get(memory_id), after.long_term.rows.get(memory_id)
            self._reindex(old, new)
        for recorded in events:
            if isinstance(recorded.data, working.KeySet):
                self.touch(recorded.data.key)
        self._maintain_index()
        if self.actor.version - self._snapshot_version >= SNAPSHOT_EVERY_EVENTS:
            self._start("snapshot", self._snapshot)

    def rebuilt(self, state: UserState) -> None:
        """Compare the index with a state that was read again from the log."""
        self._rebuilds += 1
        rows = state.long_term.rows.values()
        self._memory_of = {row.version: row.memory_id for row in rows}
        for label in self.index.labels():
            if label not in self._memory_of:
                self.index.remove(label)
        self._wanting.clear()
        for row in rows:
            if row.version not in self.index:
                self._want(row)
        self.index_wanting()

    # --- the order of last use of working memory

    def touch(self, key: str) -> None:
        """Note that a key of working memory was used."""
        self._uses += 1
        self._last_use[key] = self._uses

    def _least_recent(self, state: UserState) -> tuple[str, ...]:
        last_use, keys = self._last_use, state.working.rows
        if len(last_use) > 2 * len(keys) + 16:  # most of it is about keys that are gone
            self._last_use = last_use = {key: last_use.get(key, 0) for key in keys}
        return tuple(sorted(keys, key=lambda key: last_use.get(key, 0)))

    # --- the index of long-term memories

    def settle(self, vectors: Mapping[bytes, Vectors]) -> None:
        """Index the memories that wanted these vectors, by digest of their content."""
        for digest, vector in vectors.items():
            for label in self._wanting.pop(digest, ()):
                self.index.add(label, vector)
                self._index_changed = True
        self._maintain_index()

    def index_wanting(self, delay_s: float = 0.0) -> None:
        """See to it that every memory gets its vector, from the log's texts and the model."""
        if self._wanting or delay_s:
            self._start("index", lambda: self._index_wanting(delay_s))

    async def indexed(self, deadline_s: float = INDEX_WAIT_S) -> None:
        """Wait for memories that are just being indexed from the log, within the deadline."""
        chore = self._chores.get("index")
        if chore is None or self._index_waits:
            return
        done, _ = await asyncio.wait([chore], timeout=deadline_s)
        if not done:
            _logger.warning("memories not yet searchable", count=len(self._wanting))

    def row_of(self, label: int) -> long_term.Row | None:
        """Return the living memory that a label of the index stands for."""
        return self.state.long_term.rows.get(self._memory_of.get(label, ""))

    def _reindex(self, old: long_term.Row | None, new: long_term.Row | None) -> None:
        if old is not None and (new is None or new.version != old.version):
            del self._memory_of[old.version]
            self.index.remove(old.version)
            self._unwant(old)
            self._index_changed = True
        if new is not None and (old is None or new.version != old.version):
            self._memory_of[new.version] = new.memory_id
            self._want(new)

    def _want(self, row: long_term.Row) -> None:
        self._wanting.setdefault(row.digest, set()).add(row.version)

    def _unwant(self, row: long_term.Row) -> None:
        labels = self._wanting.get(row.digest, set())
        labels.discard(row.version)
        if not labels:
            self._wanting.pop(row.digest, None)

    async def _index_wanting(self, delay_s: float) -> None:
        self._index_waits = delay_s > 0
        await asyncio.sleep(delay_s)
        with anyio.move_on_after(delay_s):  # a command whose caller gave up may still be under way
            await self.actor.drain()
        while self._wanting:
            self._index_waits = False
            if not await self._index_some():
                self._index_waits = True
                await asyncio.sleep(INDEX_RETRY_S)

    async def _index_some(self) -> bool:
        """Embed some of the memories that want a vector; say whether any got one."""
        batch = [min(labels) for labels in islice(self._wanting.values(), INDEX_TEXTS_MAX)]
        events = await self._log.read_versions(self.stream, batch)
        rows = [self.row_of(label) for label in batch]
        texts = {
            row.digest: spoken(recorded.data.content, row.role)
            for recorded, row in zip(events, rows, strict=True)
            if row is not None  # else it went while its text was read
        }
        vectors, failed = await self._embeddings.embed_each(texts)
        self.settle(vectors)
        for digest in failed:  # to the end of the line, so that others get their turn
            labels = self._wanting.pop(digest, None)
            if labels:
                self._wanting[digest] = labels
        if failed:
            _logger.warning("memories not indexed", count=len(failed))
        return bool(vectors) or not texts

    def _maintain_index(self) -> None:
        if self.index.wants_maintenance:
            self._start("maintenance", self._maintain)

    async def _maintain(self) -> None:
        self.index.adopt(await anyio.to_thread.run_sync(self.index.maintain))

    # --- snapshots and checks

    async def _snapshot(self) -> None:
        state, version, rebuilds = self.state, self.actor.version, self._rebuilds
        self._snapshot_version = version
        data = await anyio.to_thread.run_sync(user.dump, state)
        if self._rebuilds != rebuilds:  # the state was given up meanwhile
            return
        snapshot = Snapshot(version, data)
        try:
            await self._log.save_snapshot(self.stream, snapshot, user.SNAPSHOT_FINGERPRINT)
        except EventLogError as error:  # the next activation reads more events, that is all
            _logger.warning("snapshot not kept", error=str(error))

    async def check_replay(self) -> None:
        """Compare the state with a replay of the whole stream. For tests: it reads everything.

        :raises StateDivergedError: they differ.
        """
        state, version = self.state, self.actor.version
        await self._log.flush()
        replayed, _ = await replay(self._log, self._decider, self.stream, until=version)
        if user.fingerprint(replayed) != user.fingerprint(state):
            raise StateDivergedError(f"live state and replay differ at version {version}")

    def _start(self, name: str, chore: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a background chore unless it runs already."""
        if name not in self._chores:
            task = asyncio.create_task(chore())
            self._chores[name] = task
            task.add_done_callback(lambda done: self._chore_done(name, done))

    def _chore_done(self, name: str, task: asyncio.Task[None]) -> None:
        del self._chores[name]
        if not task.cancelled() and task.exception() is not None:
            _logger.error("chore failed", chore=name, error=repr(task.exception()))

    # --- activation

    async def activate(self, clock: Callable[[], int]) -> None:
        """Read the state from snapshot and log, and the index from its files and the vectors."""
        state, version, poison = await self._read_state()
        head = await self._log.head(self.stream)
        self.actor = Actor(
            self.stream, decider=self._decider, behaviour=self, log=self._log, clock=clock,
            rebuild=self._replayed, state=state, version=version, epoch=head.epoch,
        )  # fmt: skip
        if poison is not None:
            self.actor.quarantine(str(poison))
        await self._load_index(state)

    async def _read_state(self) -> tuple[UserState, int, PoisonedStream | None]:
        snapshot = await self._log.load_snapshot(self.stream, user.SNAPSHOT_FINGERPRINT)
        state, version = UserState(), 0
        if snapshot is not None:
            try:
                state = await anyio.to_thread.run_sync(user.load, snapshot.data)
                version = self._snapshot_version = snapshot.version
            except msgspec.DecodeError as error:  # derived data: read the whole stream instead
                _logger.warning("snapshot ignored", error=str(error))
        try:
            state, version = await replay(
                self._log, self._decider, self.stream, state=state, after=version
            )
        except PoisonedStream as poison:
            return poison.state, poison.version, poison
        return state, version, None

    async def _replayed(self) -> tuple[UserState, int]:
        return await replay(self._log, self._decider, self.stream)

    async def _load_index(self, state: UserState) -> None:
        rows = state.long_term.rows
        if not rows:
            return
        load = partial(self._load_vectors, list(rows.values()))
        if len(rows) <= INLINE_ROWS_MAX:
            self.index = load()
        else:
            self.index = await anyio.to_thread.run_sync(load)
        self.rebuilt(state)
        self._maintain_index()

    def _load_vectors(self, rows: Sequence[long_term.Row]) -> DenseIndex:
        vectors = self._embeddings.stored([row.digest for row in rows])
        labelled = {row.version: vectors[row.digest] for row in rows if row.digest in vectors}
        embedder = self._embeddings.embedder
        return DenseIndex.load(embedder.dimension, labelled, self._index_path, embedder.fingerprint)


def _refuse_id(memory_id: str) -> NoReturn:
    raise InvalidInputError(f"memory id {memory_id!r} stands for another memory: use a new one")


def _touched(events: Sequence[Recorded[Any]]) -> set[str]:
    """Return the ids of the long-term memories that events are about."""
    return {
        memory_id
        for recorded in events
        if type(recorded.data) in _LONG_TERM_EVENTS
        for memory_id in long_term.registry.keys(recorded.data)
    }
