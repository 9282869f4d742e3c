"""The parts that a kind of memory is made of.

Each kind is a module or a package, in one order: events, state, commands, and a subclass of
`BaseKind` that says in what the kind differs from others (`compacting.py` has what kinds with
summaries share). Its one object is `KIND`; `user_state.py` joins the kinds of one user.

The rules every kind keeps:

- `decide` is pure. The time, ids and, for an eviction, the order of last use arrive in the command.
- An event names its victims: what is evicted, pruned or expired is listed, so that a replay repeats
  the decision and does not take it again.
- A refused command raises; a satisfied one returns no events.
- Memories are rows by id. Events declare which rows come, change and leave (`effects.py`); a kind
  says what row an event begins, and what one makes of a row.
- Texts stay in the log. A row of a state knows the versions of the events that have its texts.
- Rows and events are trees of JSON, so they tell the garbage collector to pass them by (gc=False).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from itertools import chain
from types import GenericAlias
from typing import Any, ClassVar, Final, Generic, NamedTuple, NoReturn, Protocol, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from eventlog import Dropped, EventRegistry, Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds.commands import Command, Delete, Restore
from memory_actors.kinds.effects import (
    BEGINS,
    DECLARED,
    ENDS,
    Decision,
    Effect,
    Event,
    KindRegistry,
    Pruned,
    effect,
)
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.past import Events, Life, Past, TaintedPast
from memory_actors.kinds.rows import Draft, Keyed, Place, R, Row, derived, oldest_first, update_of

Decide: TypeAlias = Callable[[Any, Any, Limits], Sequence[Event]]
Victims: TypeAlias = Callable[..., tuple[str, ...] | None]
"""A function from the shortage of each limit to the ids to remove, or None if too few are left."""

ROW_BYTES: Final = 900  # measured: a row with a small metadata dict, its place in a map, its label

S = TypeVar("S")
K = TypeVar("K", bound=Keyed[Any])


def tentative(events: Iterable[object], now_us: int = 0, version: int = 0) -> list[AnyRecorded]:
    """Return events that have no place in the log yet as a fold takes them, from a version on."""
    return [
        Recorded("", n, n, now_us, "", event, 0, 0, b"") for n, event in enumerate(events, version)
    ]


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


# --- parts


class Part(ABC, Generic[S]):
    """One part of a user's state: its events, commands and decisions."""

    NAME: ClassVar[str]
    registry: ClassVar[EventRegistry]
    Dump: ClassVar[type[msgspec.Struct]]
    """The state as plain rows: what a snapshot holds."""
    initial: S
    evolve: ClassVar[Callable[..., Any]]
    """A function that folds one event into the state, where `fold` does not take all at once."""

    def __init__(self) -> None:
        self._decisions = dict(self.decisions())
        self.COMMANDS = tuple(self._decisions)

    def fold(self, state: S, events: Iterable[AnyRecorded]) -> S:
        """Return the state after events of this part; total over them."""
        folded: S = reduce(type(self).evolve, events, state)
        return folded

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


class Bound(NamedTuple):
    """A limit of a kind."""

    quota: str
    """The thing that is limited: memories, bytes, …"""
    limit: str
    """The name of the limit."""
    unit: str = "count"
    """count or bytes."""
    evicts: bool = False
    """True: what is too much leaves by itself."""
    noun: str = ""
    """The word for it in errors, if that is not the quota."""


class Sized(Protocol):
    """Something that takes room."""

    @property
    def size_bytes(self) -> int:
        """Its bytes."""
        ...


class Worded(Sized, Protocol):
    """A text that an update replaces."""

    @property
    def digest(self) -> bytes:
        """Digest of the text."""
        ...


def rows_dump(
    name: str, row: type[Row], *lost: str, **more: tuple[object, object]
) -> type[msgspec.Struct]:
    """Return the type of a snapshot of a kind: its rows in order, counts of lost ones, and `more`.

    `more` has the type and the default of each further field of the state.
    """
    fields = [("rows", GenericAlias(list, (row,)), []), *((one, int, 0) for one in lost)]
    fields += [(field, *of) for field, of in more.items()]
    return msgspec.defstruct(name, fields, frozen=True)


class BaseKind(Part[K], Generic[K, R]):
    """A part that holds memories, which are rows by id: counted, listed, read and searched.

    A kind is the one object of a subclass, `KIND` in its module. This class has the methods that
    most kinds share.
    """

    NATURE: ClassVar[Nature] = Nature()
    NOUN: ClassVar[str] = "memory"
    """One of its memories, for errors."""
    MISSING: ClassVar[str] = "it was never there, or it was deleted"
    """Why a memory may not be there, for errors."""
    BOUNDS: ClassVar[tuple[Bound, ...]]
    """Its limits. `make_room` takes that of the number of memories first, that of bytes last."""
    DRAFT: ClassVar[type[Draft[Any]]] = Draft
    """The class of its states while they change."""
    DELETED: ClassVar[type[Event]]
    """The event by which a memory goes, made of its row."""
    PRUNED: ClassVar[type[Pruned]]
    """The event by which memories make room."""
    UPDATED: ClassVar[type[Any]]
    """The event of an update: an `Updated`, or with a value in place of the content."""
    UPDATE: ClassVar[type[Any]]
    DELETE: ClassVar[type[Delete]]
    RESTORE: ClassVar[type[Restore] | None] = None
    """None: nothing is kept that could come back."""
    registry: ClassVar[KindRegistry]
    place: Place[Any] | None = None
    """Gives the group of a row and its key there; None: there are no groups."""

    # --- the fold

    def fold(self, state: K, events: Iterable[Recorded[object]]) -> K:
        """Return the state after events of this kind."""
        draft = self.DRAFT(state, self.place)
        for recorded in events:
            self.apply(draft, recorded)
        return type(state)(*draft.fields())

    def apply(self, draft: Any, recorded: AnyRecorded) -> None:
        """Fold one event into a draft of this kind."""
        event = recorded.data
        effect, _, _, begins, leaving = DECLARED[type(event)]
        for name, what in leaving:
            draft.leave(getattr(event, name), what)
        if begins:
            draft.put(self.begun(recorded, draft))
            return
        ids = getattr(event, "memory_ids", None)
        ids = (event.memory_id,) if ids is None else ids
        if effect is not Effect.CHANGED:
            draft.leave(ids, effect)
            return
        for row in map(draft.get, ids):
            if row is not None:
                draft.put(self.changed(row, recorded))

    @abstractmethod
    def begun(self, recorded: AnyRecorded, draft: Draft[R], /) -> R:
        """Return the row that an event begins; the draft has those that live."""

    def changed(self, row: R, _recorded: Recorded[object]) -> R:
        """Return a row after an event that changes it. By default it stays the same."""
        return row

    def of_rows(self, rows: Iterable[R], **fields: Any) -> K:
        """Return the state of these rows, with these fields of its own."""
        draft = self.DRAFT(replace(self.initial, **fields), self.place)
        for row in rows:
            draft.put(row)
        return type(self.initial)(*draft.fields())

    # --- snapshots

    def dump(self, state: K) -> object:
        """Return the state as plain rows, with the numbers of those that left."""
        return derived(self.Dump, state, rows=state.in_order())

    def load(self, dumped: Any) -> K:
        """Return the state back."""
        fields = msgspec.structs.asdict(dumped)
        return self.of_rows(fields.pop("rows"), **fields)

    # --- decide

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        found: dict[type[Command], Decide] = {self.DELETE: self._delete, self.UPDATE: self._update}
        return found if self.RESTORE is None else {**found, self.RESTORE: self._bring_back}

    def living(self, state: K, memory_id: str) -> R:
        """Return a living row.

        :raises NotFoundError: it is not there.
        """
        row = self.find(state, memory_id)
        if row is None:
            raise NotFoundError(f"no {self.NOUN} {memory_id!r}: {self.MISSING}")
        return row

    def put_again(self, _command: Any, _state: K) -> str | None:
        """Return the memory that a value was put into which it has already; None for other adds."""
        return None

    def _delete(self, command: Any, state: K, _limits: Limits) -> Decision:
        return self.deleted(self.living(state, command.memory_id), state)

    def deleted(self, row: R, _state: K) -> Decision:
        """Return the events that take a memory away."""
        return [derived(self.DELETED, row)]

    def _update(self, command: Any, state: K, limits: Limits) -> Decision:
        row = self.living(state, command.memory_id)
        reworded = command.content is not None and not self.is_said(command, row)
        if reworded:
            self.check_reworded(row)
            self.make_room(state, limits, 1, command.size_bytes, instead_of=[self.text_of(row)])
        updated = update_of(self.UPDATED, command, row, same_content=not reworded)
        return [] if updated is None else [updated]

    def text_of(self, row: Any) -> Worded:
        """Return the text that an update replaces."""
        text: Worded = row
        return text

    def is_said(self, command: Any, row: R) -> bool:
        """Say whether a memory has the content of an update already."""
        return bool(command.digest == self.text_of(row).digest)

    def check_reworded(self, row: R) -> None:
        """Refuse a new text for a memory that cannot get one."""

    # --- room

    def used(self, state: K, _whose: str | None) -> tuple[int, ...]:
        """Return the use of each limit; of this session or agent, or of the fullest one."""
        return len(state.rows), state.size_bytes

    def quotas(self, state: K, limits: Limits, whose: str | None) -> Sequence[QuotaUse]:
        """Return how full each limit is; of this session or agent, or of the fullest one."""
        return [
            QuotaUse(quota, unit, used, getattr(limits, limit), evicts)
            for (quota, limit, unit, evicts, _), used in zip(
                self.BOUNDS, self.used(state, whose), strict=True
            )
        ]

    def make_room(
        self,
        state: K,
        limits: Limits,
        *asked: int,
        instead_of: Sequence[Sized] = (),
        victims: Victims | None = None,
    ) -> list[Pruned]:
        """Return the event by which memories go to make room for what is `asked` of each limit.

        Memories that are replaced leave room for it; what takes no more than they did fits also
        above a limit that was lowered.

        :raises QuotaExceededError: there is no room, and none can or may be made.
        """
        need = list(asked)
        if instead_of:
            need[0] -= len(instead_of)
            need[-1] -= sum([one.size_bytes for one in instead_of])
        used = self.used(state, None)
        lacking = [
            over if more > 0 and (over := held + more - getattr(limits, bound.limit)) > 0 else 0
            for bound, held, more in zip(self.BOUNDS, used, need, strict=True)
        ]
        if not any(lacking):
            return []
        gone = None if victims is None else victims(*lacking)
        if gone is None:
            n = next(n for n, one in enumerate(lacking) if one)
            self._refuse(self.BOUNDS[n], used[n], limits, asked[n])
        return [self.PRUNED(memory_ids=gone, cause="quota")]

    def _refuse(self, bound: Bound, used: int, limits: Limits, new: int) -> NoReturn:
        if bound.unit == "bytes":
            refuse_bytes(self.NAME, used, limits, bound.limit, new=new)
        refuse_count(self.NAME, bound.noun or bound.quota, used, limits, bound.limit, new=new)

    # --- the way back, and purges

    def back(self, life: Life[R], limits: Limits) -> tuple[R, list[Any]]:
        """Return the last row of a memory, and the events by which it comes back."""
        raise NotImplementedError  # of kinds that keep nothing that could

    def _bring_back(
        self, command: Restore, state: K, limits: Limits, instead_of: Sequence[R] = ()
    ) -> list[Any]:
        """Return the events that restore the deleted memories, in place of others."""
        back = [self.back(life, limits) for life in self.gone(command, state)]
        came = list(chain.from_iterable(events for _, events in back))
        self.check_back(came, state)
        self.check_room([row for row, _ in back], state, limits, instead_of)
        return came

    def check_back(self, came: Sequence[Any], state: K) -> None:
        """Refuse to bring back what has lost its place."""

    def check_room(
        self, coming: Sequence[Sized], state: K, limits: Limits, instead_of: Sequence[R] = ()
    ) -> None:
        """Refuse rows, or summaries, for which there is no room in the place of others.

        :raises QuotaExceededError: there is none.
        """
        size_bytes = sum(one.size_bytes for one in coming)
        self.make_room(state, limits, len(coming), size_bytes, instead_of=instead_of)

    def cleaned(self, past: TaintedPast) -> Past:
        """Return the events about a memory without the words of a source."""
        return past.clean

    def told_again(self, past: TaintedPast, limits: Limits) -> list[Any] | None:
        """Return the events that bring a memory back with what other sources have said of it.

        None if nothing remains.
        """
        try:
            return self.back(self.last(past.memory_id, self.cleaned(past)), limits)[1]
        except NotFoundError:
            return None

    def without(self, past: TaintedPast, _row: R, _state: K, limits: Limits) -> Decision | None:
        """Return the events that reduce a memory to the words of other sources.

        None if nothing remains.
        """
        return self.told_again(past, limits)

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
            if dropped is None:
                raise NotFoundError(f"no {self.NOUN} {memory_id!r} to restore: it was never there")
            raise NotFoundError(
                f"{self.NOUN} {memory_id!r} cannot come back: retention dropped what it said on "
                f"{dropped.since:%Y-%m-%d}; its summary is what is left"
            )
        return Life(row, life, ended is Effect.COMPRESSED)

    def gone(self, command: Restore, state: K) -> list[Life[R]]:
        """Return the last lives of those memories that do not live, each once.

        :raises NotFoundError: one never was, or retention dropped what it said.
        """
        ids = dict.fromkeys(one for one in command.memory_ids if self.find(state, one) is None)
        return [self.last(memory_id, command.past.get(memory_id, ())) for memory_id in ids]

    # --- rows

    def tally(self, state: K) -> Tally:
        """Return the counts and sizes of current and lost memories."""
        return Tally(
            len(state.rows), state.size_bytes, state.stored_bytes, state.evicted, state.pruned
        )

    def held_bytes(self, state: K) -> int:
        """Return the memory that the state takes, roughly; texts that are in the log are not."""
        sums = self.tally(state)
        return ROW_BYTES * (sums.count + sums.relationships)

    def at(self, state: K, _now_us: int) -> K:
        """Return the state as it reads at a time: without what has expired."""
        return state

    def rows(self, state: K) -> Iterable[R]:
        """Return every living row."""
        rows: Iterable[R] = state.rows.values()
        return rows

    def find(self, state: K, memory_id: str) -> R | None:
        """Return a living row by id, or None."""
        row: R | None = state.rows.get(memory_id)
        return row

    def worded(self, state: K, memory_id: str) -> R | None:
        """Return the row of whatever has words, also if it is no memory; or None."""
        return self.find(state, memory_id)

    def at_hand(self, _state: K, _session_id: str | None) -> Sequence[R]:
        """Return the rows that a query embeds on its way: few, or none where there is an index."""
        return ()

    def indexed_rows(self, state: K) -> Iterable[R]:
        """Return the living rows that an index finds, in any order; quick where there are none."""
        return self.rows(state) if self.NATURE.is_indexed else ()

    def exported(self, state: K) -> Iterable[R]:
        """Return the rows of an export, in its order: an import finds in it what it needs."""
        return oldest_first(self.rows(state))

    def chain(self, row: Any) -> str | None:
        """Return the session or episode of a row, if its neighbours help to find it."""
        session_id: str | None = getattr(row, "session_id", None)
        return session_id

    # --- texts

    def passages(self, row: Any) -> Sequence[Passage]:
        """Return the indexed passages of a row. Passages without an index have empty digests."""
        digest, place = getattr(row, "digest", b""), getattr(row, "began", 0)
        return (Passage(label(row.version), digest, place),)

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


Kind: TypeAlias = BaseKind[Any, Any]
"""Any kind of memory."""


class Found(NamedTuple):
    """A living row and the kind it is of."""

    kind: Kind
    row: Any
