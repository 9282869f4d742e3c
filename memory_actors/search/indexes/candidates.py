"""Which rows of an index a query may find: exact, and before anything is ranked.

Metadata is asked through the index of its fields, memory by memory; times are columns. What comes
of them is one array of rows, so that a narrow query costs less than a wide one.
"""

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_actors.base.filters import Predicate
from memory_actors.base.origins import Wanted
from memory_actors.kinds.provenance import Provenance
from memory_actors.search.indexes.fields import FieldIndex
from memory_actors.search.indexes.memory_index import MemoryIndex
from memory_actors.search.indexes.parts import Parts

Owners = npt.NDArray[np.int64]
"""Memories by their number in `Traits.owners`."""
Rows = npt.NDArray[np.intp]
ASKED_AT_ONCE = 500  # memories, before the loop gets its turn: a millisecond


async def matching(index: MemoryIndex, filters: Mapping[str, Any], matches: Predicate) -> Owners:
    """Return the memories whose metadata match a filter; `matches` is the test that it makes."""
    for _ in index.fields.prepared(filters):
        await asyncio.sleep(0)
    fields = index.fields
    found = fields.candidates(filters)
    if found is not None and found.exact:
        return np.fromiter(found.keys, np.int64, len(found.keys))
    asked = list(fields.keys() if found is None else found.keys)
    return np.array(await _asked(fields, asked, matches), np.int64)


async def _asked(
    fields: FieldIndex[int], numbers: Sequence[int], matches: Predicate
) -> Sequence[int]:
    """Return those memories that match, of those that are still there."""
    found = []
    for start in range(0, len(numbers), ASKED_AT_ONCE):
        for number in numbers[start : start + ASKED_AT_ONCE]:
            metadata = fields.get(number)
            if metadata is not None and matches(metadata):
                found.append(number)
        if start + ASKED_AT_ONCE < len(numbers):
            await asyncio.sleep(0)
    return found


def of_origin(
    parts: Parts, owners: Owners | None, provenance: Provenance, wanted: Wanted
) -> Owners:
    """Return those of some memories, or of all for None, whose origins are wanted."""
    numbers = parts.traits.owners
    passing = np.full(len(numbers), wanted(()), np.bool_)
    for memory_id, origins in provenance.origins.items():
        number = numbers.find(memory_id)
        if number is not None:
            passing[number] = wanted(origins)
    if owners is None:
        return np.flatnonzero(passing).astype(np.int64)
    return owners[passing[owners]]


def narrowed(
    parts: Parts,
    owners: Owners | None,
    since_us: int | None,
    until_us: int | None,
    as_of_us: int | None,
) -> Rows | None:
    """Return the rows of these memories that were true in a time and known at one; None for all.

    Rows that have gone may be among them.
    """
    columns = parts.traits.view(parts.size)
    tests = []
    if owners is not None:
        wanted = np.zeros(len(parts.traits.owners), np.bool_)
        wanted[owners] = True
        tests.append(wanted[columns.owners])
    if since_us is not None:
        tests.append(columns.last_us >= since_us)
    if until_us is not None:
        tests.append(columns.occurred_us < until_us)
    if as_of_us is not None:
        tests.append((columns.begins_us <= as_of_us) & (as_of_us < columns.ends_us))
    return np.flatnonzero(np.logical_and.reduce(tests)) if tests else None


def without(
    parts: Parts, rows: Rows | None, memory_ids: Collection[str], session: str | None
) -> Rows | None:
    """Return those of some rows, or of all for None, that are not of these memories or session."""
    traits, columns = parts.traits, parts.traits.view(parts.size)
    kept = np.ones(parts.size, np.bool_)
    numbers = [number for one in memory_ids if (number := traits.owners.find(one)) is not None]
    if numbers:
        kept &= ~np.isin(columns.owners, numbers)
    chain = None if session is None else traits.number_of(session)
    if chain is not None:
        kept &= columns.chains != chain
    if kept.all():
        return rows
    return np.flatnonzero(kept) if rows is None else rows[kept[rows]]
