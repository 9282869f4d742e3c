"""What compressed memories leave: their texts go to the archive, what is derived of them goes.

A summary's event says what it was made of, so nothing has to be remembered beside it: a checkpoint
per user names the newest summary whose originals are archived. After a crash the next run goes on
from there, and what has been archived already is passed over.

Only events of one original alone are archived, and only those before it was compressed. No living
memory rests on them, also not one that came back later, which has an event of its own. So retention
may drop them, and a replay without them ends in the same state (see kinds/long_term/state.py).
"""

import asyncio
from collections.abc import Iterator, Sequence

import anyio.to_thread

from eventlog import Checkpoint
from memory_actors.kinds.long_term import MemoriesCompressed, MemoryAdded, MemoryUpdated, Row
from memory_actors.user_state import KINDS, UserState
from memory_actors.writers.scope import Scope

PAGE = 256  # events read at a time
LOOKUPS_AT_ONCE = 32  # 15 us each, before the loop gets its turn


def checkpoint_name(stream: str) -> str:
    """Return what the checkpoint of a user's archived originals is called."""
    return f"archived originals of {stream}"


async def archive_originals(scope: Scope) -> int:
    """Archive the events of all originals of a user that have not been; return how many moved."""
    log, name = scope.services.log, checkpoint_name(scope.stream)
    done = await log.load_checkpoint(name)
    state = await _state(scope)
    summaries = sorted(row.version for row in _summaries(state) if row.version > done)
    if not summaries:
        return 0
    versions, digests = await _originals(scope, summaries)
    moved = await log.archive(scope.stream, versions) if versions else None
    await _forget(scope, digests)
    await log.save_checkpoint(Checkpoint(name, summaries[-1]))
    return 0 if moved is None else moved.events


async def _state(scope: Scope) -> UserState:
    async with scope.live() as live:
        return live.state


def _summaries(state: UserState) -> Iterator[Row]:
    held = state.long_term.held.rows
    return (held[memory_id] for memory_id in state.long_term.summaries.ids)


async def _originals(scope: Scope, summaries: Sequence[int]) -> tuple[list[int], set[bytes]]:
    """Return the versions of the originals' own events, and the digests of their texts."""
    log, about = scope.services.log, set[int]()
    for start in range(0, len(summaries), PAGE):
        for recorded in await log.read_versions(scope.stream, summaries[start : start + PAGE]):
            if isinstance(recorded.data, MemoriesCompressed):  # not one that came back
                ids = recorded.data.compressed_from_ids
                about |= await _about(scope, ids, before=recorded.version)
    ordered, versions, digests = sorted(about), list[int](), set[bytes]()
    for start in range(0, len(ordered), PAGE):
        chunk = ordered[start : start + PAGE]
        for recorded in await log.read_versions(scope.stream, chunk, dropped="mark"):
            if isinstance(recorded.data, MemoryAdded | MemoryUpdated):
                versions.append(recorded.version)
                digests.add(recorded.data.digest)
    return versions, digests


async def _about(scope: Scope, memory_ids: Sequence[str], *, before: int) -> set[int]:
    found: set[int] = set()
    for number, memory_id in enumerate(memory_ids):
        versions = await scope.services.log.versions_about(scope.stream, memory_id)
        found.update(version for version in versions if version < before)
        if number % LOOKUPS_AT_ONCE == 0:
            await asyncio.sleep(0)
    return found


async def _forget(scope: Scope, digests: set[bytes]) -> None:
    """Delete vectors and token states that no memory of this user needs any more.

    Where another user has the same text it is embedded again when it is missed.
    """
    state = await _state(scope)

    def unused() -> list[bytes]:
        living = {p.digest for k in KINDS for row in k.rows(state.of(k)) for p in k.passages(row)}
        return sorted(digests - living)

    await scope.services.embeddings.forget(await anyio.to_thread.run_sync(unused))
