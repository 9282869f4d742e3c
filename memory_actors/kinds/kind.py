"""The parts that a kind of memory is made of.

Each kind is a module or a package, in one order: events, state, commands, and a subclass of
`BaseKind` that says in what the kind differs from others (`keyed.py` and `compacting.py` have what
several share). Its one object is `KIND`; `user_state.py` joins the kinds of one user.

The rules every kind keeps:

- `decide` is pure. The time, ids and, for an eviction, the order of last use arrive in the command.
- An event names its victims: what is evicted, pruned or expired is listed, so that a replay repeats
  the decision and does not take it again.
- A refused command raises; a satisfied one returns no events.
- Texts stay in the log. A row of a state knows the versions of the events that have its texts.
- Rows and events are trees of JSON, so they tell the garbage collector to pass them by (gc=False).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar

import msgspec

from eventlog import Dropped, EventRegistry, Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits
from memory_actors.base.records import IS_COMPRESSED, Metadata, QuotaUse
from memory_actors.kinds.commands import Command, Delete, Restore, Update
from memory_actors.kinds.effects import (
    BEGINS,
    ENDS,
    Decision,
    Effect,
    Event,
    KindRegistry,
    Past,
    TaintedPast,
    effect,
)
from memory_actors.kinds.passages import Passage

Events = Mapping[int, AnyRecorded]
"""Events of one stream by version."""

Decide = Callable[[Any, Any, Limits], Sequence[Event]]

ROW_BYTES: Final = 900  # measured: a row with a small metadata dict, its place in a map, its label

# --- events


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory was deleted by its user."""

    memory_id: str


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest memories were deleted to make room."""

    memory_ids: tuple[str, ...]
    cause: str


class Updated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory got a new content or new metadata, or was pinned or not; None keeps what was."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    metadata: Metadata | None = None
    pinned: bool | None = None


def tentative(events: Iterable[object], now_us: int = 0, version: int = 0) -> list[AnyRecorded]:
    """Return events that have no place in the log yet as a fold takes them, from a version on."""
    return [
        Recorded("", n, n, now_us, "", event, 0, 0, b"") for n, event in enumerate(events, version)
    ]


# --- state


class Row(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A living memory without its texts. Each kind has a subclass of its own."""

    memory_id: str
    version: int
    """Version of the event that has the text, or of the first of them."""
    size_bytes: int
    stored_bytes: int
    created_at_us: int
    occurred_at_us: int
    metadata: Metadata
    compressed: bool = False
    """True: the log stores what it says compressed."""

    @property
    def shown_metadata(self) -> Mapping[str, object]:
        """The metadata as it is read, and asked for by filters. Not to be changed."""
        return {**self.metadata, IS_COMPRESSED: True} if self.compressed else self.metadata


S = TypeVar("S")
R = TypeVar("R", bound=Row)


def is_summary(row: Row) -> bool:
    """Say whether a row stands for memories that were compressed."""
    return getattr(row, "original_count", 0) > 0


def last_true_us(row: Row) -> int:
    """Return when a memory was true last: later than `occurred_at_us` if it was said again."""
    return getattr(row, "last_seen_us", 0) or row.occurred_at_us


def oldest_first(rows: Iterable[R]) -> list[R]:
    """Return rows by the time they were true, then by the order of arrival."""
    return sorted(rows, key=lambda row: (row.occurred_at_us, row.version))


class Tally(msgspec.Struct, frozen=True):
    """Sums of a state and its losses, updated with each change and never recounted."""

    count: int
    size_bytes: int
    stored_bytes: int
    evicted: int = 0
    pruned: int = 0
    relationships: int = 0
    summaries: int = 0
    originals: int = 0
    """Memories that the summaries stand for; they are not in `count`."""
    summaries_bytes_before: int = 0
    """The bytes of the originals of the summaries."""
    summaries_bytes_after: int = 0
    """The bytes of the summaries, which are in `size_bytes`, too."""


# --- the kind


class Part(ABC, Generic[S]):
    """One part of a user's state: its events, commands and decisions."""

    NAME: ClassVar[str]
    registry: ClassVar[EventRegistry]
    Dump: ClassVar[type[msgspec.Struct]]
    """The state as plain rows: what a snapshot holds."""
    initial: S

    def __init__(self) -> None:
        self._decisions = dict(self.decisions())
        self.COMMANDS = tuple(self._decisions)

    @abstractmethod
    def fold(self, state: S, events: Iterable[AnyRecorded]) -> S:
        """Return the state after events of this part; total over them."""

    def after(self, state: S, events: Iterable[Event], now_us: int = 0, version: int = 0) -> S:
        """Return the state after events that have no place in the log yet."""
        return self.fold(state, tentative(events, now_us, version))

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {}

    def decide(self, command: Command, state: S, limits: Limits) -> Decision:
        """Turn a command into events.

        :raises QuotaExceededError: no room, and no leave to make some.
        :raises InvalidInputError: an id that stands for another memory, or a change that the kind
            does not take.
        :raises NotFoundError: no such memory.
        """
        return self._decisions[type(command)](command, state, limits)

    def dump(self, state: S) -> object:
        """Return the state as plain rows, in an order that depends on the events alone."""
        return state

    def load(self, dumped: Any) -> S:
        """Return the state back from a dump."""
        state: S = dumped
        return state


class Nature(NamedTuple):
    """The ways in which a kind may differ from most others."""

    is_indexed: bool = True
    """False: there are few, and queries that look at them embed their texts."""
    is_searched: bool = True
    """False: a query searches it only where it is named."""
    export_place: int = 0
    """Kinds with a lower place come first in an export; those of the same in the order of KINDS."""
    is_cache: bool = False
    """True: writes are answered before they are on disk, and the least recently used leave."""
    expires_by_clock: bool = False
    """True: memories go at a time, before any event says so."""
    is_reviewed: bool = False
    """True: what is added may have to wait for a review."""
    names_origins_by_text: bool = False
    """True: what comes back has several texts, and each event of them names its own origins."""


class Life(NamedTuple, Generic[R]):
    """The last life of a memory, whether or not it has ended."""

    row: R
    """Its last row."""
    events: list[AnyRecorded]
    """Its events since it last began."""
    compressed: bool
    """True if a summary took its place."""

    @property
    def by_version(self) -> Events:
        """The events by version, as reads ask for them."""
        return {recorded.version: recorded for recorded in self.events}


class BaseKind(Part[S], Generic[S, R]):
    """A part that holds memories: they are counted, listed, read and searched.

    A kind is the one object of a subclass, `KIND` in its module. This class has the methods that
    most kinds share.
    """

    NATURE: ClassVar[Nature] = Nature()
    NOUN: ClassVar[str] = "memory"
    """One of its memories, for errors."""
    MISSING: ClassVar[str] = "never there, or deleted"
    """Why a memory may not be there, for errors."""
    DELETED: ClassVar[Callable[..., Event]]
    """The event by which a memory goes; it takes its id."""
    UPDATE: ClassVar[type[Update]]
    DELETE: ClassVar[type[Delete]]
    RESTORE: ClassVar[type[Restore] | None] = None
    """None: nothing is kept that could come back."""
    registry: ClassVar[KindRegistry]

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {self.DELETE: self._delete}

    def living(self, state: S, memory_id: str) -> R:
        """Return a living row.

        :raises NotFoundError: it is not there.
        """
        row = self.find(state, memory_id)
        if row is None:
            raise NotFoundError(f"no {self.NOUN} {memory_id!r}: {self.MISSING}")
        return row

    def put_again(self, _command: Any, _state: S) -> str | None:
        """Return the memory that a value was put into which it has already; None for other adds."""
        return None

    def _delete(self, command: Delete, state: S, _limits: Limits) -> Decision:
        return self.deleted(self.living(state, command.memory_id), state)

    # --- sums

    @abstractmethod
    def tally(self, state: S) -> Tally:
        """Return the counts and sizes of current and lost memories."""

    def held_bytes(self, state: S) -> int:
        """Return the memory that the state takes, roughly; texts that are in the log are not."""
        sums = self.tally(state)
        return ROW_BYTES * (sums.count + sums.relationships)

    @abstractmethod
    def quotas(self, state: S, limits: Limits, scope: str | None) -> Sequence[QuotaUse]:
        """Return how full each limit is; of this session or agent, or of the fullest one."""

    # --- rows

    def at(self, state: S, _now_us: int) -> S:
        """Return the state as it reads at a time: without what has expired."""
        return state

    @abstractmethod
    def rows(self, state: S) -> Iterable[R]:
        """Return every living row."""

    @abstractmethod
    def find(self, state: S, memory_id: str) -> R | None:
        """Return a living row by id, or None."""

    def worded(self, state: S, memory_id: str) -> R | None:
        """Return the row of whatever has words, also if it is no memory; or None."""
        return self.find(state, memory_id)

    def at_hand(self, _state: S, _session_id: str | None) -> Sequence[R]:
        """Return the rows that a query embeds on its way: few, or none where there is an index."""
        return ()

    def indexed_rows(self, state: S) -> Iterable[R]:
        """Return the living rows that an index finds, in any order; quick where there are none."""
        return self.rows(state) if self.NATURE.is_indexed else ()

    def exported(self, state: S) -> Iterable[R]:
        """Return the rows of an export, in its order: an import finds in it what it needs."""
        return oldest_first(self.rows(state))

    def chain(self, _row: R) -> str | None:
        """Return the session or episode of a row, if its neighbours help to find it."""
        return None

    # --- texts

    @abstractmethod
    def passages(self, row: R) -> Sequence[Passage]:
        """Return the indexed passages of a row. Passages without an index have empty digests."""

    def passage_text(self, row: R, _passage_label: int, events: Events) -> str:
        """Return the text of a passage, from the events of its row."""
        return self.content(row, events)

    def sources(self, row: R) -> Sequence[int]:
        """Return the versions of the events that hold a row's texts."""
        return (row.version,)

    def content(self, row: R, events: Events) -> str:
        """Return the text of a row."""
        return str(events[row.version].data.content)

    def data(self, _row: R, _events: Events) -> object:
        """Return the content of a row as JSON, if that is more than its text; else None."""
        return None

    # --- purges

    @abstractmethod
    def without(self, past: TaintedPast, row: R, state: S, limits: Limits) -> Decision | None:
        """Return the events that reduce a memory to the words of other sources.

        None if nothing remains.
        """

    def deleted(self, row: R, _state: S) -> Decision:
        """Return the events that take a memory away."""
        return [self.DELETED(memory_id=row.memory_id)]

    # --- memories that have gone
    #
    # The kind's own fold tells the last row of one: folded alone, the events about one memory, but
    # for its end, give the row that it had. They name others, too, of which this fold knows
    # nothing; every fold passes over those. Retention may have dropped what a memory said: then
    # only later texts count.

    def last(self, memory_id: str, past: Past) -> Life[R]:
        """Return the last life of a memory.

        :raises NotFoundError: it never was, or retention dropped what it said.
        """
        state, row, dropped = self.initial, None, None
        life: list[Recorded[object]] = []
        ended: Effect | None = None
        of_kind = set(self.registry.classes())
        for recorded in past:
            if isinstance(recorded.data, Dropped):
                state, row, dropped = self.initial, None, recorded.data
            elif type(recorded.data) in of_kind:
                what = effect(recorded.tag, recorded.data, memory_id)
                if what in ENDS:
                    ended = what
                    continue
                if what in BEGINS:
                    state, life, ended = self.initial if ended else state, [], None
                elif row is None:
                    continue
                state = self.fold(state, (recorded,))
                row = self.worded(state, memory_id) or row
                life.append(recorded)
        if row is None:
            self._refuse_return(memory_id, dropped)
        return Life(row, life, ended is Effect.COMPRESSED)

    def gone(self, command: Restore, state: S) -> list[Life[R]]:
        """Return the last lives of those memories that do not live, each once.

        :raises NotFoundError: one never was, or retention dropped what it said.
        """
        ids = dict.fromkeys(one for one in command.memory_ids if self.find(state, one) is None)
        return [self.last(memory_id, command.past.get(memory_id, ())) for memory_id in ids]

    def _refuse_return(self, memory_id: str, dropped: Dropped | None) -> NoReturn:
        if dropped is None:
            raise NotFoundError(f"no {self.NOUN} {memory_id!r} to restore: it was never there")
        raise NotFoundError(
            f"{self.NOUN} {memory_id!r} cannot come back: retention dropped what it said on "
            f"{dropped.since:%Y-%m-%d}; its summary is what is left"
        )


Kind: TypeAlias = BaseKind[Any, Any]
"""Any kind of memory."""


class Found(NamedTuple):
    """A living row and the kind it is of."""

    kind: Kind
    row: Any
