"""Pending memories of one user: those that wait for a review, an approval or a rejection."""

import secrets
from collections.abc import Sequence

from immutables import Map
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.api.forgetting import KEY_BYTES
from memory_actors.base.records import Memory
from memory_actors.base.validation import check_names
from memory_actors.kinds import provenance
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.provenance import Provenance
from memory_actors.kinds.review import MemoryHeld, Reject, pending_row
from memory_actors.kinds.tombstones import Tombstones, tombstones_of
from memory_actors.kinds.user_state import KIND_BY_NAME
from memory_actors.search.reading import memory
from memory_actors.users.handles.scope import Scope


async def pending(scope: Scope, kinds: Sequence[Kind], offset: int, limit: int) -> list[Memory]:
    """Return pending memories, newest first. See `UserMemory.pending`."""
    names = {kind.NAME for kind in kinds}
    waiting = (await scope.managed()).review.pending.values()
    versions = sorted((one.version for one in waiting if one.kind in names), reverse=True)
    page = sorted(versions[offset : offset + limit])
    read = await scope.services.log.read_versions(scope.stream, page)
    return [_memory(held) for held in reversed(read)]


def _memory(held: Recorded[MemoryHeld]) -> Memory:
    kind, memory_id = KIND_BY_NAME[held.data.kind], held.data.memory_id
    row, events = pending_row(kind, held)
    known = provenance.follow(Provenance(), events.values(), lambda _event: (memory_id,))
    known = replace(known, expires=Map({memory_id: held.data.until_us}))
    return memory(Found(kind, row), events, known)


async def read_pending(scope: Scope, memory_ids: Sequence[str]) -> list[Recorded[MemoryHeld]]:
    """Return the events of pending memories, in the order of their ids here, each once.

    :raises NotFoundError: one does not wait.
    """
    ids = check_names(memory_ids, "memory_ids")
    review = (await scope.managed()).review
    review.check(ids)
    versions = [review.pending[one].version for one in ids]
    read = await scope.services.log.read_versions(scope.stream, sorted(versions))
    by_version = {one.version: one for one in read}
    return [by_version[version] for version in versions]


def rejecting(held: Sequence[Recorded[MemoryHeld]], known: Tombstones, now_us: int) -> Reject:
    """Return the command that rejects pending memories."""
    facts = [text for one in held for text in one.data.facts]
    stones = tombstones_of(facts, known, secrets.token_bytes(KEY_BYTES), now_us, "rejected")
    ids = tuple(one.data.memory_id for one in held)
    return Reject(now_us=now_us, memory_ids=ids, tombstones=stones)
