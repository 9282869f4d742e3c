"""A live user: the actor of one user's stream with what is derived from it.

Derived are the index of long-term memories (see indexes/memory_index.py), kept in step with each
published event, and the order of last use of working memory, known here only and never logged.
"""

import asyncio
from collections.abc import Callable, Sequence
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
from memory_actors.chores import Chores
from memory_actors.embedding.service import EmbeddingService
from memory_actors.errors import InvalidInputError
from memory_actors.indexes.memory_index import MemoryIndex
from memory_actors.kinds import long_term, working
from memory_actors.kinds.kind import Command
from memory_actors.user import UserState

SNAPSHOT_EVERY_EVENTS = 4_000  # a tail of this length is folded in some 20 ms
SNAPSHOT_MIN_EVENTS = 100  # a shorter tail is quicker read than a snapshot written
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
        self._chores = Chores()
        self.index = MemoryIndex(
            stream, index_path, log=log, embeddings=embeddings, chores=self._chores
        )
        self.actor: Actor[UserState]
        self._log = log
        self._decider = decider
        self._snapshot_version = 0
        self._rebuilds = 0
        self._last_use: dict[str, int] = {}
        self._uses = 0

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
        return BASE_BYTES + ROW_BYTES * rows + working_bytes + self.index.dense.size_bytes

    async def passivate(self) -> None:
        """Finish what is under way; keep a snapshot and the index."""
        try:
            await self.actor.drain()
            await self._chores.cancel()
            if self.actor.version - self._snapshot_version >= SNAPSHOT_MIN_EVENTS:
                await self._snapshot()
            await self.index.save()
        finally:
            self.actor.retire()

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
            self.index.follow(old, new)
        for recorded in events:
            if isinstance(recorded.data, working.KeySet):
                self.touch(recorded.data.key)
        self.index.maintain()
        if self.actor.version - self._snapshot_version >= SNAPSHOT_EVERY_EVENTS:
            self._chores.start("snapshot", self._snapshot)

    def rebuilt(self, state: UserState) -> None:
        """Compare the index with a state that was read again from the log."""
        self._rebuilds += 1
        self.index.compare(list(state.long_term.rows.values()))

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
        await self.index.load(list(state.long_term.rows.values()))

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
