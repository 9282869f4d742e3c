"""Kinds whose memories are rows by id: one fold, one way of making room, one way back.

Which rows come, change and leave is declared with the events (`events.py`), so the fold is the same
for all of these kinds; a kind says what row an event begins, and what one makes of a row. Full
means full: what is new is refused or, with leave, the oldest tenth of what is not pinned goes.
"""

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.quota import Limits, refuse_bytes, refuse_count
from memory_actors.base.records import QuotaUse
from memory_actors.kinds.events import BEGINS, Effect, declared
from memory_actors.kinds.kind import BaseKind, R, Tally
from memory_actors.kinds.rows import Draft, Groups, Held, new_row, oldest, put_in, take_from


class Keyed(msgspec.Struct, Generic[R], frozen=True):
    """The living memories of a kind, and how many left so far. Never changes."""

    held: Held[R] = Held()
    groups: Groups = Map()
    """Ids by group and key, where the kind has such (`KeyedKind.place`)."""
    evicted: int = 0
    pruned: int = 0


K = TypeVar("K", bound=Keyed[Any])


class KeyedDraft(Draft[R]):
    """A state that changes in place, for one fold."""

    __slots__ = ("evicted", "groups", "kind", "pruned", "state")

    def __init__(self, kind: "KeyedKind[Any, R]", state: Keyed[R]):
        super().__init__(state.held)
        self.kind = kind
        self.state = state
        self.groups = state.groups.mutate()
        self.evicted = state.evicted
        self.pruned = state.pruned

    def put(self, row: R) -> R | None:
        """Add a row, or replace the one with its id, and return that one."""
        old = super().put(row)
        if old is None and (place := self.kind.place(row)) is not None:
            self.join(*place, row.memory_id)
        return old

    def join(self, group: str, key: str, memory_id: str) -> None:
        """Take an id into a group."""
        put_in(self.groups, group, key, memory_id)

    def part(self, group: str, key: str) -> None:
        """Take a key out of a group."""
        take_from(self.groups, group, key)

    def leave(self, memory_ids: Iterable[str], why: Effect) -> None:
        """Take memories away where they are there, and count them."""
        for memory_id in memory_ids:
            row = self.discard(memory_id)
            if row is not None and (place := self.kind.place(row)) is not None:
                self.part(*place)
            self.evicted += why is Effect.EVICTED
            self.pruned += why is Effect.PRUNED

    def fields(self) -> dict[str, Any]:
        """Return the fields of the state as they have become."""
        return {
            "held": self.finish(),
            "groups": self.groups.finish(),
            "evicted": self.evicted,
            "pruned": self.pruned,
        }


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

    ROW: ClassVar[type[Any]]
    BOUNDS: ClassVar[Bounds]

    # --- the fold

    def fold(self, state: K, events: Iterable[Recorded[Any]]) -> K:
        """Return the state after events of this kind."""
        draft = self.draft(state)
        for recorded in events:
            event = recorded.data
            effect, _, _, leaving = declared(type(event))
            for name, what in leaving:
                draft.leave(getattr(event, name), what)
            if effect is Effect.CHANGED:
                row = draft.rows.get(event.memory_id)
                if row is not None:
                    draft.put(self.changed(row, recorded))
            elif effect in BEGINS:
                draft.put(self.begun(recorded, draft.rows.get(event.memory_id)))
            else:
                ids = getattr(event, "memory_ids", None)
                draft.leave((event.memory_id,) if ids is None else ids, effect)
        return replace(state, **draft.fields())

    def draft(self, state: K) -> KeyedDraft[R]:
        """Return a copy of a state that changes in place."""
        return KeyedDraft(self, state)

    def begun(self, recorded: Recorded[Any], _old: R | None) -> R:
        """Return the row that an event begins; the old one is what was there under its id."""
        row: R = new_row(self.ROW, recorded)
        return row

    def changed(self, row: R, _recorded: Recorded[Any]) -> R:
        """Return a row after an event that changes it. Of some kinds none does."""
        return row

    def place(self, _row: R) -> tuple[str, str] | None:
        """Return the group of a row and its key there; None: there are no groups."""
        return None

    def of_rows(self, rows: Iterable[R], **lost: int) -> K:
        """Return the state of these rows, which has lost so many."""
        draft = self.draft(replace(self.initial, **lost))
        for row in rows:
            draft.put(row)
        return replace(self.initial, **draft.fields())

    # --- reads

    def tally(self, state: K) -> Tally:
        """Return what the state holds and has lost."""
        held = state.held
        return Tally(len(held), held.size_bytes, held.stored_bytes, state.evicted, state.pruned)

    def quotas(self, state: K, limits: Limits, _scope: str | None) -> Sequence[QuotaUse]:
        """Return how full each limit is."""
        noun, number_limit, bytes_limit = self.BOUNDS
        return (
            QuotaUse(noun, "count", len(state.held), getattr(limits, number_limit)),
            QuotaUse("bytes", "bytes", state.held.size_bytes, getattr(limits, bytes_limit)),
        )

    def rows(self, state: K) -> Iterable[R]:
        """Return every living row."""
        rows: Iterable[R] = state.held.rows.values()
        return rows

    def rows_of(self, state: K, group: str) -> Iterable[R]:
        """Return the living rows of a group."""
        return map(state.held.rows.__getitem__, state.groups.get(group, Map()).values())

    def find(self, state: K, memory_id: str) -> R | None:
        """Return a living row by id, or None."""
        row: R | None = state.held.rows.get(memory_id)
        return row

    def find_key(self, state: K, group: str, key: str) -> R | None:
        """Return the living row that has a key of a group, or None."""
        memory_id = state.groups.get(group, Map()).get(key)
        return None if memory_id is None else state.held.rows[memory_id]

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
    ) -> tuple[str, ...]:
        """Return who of those that may go has to, for so many new memories to fit.

        What they come instead of leaves room for them; where they take no more than that, they fit
        also above a limit that was lowered.

        :raises QuotaExceededError: there is no room, and none can or may be made.
        """
        noun, number_limit, bytes_limit = self.BOUNDS
        held, more = state.held, new - len(instead_of)
        growth = size_bytes - sum(one.size_bytes for one in instead_of)
        over_count = len(held) + more - getattr(limits, number_limit) if more > 0 else 0
        over_bytes = held.size_bytes + growth - getattr(limits, bytes_limit) if growth > 0 else 0
        if over_count <= 0 and over_bytes <= 0:
            return ()
        gone = None if may_go is None else oldest(may_go, len(held), over_count, over_bytes)
        if gone is None:
            if over_count > 0:
                refuse_count(self.NAME, noun, len(held), limits, number_limit, new=new)
            refuse_bytes(self.NAME, held.size_bytes, limits, bytes_limit, new=size_bytes)
        return gone
