"""Functions that kinds have in common, and those of kinds that have no use for a part of `Kind`."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeVar

import msgspec

from eventlog import Recorded
from memory_actors.base.quota import Limits
from memory_actors.kinds.kind import Command, Decide, Events, Row, Tally

ROW_BYTES: Final = 900  # measured: a row with a small metadata dict, its place in a map, its label

S = TypeVar("S")
R = TypeVar("R", bound=Row)


def timeless(state: S, _now_us: int) -> S:
    """Return the state: nothing of this kind expires."""
    return state


def by_rows(tally: Callable[[S], Tally]) -> Callable[[S], int]:
    """Return a function that returns the memory that such rows take, one like another."""

    def held_bytes(state: S) -> int:
        sums = tally(state)
        return ROW_BYTES * (sums.count + sums.relationships)

    return held_bytes


def none_at_hand(_state: Any, _session_id: str | None) -> Sequence[Any]:
    """Return no rows: this kind is indexed."""
    return ()


def no_rows(_state: Any) -> Sequence[Any]:
    """Return no rows: this kind is never indexed."""
    return ()


def no_chain(_row: Any) -> None:
    """Return nothing: rows of this kind stand alone."""


def its_session(row: Any) -> str | None:
    """Return the session of a row."""
    session_id: str | None = row.session_id
    return session_id


def no_data(_row: Any, _events: Events) -> None:
    """Return nothing: the content says it all."""


def by_age(rows: Callable[[S], Iterable[R]]) -> Callable[[S], list[R]]:
    """Return a function that returns such rows, the oldest first."""
    return lambda state: oldest_first(rows(state))


def oldest_first(rows: Iterable[R]) -> list[R]:
    """Return rows by the time they were true, then by the order of arrival."""
    return sorted(rows, key=lambda row: (row.occurred_at_us, row.version))


def deleting(event: Callable[..., Any]) -> Callable[[Any, Any], Sequence[Any]]:
    """Return a function that takes a memory away by an event with its id alone."""
    return lambda row, _state: [event(memory_id=row.memory_id)]


def own_version(row: Row) -> Sequence[int]:
    """Return the version of the one event that has a row's text."""
    return (row.version,)


def its_content(row: Row, events: Events) -> str:
    """Return the content of the one event that has a row's text."""
    return str(events[row.version].data.content)


def folding(
    evolve: Callable[[S, Recorded[Any]], S],
) -> Callable[[S, Iterable[Recorded[Any]]], S]:
    """Return the fold of an `evolve`."""

    def fold(state: S, events: Iterable[Recorded[Any]]) -> S:
        return reduce(evolve, events, state)

    return fold


def deciding(decisions: Mapping[type[Command], Callable[..., Sequence[Any]]]) -> Decide:
    """Return the `decide` of a kind: a command goes to the decision of its type."""

    def decide(command: Command, state: Any, limits: Limits) -> Sequence[Any]:
        return decisions[type(command)](command, state, limits)

    return decide


def same_json(one: Any, other: Any) -> bool:
    """Say whether two JSON values are the same; Python says that of True and 1, and JSON not."""
    return bool(one == other) and msgspec.json.encode(one) == msgspec.json.encode(other)
