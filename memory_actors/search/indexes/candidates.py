"""The rows that a query may find: exact, and before anything is ranked.

Metadata is asked through the index of its fields, memory by memory; times are columns. What comes
of them is one array of rows, so that a narrow query costs less than a wide one.
"""

import asyncio
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from memory_actors.base.origins import Wanted
from memory_actors.kinds.kind import Row
from memory_actors.kinds.provenance import Provenance
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.indexes.traits import Numbers, times
from memory_actors.search.query import Query

Owners = npt.NDArray[np.int64]
"""Memories by their number in `Traits.owners`."""
Rows = npt.NDArray[np.intp]
Test = Callable[[Row], bool]
ASKED_AT_ONCE = 500  # memories, before the loop gets its turn: a millisecond


async def narrowed(
    index: MemoryIndex, query: Query, provenance: Provenance
) -> tuple[Parts, Rows | None]:
    """Return what an index searches at this moment, and the rows in it that a query may find.

    None stands for all rows. Rows that have gone may be among them.
    """
    owners = await _matching(index, query)
    parts = index.parts
    if query.of_origin is not None:
        owners = _of_origin(parts.traits.owners, owners, provenance, query.of_origin)
    return parts, _rows(parts, owners, query)


async def _matching(index: MemoryIndex, query: Query) -> Owners | None:
    """Return the memories whose metadata match the filters of a query; None if it has none."""
    filters = query.filters
    if filters is None:
        return None
    for _ in index.fields.prepared(filters):
        await asyncio.sleep(0)
    fields = index.fields
    found = fields.candidates(filters)
    if found is not None and found.exact:
        return np.fromiter(found.keys, np.int64, len(found.keys))
    asked = list(fields.keys() if found is None else found.keys)
    matching = []
    for start in range(0, len(asked), ASKED_AT_ONCE):
        for number in asked[start : start + ASKED_AT_ONCE]:
            metadata = fields.get(number)
            if metadata is not None and filters.test(metadata):
                matching.append(number)
        if start + ASKED_AT_ONCE < len(asked):
            await asyncio.sleep(0)
    return np.array(matching, np.int64)


def _of_origin(
    numbers: Numbers, owners: Owners | None, provenance: Provenance, wanted: Wanted
) -> Owners:
    """Return those of some memories, or of all for None, whose origins are wanted."""
    passing = np.full(len(numbers), wanted(()), np.bool_)
    for memory_id, origins in provenance.origins.items():
        number = numbers.find(memory_id)
        if number is not None:
            passing[number] = wanted(origins)
    return np.flatnonzero(passing) if owners is None else owners[passing[owners]]


def _rows(parts: Parts, owners: Owners | None, query: Query) -> Rows | None:
    """Return the rows of these memories that a query may find by their times and sessions."""
    traits, columns = parts.traits, parts.traits.view(parts.size)
    tests = []
    if owners is not None:
        wanted = np.zeros(len(traits.owners), np.bool_)
        wanted[owners] = True
        tests.append(wanted[columns.owners])
    if query.since_us is not None:
        tests.append(columns.last_us >= query.since_us)
    if query.until_us is not None:
        tests.append(columns.occurred_us < query.until_us)
    if query.as_of_us is not None:
        tests.append((columns.begins_us <= query.as_of_us) & (query.as_of_us < columns.ends_us))
    tests += [kept for kept in _not_excluded(parts, query) if not kept.all()]
    return np.flatnonzero(np.logical_and.reduce(tests)) if tests else None


def _not_excluded(parts: Parts, query: Query) -> list[npt.NDArray[np.bool_]]:
    """Return for each exclusion of a query which rows it leaves."""
    traits, columns = parts.traits, parts.traits.view(parts.size)
    found = [traits.owners.find(one) for one in query.exclude_ids]
    excluded = [number for number in found if number is not None]
    kept = [~np.isin(columns.owners, excluded)] if excluded else []
    session = query.exclude_session
    chain = None if session is None else traits.number_of(session)
    return kept if chain is None else [*kept, columns.chains != chain]


def row_test(query: Query, provenance: Provenance) -> Test:
    """Return the same as a test of single rows of a state.

    For the few rows at hand; and a graph proposes others, too, and rows may have changed meanwhile.
    """

    def passes(row: Row) -> bool:
        session_id = getattr(row, "session_id", None)
        return (
            row.memory_id not in query.exclude_ids
            and (query.exclude_session is None or session_id != query.exclude_session)
            and (query.filters is None or query.filters.test(row.shown_metadata))
            and (query.of_origin is None or query.of_origin(provenance.of(row.memory_id)))
            and (not timed or in_time(row))
        )

    def in_time(row: Row) -> bool:
        occurred, begins, ends, last = times(row)
        return (
            (query.since_us is None or last >= query.since_us)
            and (query.until_us is None or occurred < query.until_us)
            and (query.as_of_us is None or begins <= query.as_of_us < ends)
        )

    timed = (query.since_us, query.until_us, query.as_of_us) != (None, None, None)
    return passes
