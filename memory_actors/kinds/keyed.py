"""Kinds whose memories are rows by id: one fold, one way of making room, one way back.

Events declare which rows come, change and leave (`effects.py`); a kind says what row an event
begins, and what one makes of a row.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Sequence
from types import GenericAlias
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds.effects import DECLARED, Effect
from memory_actors.kinds.kind import BaseKind, Pruned, R, Row, Tally
from memory_actors.kinds.rows import Draft, HeldRows, Place, derived, oldest


class Compactable(Row, frozen=True, kw_only=True, array_like=True, gc=False):
    """A row that may be compressed, or be a summary."""

    pinned: bool
    keep: bool = False
    """It came back out of a summary: it is not compressed again."""
    original_count: int = 0
    """Above 0: this is a summary of so many memories."""
    bytes_before: int = 0
    """Bytes of the originals of a summary."""
    digests: tuple[bytes, ...] = ()
    """Digests of the passages, if it has several: of a summary, and of a long text."""
    since_us: int = 0
    """Time of the first original of a summary; `occurred_at_us` is that of the last."""


class Summaries(msgspec.Struct, frozen=True):
    """The living summaries, and the sums of their originals."""

    ids: Map[str, None] = Map()
    originals: int = 0
    bytes_before: int = 0
    bytes_after: int = 0

    def counted(self, row: Compactable, sign: int) -> "Summaries":
        """Return them with a summary more (+1), or less (-1)."""
        ids, memory_id = self.ids, row.memory_id
        return Summaries(
            ids.set(memory_id, None) if sign > 0 else ids.delete(memory_id),
            self.originals + sign * row.original_count,
            self.bytes_before + sign * row.bytes_before,
            self.bytes_after + sign * row.size_bytes,
        )


class Keyed(msgspec.Struct, Generic[R], frozen=True):
    """The living memories of a kind, and how many left so far. Never changes."""

    held: HeldRows[R] = HeldRows()
    evicted: int = 0
    pruned: int = 0
    summaries: Summaries = Summaries()


K = TypeVar("K", bound=Keyed[Any])


class KeyedDraft(Draft[R]):
    """A state that changes in place, for one fold."""

    __slots__ = ("evicted", "pruned", "summaries")

    def __init__(self, state: Keyed[R], place: Place[R] | None):
        super().__init__(state.held, place)
        self.evicted = state.evicted
        self.pruned = state.pruned
        self.summaries = state.summaries

    def leave(self, memory_ids: Collection[str], why: Effect) -> None:
        """Take memories away where they are there, and count them."""
        for memory_id in memory_ids:
            self.discard(memory_id)
        if why is Effect.EVICTED or why is Effect.EXPIRED:
            self.evicted += len(memory_ids)
        elif why is Effect.PRUNED:
            self.pruned += len(memory_ids)

    def fields(self) -> tuple[Any, ...]:
        """Return the fields of the state as they have become, in their order."""
        return self.finish(), self.evicted, self.pruned, self.summaries

    def _count(self, row: R, sign: int) -> None:
        self.size_bytes += sign * row.size_bytes
        self.stored_bytes += sign * row.stored_bytes
        if isinstance(row, Compactable) and row.original_count:
            self.summaries = self.summaries.counted(row, sign)


def rows_dump(name: str, row: type[Row], *lost: str) -> type[msgspec.Struct]:
    """Return the type of a snapshot of a kind: its rows in order, and counts of lost ones."""
    fields = [("rows", GenericAlias(list, (row,)), []), *((one, int, 0) for one in lost)]
    return msgspec.defstruct(name, fields, frozen=True)


class Bounds(NamedTuple):
    """The limits of a kind."""

    noun: str
    """What is counted."""
    number_limit: str
    """The name of the limit of their number."""
    bytes_limit: str
    """The name of the limit of their bytes."""


class Sized(Protocol):
    """Something that takes room."""

    @property
    def size_bytes(self) -> int:
        """Its bytes."""
        ...


class KeyedKind(BaseKind[K, R]):
    """A kind whose memories are rows by id."""

    BOUNDS: ClassVar[Bounds]
    DRAFT: ClassVar[type[KeyedDraft[Any]]] = KeyedDraft
    """The class of its states while they change."""
    PRUNED: ClassVar[type[Pruned]]
    """The event by which memories make room."""
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

    def of_rows(self, rows: Iterable[R], **fields: object) -> K:
        """Return the state of these rows, with these fields of its own."""
        draft = self.DRAFT(replace(self.initial, **fields), self.place)
        for row in rows:
            draft.put(row)
        return type(self.initial)(*draft.fields())

    # --- snapshots

    def dump(self, state: K) -> object:
        """Return the state as plain rows, with the numbers of those that left."""
        return derived(self.Dump, state, rows=state.held.in_order())

    def load(self, dumped: Any) -> K:
        """Return the state back."""
        fields = msgspec.structs.asdict(dumped)
        return self.of_rows(fields.pop("rows"), **fields)

    # --- reads

    def tally(self, state: K) -> Tally:
        """Return the counts and sizes of current and lost memories."""
        held, sums = state.held, state.summaries
        return Tally(
            len(held.rows), held.size_bytes, held.stored_bytes, state.evicted, state.pruned, 0,
            len(sums.ids), sums.originals, sums.bytes_before, sums.bytes_after,
        )  # fmt: skip

    def quotas(self, state: K, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
        """Return how full each limit is."""
        noun, number_limit, bytes_limit = self.BOUNDS
        return (
            QuotaUse(noun, "count", len(state.held.rows), getattr(limits, number_limit)),
            QuotaUse("bytes", "bytes", state.held.size_bytes, getattr(limits, bytes_limit)),
        )

    def rows(self, state: K) -> Iterable[R]:
        """Return every living row."""
        rows: Iterable[R] = state.held.rows.values()
        return rows

    def find(self, state: K, memory_id: str) -> R | None:
        """Return a living row by id, or None."""
        row: R | None = state.held.rows.get(memory_id)
        return row

    # --- room

    def make_room(
        self,
        state: K,
        limits: Limits,
        new: int,
        size_bytes: int,
        *,
        instead_of: Sequence[Sized] = (),
        may_go: Iterable[R] | None = None,
    ) -> list[Pruned]:
        """Return the event by which memories go, of those that may, to make room for new ones.

        Memories that they replace leave room for them; where they take no more than that, they fit
        also above a limit that was lowered.

        :raises QuotaExceededError: there is no room, and none can or may be made.
        """
        noun, number_limit, bytes_limit = self.BOUNDS
        held, more = state.held, new - len(instead_of)
        count = len(held.rows)
        growth = size_bytes - sum([one.size_bytes for one in instead_of])
        over_count = count + more - getattr(limits, number_limit) if more > 0 else 0
        over_bytes = held.size_bytes + growth - getattr(limits, bytes_limit) if growth > 0 else 0
        if over_count <= 0 and over_bytes <= 0:
            return []
        gone = None if may_go is None else oldest(may_go, count, over_count, over_bytes)
        if gone is None:
            if over_count > 0:
                refuse_count(self.NAME, noun, count, limits, number_limit, new=new)
            refuse_bytes(self.NAME, held.size_bytes, limits, bytes_limit, new=size_bytes)
        return [self.PRUNED(memory_ids=gone, cause="quota")]
