"""What a summary was made of, read back from the log, wherever it keeps that."""

import asyncio
from collections.abc import Mapping, Sequence

from eventlog import Dropped
from memory_actors.errors import NotFoundError
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import LongTerm, MemoriesCompressed, Row, Summary
from memory_actors.reading import Found, memories
from memory_actors.records import Memory
from memory_actors.writers.scope import Scope

PAGE = 256  # events read at a time


async def originals_of(scope: Scope, row: Row) -> Sequence[str]:
    """Return the ids of what a summary was made of."""
    (recorded,) = await scope.services.log.read_versions(scope.stream, [row.version])
    summary: Summary = recorded.data
    return summary.compressed_from_ids


async def expand(scope: Scope, row: Row) -> list[Memory]:
    """Return the originals of a summary as they were when it was made, in order of time.

    :raises NotFoundError: it was made elsewhere, or retention dropped its originals.
    """
    ids = await originals_of(scope, row)
    made_at = await _made_at(scope, row.memory_id)
    rows, dropped = await _as_they_were(scope, ids, made_at)
    if len(rows) < len(ids):
        gone = "" if dropped is None else f" Retention dropped them on {dropped.since:%Y-%m-%d}."
        raise NotFoundError(
            f"{len(ids) - len(rows)} of {len(ids)} originals of {row.memory_id!r} are not in this "
            f"store.{gone} The summary is what is left of them"
        )
    rows.sort(key=lambda one: (one.occurred_at_us, one.version))
    found = [Found(long_term, one) for one in rows]
    return await memories(scope.services.log, scope.stream, found)


async def _made_at(scope: Scope, memory_id: str) -> int:
    """Return the version of the event that a summary was made by; 0 if it was made elsewhere."""
    log = scope.services.log
    versions = await log.versions_about(scope.stream, memory_id)
    (first,) = await log.read_versions(scope.stream, versions[:1])
    return first.version if isinstance(first.data, MemoriesCompressed) else 0


async def _as_they_were(
    scope: Scope, ids: Sequence[str], before: int
) -> tuple[list[Row], Dropped | None]:
    """Return the rows of these memories before a version, and since when others are gone."""
    log, stream = scope.services.log, scope.stream
    about = {}
    for memory_id in ids:
        versions = await log.versions_about(stream, memory_id)
        about[memory_id] = [version for version in versions if version < before]
        await asyncio.sleep(0)
    state, gone = await _folded(scope, sorted({v for each in about.values() for v in each}))
    found = [long_term.find(state, memory_id) for memory_id in ids]
    rows = [row for row in found if row is not None and _whole(row, about[row.memory_id], gone)]
    return rows, next(iter(gone.values()), None)


async def _folded(scope: Scope, versions: Sequence[int]) -> tuple[LongTerm, dict[int, Dropped]]:
    """Return the state that these events alone make, and those whose payloads are gone."""
    log, state = scope.services.log, long_term.initial
    gone: dict[int, Dropped] = {}
    for start in range(0, len(versions), PAGE):
        chunk = versions[start : start + PAGE]
        page = await log.read_versions(scope.stream, chunk, dropped="mark")
        gone |= {one.version: one.data for one in page if isinstance(one.data, Dropped)}
        state = long_term.fold(state, (one for one in page if one.version not in gone))
    return state, gone


def _whole(row: Row, versions: Sequence[int], gone: Mapping[int, Dropped]) -> bool:
    """Say whether nothing is missing of what happened to a memory since it got its text."""
    return not any(version in gone and version > row.version for version in versions)
