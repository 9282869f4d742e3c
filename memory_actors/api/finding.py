"""The memories that a call is about: by an id, by kinds and filters, or all of them in order.

An export comes in an order in which an import, line by line, finds what it needs: facts first, then
entities, the relationships between them, episodes and documents, each oldest first; then messages,
the session that was used last at the end; then working memory as it was set; then context
documents, block by block. An import in this order gives the same order again.
"""

from collections.abc import Iterator, Mapping, Sequence
from heapq import nsmallest
from typing import Any, NamedTuple

from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.filters import Predicate, predicate
from memory_actors.base.origins import Wanted, wanted
from memory_actors.base.records import MemoryType, Time, Trust
from memory_actors.base.validation import (
    check_member,
    check_name,
    check_optional_name,
    time_us,
)
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.rows import is_summary, last_true_us
from memory_actors.kinds.user_state import KIND_BY_NAME, KINDS, UserState
from memory_actors.users.handles.scope import Scope


async def found(scope: Scope, memory_id: str) -> Found:
    """Return a living memory.

    :raises NotFoundError: there is none with this id.
    """
    check_name(memory_id, "memory_id")
    return found_in(await scope.state(), memory_id, scope.now_us())


def found_in(state: UserState, memory_id: str, now_us: int) -> Found:
    """Return a memory that lives in a state as it reads at a time.

    :raises NotFoundError: there is none with this id.
    """
    for kind in KINDS:
        part = state.of(kind)
        row = kind.find(part, memory_id)
        if row is not None and (now := kind.at(part, now_us)) is not part:
            row = kind.find(now, memory_id)
        if row is not None:
            return Found(kind, row)
    raise NotFoundError(
        f"no memory {memory_id!r}: never there, pending, deleted, evicted, expired, or compressed "
        "into a summary; `why` tells what became of it"
    )


async def found_summary(scope: Scope, memory_id: str) -> Found:
    """Return a living summary.

    :raises NotFoundError: there is no memory with this id, or it is no summary.
    """
    one = await found(scope, memory_id)
    if not is_summary(one.row):
        raise NotFoundError(f"{memory_id!r} is no compressed memory: it stands for itself")
    return one


SEARCHED = tuple(kind for kind in KINDS if kind.NATURE.is_searched)
"""The kinds that a query searches if none is named."""


def named_kinds(
    memory_types: Sequence[MemoryType | str] | None, unnamed: Sequence[Kind] = KINDS
) -> Sequence[Kind]:
    """Return the kinds of these names; for None, `unnamed`.

    :raises InvalidInputError: a name is none, or they are no list.
    """
    if memory_types is None:
        return unnamed
    if isinstance(memory_types, str):
        memory_types = [memory_types]
    if not isinstance(memory_types, Sequence):
        raise InvalidInputError(f"memory_types must be a list of types, not {memory_types!r:.80}")
    named = (check_member(MemoryType, one, "memory type") for one in memory_types)
    return [KIND_BY_NAME[name] for name in dict.fromkeys(named)]


def searched_kinds(
    memory_type: MemoryType | str | None, memory_types: Sequence[MemoryType | str] | None
) -> Sequence[Kind]:
    """Return the kinds that a query searches: the one that is named, several, or the usual ones.

    :raises InvalidInputError: both are given, or a name is none.
    """
    if memory_type is None:
        return named_kinds(memory_types, SEARCHED)
    if memory_types is not None:
        raise InvalidInputError("give memory_type, for one, or memory_types, for several")
    return named_kinds([memory_type])


class Chosen(NamedTuple):
    """The memories that a caller means."""

    kinds: Sequence[Kind]
    matches: Predicate | None
    """The test that filters make."""
    of_origin: Wanted | None
    agent_id: str | None = None
    session_id: str | None = None
    since_us: int | None = None
    until_us: int | None = None

    def takes(self, row: Any) -> bool:
        """Return True if a row is of the session, and was true within the times."""
        return (
            (self.session_id is None or getattr(row, "session_id", None) == self.session_id)
            and (self.since_us is None or last_true_us(row) >= self.since_us)
            and (self.until_us is None or row.occurred_at_us <= self.until_us)
        )


def chosen(
    memory_types: Sequence[MemoryType | str] | None,
    filters: Mapping[str, object] | None,
    sources: Sequence[str] | None,
    min_trust: Trust | str | None,
    agent_id: str | None,
    session_id: str | None = None,
    since: Time | None = None,
    until: Time | None = None,
) -> Chosen:
    """Return the validated selection of memories.

    :raises InvalidInputError: an unknown type, a bad filter, source, trust, agent, session or time.
    """
    return Chosen(
        named_kinds(memory_types),
        predicate(filters),
        wanted(sources, min_trust),
        check_optional_name(agent_id, "agent_id"),
        check_optional_name(session_id, "session_id"),
        time_us(since, "since"),
        time_us(until, "until"),
    )


def matching(state: UserState, which: Chosen) -> Iterator[Found]:
    """Yield the rows that are meant. Slow for many: in a thread."""
    kinds, matches, of_origin, agent_id, *more = which
    is_narrowed = any(one is not None for one in more)
    agents = state.provenance.agents
    for kind in kinds:
        for row in kind.rows(state.of(kind)):
            if matches is not None and not matches(row.shown_metadata):
                continue
            if is_narrowed and not which.takes(row):
                continue
            if agent_id is not None and agents.get(row.memory_id) != agent_id:
                continue
            if of_origin is None or of_origin(state.provenance.of(row.memory_id)):
                yield Found(kind, row)


def newest(state: UserState, which: Chosen, count: int) -> list[Found]:
    """Return the newest of the rows that are meant, newest first. Slow for many: in a thread.

    By the time they were true, then by the order of arrival. Sorting all of them would hold the
    lock of the interpreter for as long.
    """
    rows = matching(state, which)
    return nsmallest(count, rows, key=lambda one: (-one.row.occurred_at_us, -one.row.version))


def in_export_order(state: UserState) -> list[Found]:
    """Return every living row, and headings of context documents. Slow for many: in a thread."""
    ordered = sorted(KINDS, key=lambda kind: kind.NATURE.export_place)
    return [Found(kind, row) for kind in ordered for row in kind.exported(state.of(kind))]
