"""A live user: the actor of one user's stream with what is derived from it.

It adds the indexes of its memories (see indexes/user_indexes.py), updated with each published
event. It also tracks the order of last use of working memory, in memory only.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import anyio.to_thread

from eventlog import (
    CorruptLog,
    Decider,
    EventLogError,
    EventStore,
    LogBusy,
    PoisonedStream,
    Snapshot,
    replay,
)
from eventlog.core.logs import get_logger
from eventlog.core.records import AnyRecorded
from memory_actors.actors.actor import Actor
from memory_actors.actors.asking import Request
from memory_actors.base.background_tasks import BackgroundTasks
from memory_actors.base.errors import MemoryActorsError, StateDivergedError
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.streams import user_of
from memory_actors.kinds import snapshots, user_state
from memory_actors.kinds.account import AlertChanged
from memory_actors.kinds.commands import Command
from memory_actors.kinds.effects import Pruned
from memory_actors.kinds.provenance import ExpireMemories
from memory_actors.kinds.user_state import KINDS, UserState
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.indexes.user_indexes import UserIndexes
from memory_actors.search.reading import Values, events_about, first_events
from memory_actors.search.retrieval import Searched
from memory_actors.users.totals import Totals

SNAPSHOT_EVERY_EVENTS = 4_000  # a tail of this length is folded in some 20 ms
SNAPSHOT_EVERY_MEMORIES = 1_000  # written in a tail: so many are indexed again in some 0.4 s
SNAPSHOT_SHARE = 0.1  # of all memories, if that is more: a snapshot takes longer the more there are
SNAPSHOT_MIN_EVENTS = 100  # a shorter tail is quicker read than a snapshot written
BASE_BYTES = 16_000  # measured: an actor, an index of few passages, and their maps
RESIDENT_PER_BYTE = 1.5  # measured at 2 to 10,000 memories: what the allocator takes for a byte
BUSY_S = 0.05  # between two tries to read a log that nobody can read at the moment
ORIGIN_BYTES = 200  # an entry in a map, and a tuple; the origins themselves are shared

_logger = get_logger("memory_actors.user")

UserDecider = Decider[Command, Any, UserState]
AlertHandler = Callable[[str, AlertChanged, UserState], None]
"""(stream, the alert, the state it came with): carries an alert out, at once and without fail."""


class UserView(Searched, Protocol):
    """The port of reads: a user, live or past."""

    @property
    def values(self) -> Values:
        """The documents of it."""

    @property
    def epoch(self) -> int:
        """The epoch that the user is live under; of a past one, 0."""

    def touch(self, memory_id: str) -> None:
        """Note that a memory of a cache was used."""

    def note_read(self, entry_id: str, now_us: int) -> None:
        """Note that an entry of a context document was read."""


class LiveUser:
    """One user's actor and what is derived from it. Make one with `activate`."""

    def __init__(
        self,
        stream: str,
        *,
        log: EventStore,
        decider: UserDecider,
        embeddings: Embeddings,
        index_path: Path,
        totals: Totals,
        on_alert: AlertHandler,
        on_fenced: Callable[[str, "LiveUser"], None],
    ):
        self.stream = stream
        self._tasks = BackgroundTasks()
        self.indexes = UserIndexes(
            stream,
            index_path,
            log=log,
            embeddings=embeddings,
            tasks=self._tasks,
            find=lambda kind, memory_id: kind.find(self.state.of(kind), memory_id),
            version=lambda: self.actor.version,
        )
        self.embeddings = embeddings
        self.values = Values(log, stream)
        self.actor: Actor[UserState]
        self._log = log
        self._decider = decider
        self._totals = totals
        self._on_alert = on_alert
        self._on_fenced = on_fenced
        self._snapshot_version = 0
        self._written = 0
        """Events about memories that are kept, since the last snapshot, or somewhat more."""
        self._rebuilds = 0
        self.last_use: dict[str, int] = {}
        self._uses = 0
        self.read_at_us: dict[str, int] = {}
        """The times at which entries of context documents were last read."""
        self._relaxed_version = 0
        """Version of the last event that was acknowledged before it was in the log."""
        self._flushed_version = 0
        self._sized: UserState | None = None
        self._state_bytes = 0

    @property
    def state(self) -> UserState:
        """The confirmed state."""
        return self.actor.state

    @property
    def epoch(self) -> int:
        """The epoch under which it writes."""
        return self.actor.epoch

    # --- what the runtime asks

    @property
    def busy(self) -> bool:
        """True while a command is under way, or in quarantine, which must not be forgotten."""
        return self.actor.busy or self.actor.quarantined is not None

    @property
    def size_bytes(self) -> int:
        """Resident memory, roughly; texts are in the log and not counted. Asked now and then."""
        if self._sized is not self.state:
            state = self._sized = self.state
            held_bytes = sum(kind.held_bytes(state.of(kind)) for kind in KINDS)
            others = len(state.provenance.origins) + len(state.review.pending)
            self._state_bytes = held_bytes + ORIGIN_BYTES * others
        counted_bytes = self._state_bytes + self.indexes.size_bytes + self.values.size_bytes
        return int(RESIDENT_PER_BYTE * (BASE_BYTES + counted_bytes))

    async def passivate(self) -> None:
        """Finish what is under way; keep a snapshot and the index."""
        await self._end(keep=True)

    async def discard(self) -> None:
        """Finish what is under way; keep nothing."""
        await self._end(keep=False)

    async def _end(self, *, keep: bool) -> None:
        shared = self.embeddings.shared
        try:
            await self.actor.drain()
            self.indexes.index_taken()  # which may begin a task; who erases counts what was known
            await self._tasks.cancel()
            if keep and self.actor.version - self._snapshot_version >= SNAPSHOT_MIN_EVENTS:
                await self.snapshot()
            if keep:
                await self.indexes.save(always=False)
        finally:
            if shared is not None:
                await (shared.leave() if keep else shared.drop())
            self.indexes.retire()
            self.actor.retire()

    # --- what the actor asks

    async def enrich(self, command: Any, state: UserState) -> object:
        """Return a command with what it needs from outside of the state, as it declares."""
        return await command.informed(state, self)

    async def first_events(self, memory_ids: Iterable[str]) -> Mapping[str, object]:
        """Return the event that each memory began with, of those ids that were ever used."""
        await self._flushed()
        return await first_events(self._log, self.stream, memory_ids)

    async def events_about(self, memory_ids: Iterable[str]) -> Mapping[str, object]:
        """Return every event about each memory, in order."""
        await self._flushed()
        return await events_about(self._log, self.stream, memory_ids)

    async def _flushed(self) -> None:
        """See that the log knows the newest ids: working memory is answered before it is there."""
        if self._relaxed_version > self._flushed_version:
            version = self.actor.version
            await self._log.flush()
            self._flushed_version = max(self._flushed_version, version)

    def check_totals(self, before: UserState, after: UserState) -> None:
        """Refuse what would pass a limit over all users. See `Totals.check`."""
        self._totals.check(user_state.totals_changed(before, after))

    def admit(self, before: UserState, after: UserState) -> Mapping[str, int]:
        """Claim what a decision adds to the totals over all users. See `Totals.claim`."""
        changes = user_state.totals_changed(before, after)
        self._totals.claim(changes)
        return changes

    def release(self, changes: Mapping[str, int]) -> None:
        """Give back what was claimed."""
        self._totals.release(changes)

    def published(self, events: Sequence[AnyRecorded], before: UserState, after: UserState) -> None:
        """Keep the indexes and the order of use in step; snapshot now and then."""
        for recorded in events:
            kind = user_state.kind_of_event(recorded.data)
            if isinstance(recorded.data, AlertChanged):
                self._on_alert(self.stream, recorded.data, after)
            elif isinstance(recorded.data, Pruned) and kind is not None:
                user, count = hashed(user_of(self.stream)), len(recorded.data.memory_ids)
                # The operator of the store may not know that a caller allowed this.
                _logger.warning("memories pruned", kind=kind.NAME, count=count, user=user)
            elif kind is not None and kind.NATURE.is_cache:
                self.touch(recorded.data.memory_id)
                self._relaxed_version = recorded.version
            else:
                self._written += 1
        for kind, memory_id in user_state.touched(events):
            new = kind.find(after.of(kind), memory_id)
            if kind.NATURE.is_indexed:
                old = kind.find(before.of(kind), memory_id)
                self.indexes.follow(kind, old, new)
                if old is not None and (new is None or new.version != old.version):
                    self.values.forget(old.version)
            if new is None:
                self.last_use.pop(memory_id, None)
                self.read_at_us.pop(memory_id, None)
        if self._wants_snapshot(after):
            self._tasks.start("snapshot", self.snapshot)

    def _wants_snapshot(self, state: UserState) -> bool:
        if self.actor.version - self._snapshot_version >= SNAPSHOT_EVERY_EVENTS:
            return True
        if self._written < SNAPSHOT_EVERY_MEMORIES:
            return False
        tallies = [kind.tally(state.of(kind)) for kind in KINDS]
        rows = sum(tally.count + tally.relationships for tally in tallies)
        return self._written >= SNAPSHOT_SHARE * rows

    def rebuilt(self, state: UserState) -> None:
        """Compare the indexes with a state that was read again from the log."""
        self._rebuilds += 1
        for kind in KINDS:
            self.indexes.compare(kind, kind.rows(state.of(kind)))

    def fenced(self) -> None:
        """Take note that another process has this user."""
        self._on_fenced(self.stream, self)

    async def expire(self, now_us: int, deadline_s: float) -> None:
        """Delete what has expired. If the write fails, reads still leave out expired memories."""
        with suppress(MemoryActorsError):
            while 0 < self.state.next_expiry_us <= now_us and not self.state.account.holds:
                # Made here: each call of a user comes by, and few find something that is due.
                due = ExpireMemories(now_us=now_us)
                request = Request(command=due, meta=due.meta(()), frees=True, alone=due.alone)
                await (await self.actor.post(request, deadline_s))

    # --- the order of last use

    def touch(self, memory_id: str) -> None:
        """Note that a memory of a cache was used."""
        self._uses += 1
        self.last_use[memory_id] = self._uses

    def note_read(self, entry_id: str, now_us: int) -> None:
        """Note that an entry of a context document was read: it is not the stalest now."""
        self.read_at_us[entry_id] = now_us

    # --- snapshots and checks

    async def snapshot(self) -> None:
        """Keep the state, so that the next activation has less to read."""
        state, version, rebuilds = self.state, self.actor.version, self._rebuilds
        self._snapshot_version, self._written = version, 0
        packed = await anyio.to_thread.run_sync(snapshots.in_one_piece, state)
        data = await anyio.to_thread.run_sync(snapshots.dump, packed)
        if self._rebuilds != rebuilds:  # the state was given up meanwhile
            return
        self.actor.hold_as(partial(snapshots.over, then=state, packed=packed))
        snapshot = Snapshot(version, data)
        try:
            await self._log.save_snapshot(self.stream, snapshot, snapshots.SNAPSHOT_FINGERPRINT)
        except EventLogError as error:  # the next activation reads more events, that is all
            user = hashed(user_of(self.stream))
            _logger.warning("snapshot not kept", user=user, error=reason(error))
        await self.indexes.save()

    async def check_replay(self) -> None:
        """Compare the state with a replay of the whole stream. For tests: it reads everything.

        :raises StateDivergedError: they differ.
        """
        state, version = self.state, self.actor.version
        await self._log.flush()
        replayed, _ = await replay(
            self._log, self._decider, self.stream, until=version, dropped="mark"
        )
        if snapshots.fingerprint(replayed) != snapshots.fingerprint(state):
            raise StateDivergedError(f"live state and replay differ at version {version}")

    # --- activation

    async def activate(self, clock: Callable[[], int], epoch: int | None = None) -> None:
        """Read the state from snapshot and log, and the index from its files and the vectors.

        It writes under this epoch; None: under that which its stream has.
        """
        head = await self._log.head(self.stream)
        epoch = head.epoch if epoch is None else epoch
        if self.embeddings.shared is not None:
            self.embeddings.shared.own(epoch)
        state, version, poison = await self._read_state(head.erased_version)
        self.actor = Actor(
            self.stream, decider=self._decider, behaviour=self, log=self._log, clock=clock,
            rebuild=self._replayed, state=state, version=version, epoch=epoch,
        )  # fmt: skip
        if poison is not None:
            self.actor.quarantine(str(poison))
        for kind in KINDS:
            await self.indexes.load(kind, state.of(kind))

    async def _read_state(self, erased: int) -> tuple[UserState, int, PoisonedStream | None]:
        """Return the state behind the version up to which the stream is erased.

        :raises CorruptLog: an event is damaged. If an event cannot be folded, the state before it
            is served; but what a damaged one said is not known, and without it answers would be
            wrong.
        """
        state, version = await snapshots.fold_start(self._log, self.stream, erased)
        self._snapshot_version = version
        try:
            state, version = await replay(
                self._log, self._decider, self.stream, state=state, after=version, dropped="mark"
            )
        except PoisonedStream as poison:
            if isinstance(poison.__cause__, CorruptLog):
                raise poison.__cause__ from None
            return poison.state, poison.version, poison
        self._written = version - self._snapshot_version
        if self._written >= SNAPSHOT_EVERY_MEMORIES:
            state = await anyio.to_thread.run_sync(snapshots.in_one_piece, state)
        return state, version, None

    async def _replayed(self) -> tuple[UserState, int]:
        """Read the state again, after a write that failed; while others fail nobody can read."""
        while True:
            with suppress(LogBusy):
                return await replay(self._log, self._decider, self.stream, dropped="mark")
            await asyncio.sleep(BUSY_S)
