"""Which memories a call is about: kinds by name, and their rows."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.filters import Predicate, predicate
from memory_actors.base.origins import Wanted, wanted
from memory_actors.base.records import MemoryType, Trust
from memory_actors.base.validation import check_memory_type
from memory_actors.kinds import context
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.user_state import KIND_BY_NAME, KINDS, UserState
from memory_actors.search.reading import Found

SEARCHED = tuple(kind for kind in KINDS if kind is not context)
"""The kinds that a query searches if none is named: a context document is loaded whole, and its
archive has a search of its own."""


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
    return [KIND_BY_NAME[name] for name in dict.fromkeys(map(check_memory_type, memory_types))]


def only_kind(
    memory_type: MemoryType | str, memory_types: Sequence[MemoryType | str] | None
) -> Sequence[MemoryType | str]:
    """Return the one type that is named.

    :raises InvalidInputError: others are named, too, or it is none.
    """
    if memory_types is not None:
        raise InvalidInputError("give memory_type, for one, or memory_types, for several")
    return [check_memory_type(memory_type)]


class Chosen(NamedTuple):
    """Which memories are meant."""

    kinds: Sequence[Kind]
    matches: Predicate | None
    """The test that filters make."""
    of_origin: Wanted | None


def chosen(
    memory_types: Sequence[MemoryType | str] | None,
    filters: Mapping[str, Any] | None,
    sources: Sequence[str] | None,
    min_trust: Trust | str | None,
) -> Chosen:
    """Return which memories a caller means.

    :raises InvalidInputError: an unknown type, a bad filter, source or trust.
    """
    return Chosen(named_kinds(memory_types), predicate(filters), wanted(sources, min_trust))


def matching(state: UserState, which: Chosen) -> list[Found]:
    """Return the rows that are meant. Slow for many: in a thread."""
    kinds, matches, of_origin = which
    rows = [Found(kind, row) for kind in kinds for row in kind.rows(state.of(kind))]
    if matches is not None:
        rows = [found for found in rows if matches(found.row.shown_metadata)]
    if of_origin is not None:
        rows = [found for found in rows if of_origin(state.provenance.of(found.row.memory_id))]
    return rows


def newest_first(state: UserState, which: Chosen) -> list[Found]:
    """Return the same, newest first."""
    return sorted(matching(state, which), key=_age)


def _age(found: Found) -> tuple[int, int]:
    """Sort newest first: by the time it was true, then by the order of arrival."""
    return -found.row.occurred_at_us, -found.row.version
