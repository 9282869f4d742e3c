"""Originals of summaries: their texts go to the archive, and what is derived of them goes.

A summary's event says what it was made of, so nothing has to be remembered beside it: a checkpoint
per user names the newest summary whose originals are archived. After a crash the next run goes on
from there, and what has been archived already is passed over.

Only events of one original alone are archived, and only those before it was compressed. No living
memory rests on them, also not one that came back later, which has an event of its own. So retention
may drop them, and a replay without them ends in the same state (see kinds/compression.py). The
start of an episode that took the place of another is about that one, too, and stays.
"""

from collections.abc import Sequence

import anyio.to_thread

from eventlog import ArchivingStore, Checkpoint
from memory_actors.kinds.compression import Compressed
from memory_actors.kinds.user_state import COMPACTED, KINDS, UserState
from memory_actors.users.handles.scope import Scope
from memory_actors.users.past_events import pages, versions_about


def checkpoint_name(stream: str) -> str:
    """Return what the checkpoint of a user's archived originals is called."""
    return f"archived originals of {stream}"


async def archive_originals(scope: Scope) -> int:
    """Archive the events of all originals of a user that have not been; return how many moved."""
    log, name = scope.services.log, checkpoint_name(scope.stream)
    done = await log.load_checkpoint(name)
    state = await _state(scope)
    living = [row.version for kind in COMPACTED for row in kind.summaries(state.of(kind))]
    summaries = sorted(version for version in living if version > done)
    if not summaries:
        return 0
    versions, digests = await _originals(scope, summaries)
    moved = 0
    if versions and isinstance(log, ArchivingStore):  # else they stay where they are
        moved = (await log.archive(scope.stream, versions)).events
    await _forget(scope, digests)
    await log.save_checkpoint(Checkpoint(name, summaries[-1]))
    return moved


async def _state(scope: Scope) -> UserState:
    async with scope.live() as live:
        return live.state


async def _originals(scope: Scope, summaries: Sequence[int]) -> tuple[list[int], set[bytes]]:
    """Return the versions of the originals' own events, and the digests of all their texts."""
    log, stream, about = scope.services.log, scope.stream, set[int]()
    async for page in pages(log, stream, summaries, "raise"):
        for recorded in page:
            if isinstance(recorded.data, Compressed):  # not one that came back
                ids = recorded.data.compressed_from_ids
                before = await versions_about(log, stream, ids, before=recorded.version)
                about.update(version for each in before.values() for version in each)
    versions, digests = list[int](), set[bytes]()
    async for page in pages(log, stream, about):
        for recorded in page:
            digests.add(getattr(recorded.data, "digest", b""))
            if any(kind.is_own(recorded.data) for kind in COMPACTED):
                versions.append(recorded.version)
    return versions, digests - {b""}


async def _forget(scope: Scope, digests: set[bytes]) -> None:
    """Delete vectors and token states that no memory of this user needs any more.

    Where another user has the same text it is embedded again when it is missed.
    """
    state = await _state(scope)

    def unused() -> list[bytes]:
        living = {p.digest for k in KINDS for row in k.rows(state.of(k)) for p in k.passages(row)}
        return sorted(digests - living)

    await scope.embeddings.forget(await anyio.to_thread.run_sync(unused))
