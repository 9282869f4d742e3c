"""Rows of memories: made of events, and kept by id with their sums.

Fields that an event, a row and a command share have one name, so `derived` makes one of the other.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from heapq import nsmallest
from typing import Any, Generic, TypeAlias, TypeVar

import msgspec
from immutables import Map
from msgspec.structs import asdict, replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded, to_datetime
from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import IS_COMPRESSED, JsonObject, Memory, Metadata
from memory_actors.kinds.commands import Update
from memory_actors.kinds.effects import Effect, Updated

PRUNE_DIVISOR = 10  # a prune deletes the oldest tenth, so that its cost is spread over many adds


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


R = TypeVar("R", bound=Row)
S = TypeVar("S", bound=msgspec.Struct)
U = TypeVar("U", bound=Updated)


def is_summary(row: Row) -> bool:
    """Say whether a row stands for memories that were compressed."""
    return getattr(row, "original_count", 0) > 0


def last_true_us(row: Row) -> int:
    """Return when a memory was true last: later than `occurred_at_us` if it was said again."""
    return getattr(row, "last_seen_us", 0) or row.occurred_at_us


def oldest_first(rows: Iterable[R]) -> list[R]:
    """Return rows by the time they were true, then by the order of arrival."""
    return sorted(rows, key=lambda row: (row.occurred_at_us, row.version))


# --- one struct made of another


@cache
def _foreign(cls: type[msgspec.Struct], source: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(source.__struct_fields__).difference(cls.__struct_fields__)


def _in_common(cls: type[msgspec.Struct], source: msgspec.Struct) -> dict[str, Any]:
    """Return the fields of a struct that a class has, too. All at once: each replay needs it."""
    fields = asdict(source)
    for name in _foreign(cls, type(source)):
        del fields[name]
    return fields


def derived(cls: type[S], /, *sources: msgspec.Struct, **fields: object) -> S:
    """Return a struct with these fields, and else those that it has in common with others.

    The first of them that has a field gives it.
    """
    for source in sources:
        fields = _in_common(cls, source) | fields
    return cls(**fields)


_OF_ANY = {"original_count", *Memory.__struct_fields__} - {"agent_id", "key", "source"}
"""The fields that each memory has, or each summary. The agent of an episode, the key of a document
and the source of a relationship are its own."""


def record_data(record: type[msgspec.Struct], *sources: object, **fields: object) -> JsonObject:
    """Return the data of a memory: the fields of its record that not each memory has, as JSON.

    They are `fields`, or of the first of the `sources` that has them; a time also in microseconds.
    """
    names = [name for name in record.__struct_fields__ if name not in _OF_ANY]
    return {name: fields[name] if name in fields else _json_of(name, sources) for name in names}


def _json_of(name: str, sources: Sequence[object]) -> object:
    for source in sources:
        if hasattr(source, name):
            return getattr(source, name)
    time_us = next(getattr(one, f"{name}_us") for one in sources if hasattr(one, f"{name}_us"))
    return None if time_us is None else to_datetime(time_us).isoformat()


def new_row(cls: type[R], recorded: AnyRecorded, **fields: object) -> R:
    """Return the row that an event begins, with these fields besides those that it names."""
    event: msgspec.Struct = recorded.data
    row: R = _row_maker(cls, type(event), tuple(fields))(recorded, event, fields)
    return row


@cache
def _row_maker(
    cls: type[Row], event: type[msgspec.Struct], given: tuple[str, ...]
) -> Callable[..., Any]:
    """Return a function that makes a row of an event and the given fields.

    It is compiled, because each replay calls it for each event: to make a dict of the fields first
    takes twice as long.
    """
    of = {name: f"event.{name}" for name in event.__struct_fields__}
    of |= {name: f"recorded.{name}" for name in ("version", "stored_bytes")}
    of["compressed"] = "recorded.stored_bytes < recorded.raw_bytes"
    began = of.get("created_at_us", "None")  # None: it was not there before
    of["created_at_us"] = f"recorded.recorded_at_us if {began} is None else {began}"
    of |= {name: f"fields[{name!r}]" for name in given}
    call = ", ".join(f"{name}={of[name]}" for name in cls.__struct_fields__ if name in of)
    made: Callable[..., Any] = eval(  # noqa: S307 - of the names of fields
        f"lambda recorded, event, fields: cls({call})", {"cls": cls}
    )
    return made


def same_json(one: object, other: object) -> bool:
    """Say whether two JSON values are the same; Python says that of True and 1, and JSON not."""
    return bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other)


def updated_row(row: R, event: Updated, recorded: Recorded[object], **with_content: object) -> R:
    """Return a row after an update; `with_content` changes too if the content does."""
    row = kept(row, event)
    return row if event.content is None else reworded(row, recorded, **with_content)


def kept(row: R, event: Any) -> R:
    """Return a row with what an update says beside the content: metadata, and whether it stays."""
    if event.metadata is not None:
        row = replace(row, metadata=event.metadata)
    return row if event.pinned is None else replace(row, pinned=event.pinned)


def changed_pin(pinned: bool | None, row: Any) -> bool | None:
    """Return whether a memory is pinned from now on; None: as it was."""
    return None if pinned is None or pinned == row.pinned else pinned


def reworded(row: R, recorded: AnyRecorded, **fields: object) -> R:
    """Return a row whose text is that of an event from now on; `fields` change with it."""
    return replace(
        row,
        version=recorded.version,
        size_bytes=recorded.data.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        **fields,
    )


def update_of(
    event: type[U], command: Update, row: Row, *, same_content: bool = False, **fields: Any
) -> U | None:
    """Return the event that an update comes to, None if it changes nothing."""
    metadata = None if same_json(command.metadata, row.metadata) else command.metadata
    pinned = changed_pin(command.pinned, row)
    fields |= {"memory_id": row.memory_id, "metadata": metadata, "pinned": pinned}
    if command.content is not None and not same_content:
        return derived(event, command, **fields)
    return None if metadata is None and pinned is None else event(**fields)


# --- rows by id

Groups: TypeAlias = Map[str, Map[str, str]]
"""Memory ids by group and by their key in it. A group without ids is not there."""
Place: TypeAlias = Callable[[R], tuple[str, str]]
"""A function that gives the group of a row, and its key there."""


class Keyed(msgspec.Struct, Generic[R], frozen=True):
    """The living memories of a kind, the sums of their sizes, and how many left so far.

    Never changes: a `Draft` makes the next one.
    """

    rows: Mapping[str, R] = Map()
    size_bytes: int = 0
    stored_bytes: int = 0
    groups: Groups = Map()
    """Ids by group and key, where rows have such: documents by collection, entities by name."""
    evicted: int = 0
    pruned: int = 0

    def living(self, noun: str, memory_id: str) -> R:
        """Return a row.

        :raises NotFoundError: it is not there.
        """
        row = self.rows.get(memory_id)
        if row is None:
            raise NotFoundError(f"no {noun} {memory_id!r}: it was never there, or it was deleted")
        return row

    def in_order(self) -> list[R]:
        """Return the rows in the order of their texts' versions."""
        return sorted(self.rows.values(), key=lambda row: (row.version, row.memory_id))

    def named(self, group: str, key: str) -> R | None:
        """Return the row that has a key of a group, or None."""
        memory_id = self.groups.get(group, Map()).get(key)
        return None if memory_id is None else self.rows[memory_id]

    def of_group(self, group: str) -> Iterator[R]:
        """Yield the rows of a group."""
        return map(self.rows.__getitem__, self.groups.get(group, Map()).values())


class Draft(Generic[R]):
    """Rows that change in place: ten times as fast as one `Keyed` after each event."""

    __slots__ = ("evicted", "groups", "place", "pruned", "rows", "size_bytes", "stored_bytes")

    def __init__(self, state: Keyed[R], place: Place[R] | None = None):
        rows: Any = state.rows
        self.rows = rows.mutate()
        self.size_bytes = state.size_bytes
        self.stored_bytes = state.stored_bytes
        self.groups = state.groups.mutate()
        self.place = place
        self.evicted, self.pruned = state.evicted, state.pruned

    def get(self, memory_id: str) -> R | None:
        """Return a row, or None."""
        row: R | None = self.rows.get(memory_id)
        return row

    def put(self, row: R) -> R | None:
        """Add a row, or replace the one with its id, and return that one."""
        old: R | None = self.rows.get(row.memory_id)
        if old is not None:
            self._count(old, -1)
        elif self.place is not None:
            self._join(*self.place(row), row.memory_id)
        self.rows[row.memory_id] = row
        self._count(row, +1)
        return old

    def drop(self, memory_id: str) -> R:
        """Take a row away and return it."""
        row: R = self.rows.pop(memory_id)
        self._count(row, -1)
        if self.place is not None:
            self._part(*self.place(row), memory_id)
        return row

    def discard(self, memory_id: str) -> R | None:
        """Take a row away if it is there, and return it."""
        return self.drop(memory_id) if memory_id in self.rows else None

    def _count(self, row: R, sign: int) -> None:
        self.size_bytes += sign * row.size_bytes
        self.stored_bytes += sign * row.stored_bytes

    def _join(self, group: str, key: str, memory_id: str) -> None:
        self.groups[group] = self.groups.get(group, Map()).set(key, memory_id)

    def _part(self, group: str, key: str, memory_id: str) -> None:
        """Take an id out of its group, and the group away with its last one."""
        known = self.groups.get(group, Map())
        # Another one has the key if a newer Unicode made two names one: a replay goes on as well.
        if known.get(key) != memory_id:
            return
        if len(known) > 1:
            self.groups[group] = known.delete(key)
        else:
            del self.groups[group]

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
        return (
            self.rows.finish(), self.size_bytes, self.stored_bytes, self.groups.finish(),
            self.evicted, self.pruned,
        )  # fmt: skip


def oldest(
    rows: Iterable[Any], count: int, over_count: int, over_bytes: int
) -> tuple[str, ...] | None:
    """Return as many tenths of the oldest unpinned of `count` rows as bring both under zero.

    They are in order of the time they were last true, then of arrival. Return None if all of them
    are too few.
    """
    tenth = max(1, count // PRUNE_DIVISOR)
    unpinned = [row for row in rows if not row.pinned]
    taken: list[Any] = []
    # Most often the first tenth is enough: a heap of it spares sorting the rest.
    ordered = nsmallest(tenth, unpinned, key=_age)
    while over_count > 0 or over_bytes > 0:
        chunk = ordered[len(taken) : len(taken) + tenth]
        if not chunk and len(ordered) < len(unpinned):
            ordered = sorted(unpinned, key=_age)
            continue
        if not chunk:
            return None
        taken += chunk
        over_count -= len(chunk)
        over_bytes -= sum(row.size_bytes for row in chunk)
    return tuple(row.memory_id for row in taken)


def _age(row: Row) -> tuple[int, int]:
    return last_true_us(row), row.version
