"""The originals of a summary, read back from the log, wherever it keeps them."""

from collections.abc import Sequence
from typing import Any

from eventlog import Dropped
from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Memory
from memory_actors.kinds import provenance
from memory_actors.kinds.compacting import Compressed, Summary
from memory_actors.kinds.kind import Found, Kind, Row
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.user_state import kind_of_event
from memory_actors.search.reading import About, memories, pages, versions_about
from memory_actors.users.handles.scope import Scope


async def originals_of(scope: Scope, row: Row) -> Sequence[str]:
    """Return the ids of the originals of a summary."""
    (recorded,) = await scope.services.log.read_versions(scope.stream, [row.version])
    summary: Summary = recorded.data
    return summary.compressed_from_ids


async def expand(scope: Scope, summary: Found) -> list[Memory]:
    """Return the originals of a summary as they were when it was made, in order of time.

    :raises NotFoundError: it was made elsewhere, or retention dropped its originals.
    """
    kind, row = summary
    log, ids = scope.services.log, await originals_of(scope, row)
    versions = await log.versions_about(scope.stream, row.memory_id)
    (first,) = await log.read_versions(scope.stream, versions[:1])
    made_at = first.version if isinstance(first.data, Compressed) else 0  # 0: made elsewhere
    about = await versions_about(log, scope.stream, ids, before=made_at)
    rows, dropped, known = await _as_they_were(scope, kind, about)
    if len(rows) < len(ids):
        gone = "" if dropped is None else f" Retention dropped them on {dropped.since:%Y-%m-%d}."
        raise NotFoundError(
            f"{len(ids) - len(rows)} of {len(ids)} originals of {row.memory_id!r} are not in this "
            f"store.{gone} The summary is what is left of them"
        )
    rows.sort(key=lambda one: (one.occurred_at_us, one.version))
    found = [Found(kind, one) for one in rows]
    return await memories(log, scope.stream, found, known)


async def _as_they_were(
    scope: Scope, kind: Kind, about: About
) -> tuple[list[Row], Dropped | None, Provenance]:
    """Return the rows of memories after these events, since when others are gone, and origins.

    Ignore the events of a memory before its last event that retention dropped.
    """
    state, gone, origins = await _folded(scope, kind, about)
    if gone:
        lasts = {one: max(gone.keys() & about[one], default=0) for one in about}
        about = {one: [each for each in about[one] if each > lasts[one]] for one in about}
        state, _, origins = await _folded(scope, kind, about)
    found = [kind.find(state, memory_id) for memory_id in about]
    since = next(iter(gone.values()), None)
    return [row for row in found if row is not None], since, origins


async def _folded(
    scope: Scope, kind: Kind, about: About
) -> tuple[Any, dict[int, Dropped], Provenance]:
    """Return the state that these events alone make, those whose payloads are gone, and origins."""
    versions = (version for each in about.values() for version in each)
    state, origins = kind.initial, provenance.PART.initial
    gone: dict[int, Dropped] = {}
    async for page in pages(scope.services.log, scope.stream, versions):
        gone |= {one.version: one.data for one in page if isinstance(one.data, Dropped)}
        whole = [one for one in page if one.version not in gone and kind_of_event(one.data) is kind]
        state = kind.fold(state, whole)
        origins = provenance.follow(origins, whole, kind.registry.keys)
    return state, gone, origins
