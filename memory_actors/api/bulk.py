"""Many memories at once: `user.restore(...)` and `user.delete_many(...)`.

Each kind has its own command to restore, and so an append of its own. So that a refusal leaves
nothing half done, every id is looked up and every command made before the first is carried out; and
where there are several, each is decided once beforehand.

Each memory has its own command to delete. They are given to the actor many at a time, so that it
decides them in one batch, and a commit deletes as many.
"""
# ruff: noqa: SLF001 - a user's memory calls what the handles of its kinds have in common

import asyncio
from collections.abc import Mapping, Sequence

import anyio.to_thread

from memory_actors.api.finding import Chosen, matching
from memory_actors.base.errors import NotFoundError
from memory_actors.base.filters import Predicate
from memory_actors.base.records import Receipt
from memory_actors.base.validation import check_names
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.user_state import kind_of
from memory_actors.search.reading import pages, versions_about
from memory_actors.users.handles.handle import Handle
from memory_actors.users.handles.scope import Scope


async def restore(
    scope: Scope, handles: Mapping[str, Handle], memory_ids: Sequence[str]
) -> list[Receipt]:
    """Bring memories back. See `UserMemory.restore`; `handles` are by the names of their kinds."""
    by_kind: dict[str, list[str]] = {}
    for memory_id, kind in (await _kinds_ever(scope, memory_ids)).items():
        by_kind.setdefault(kind.NAME, []).append(memory_id)
    commands = [(handles[name], handles[name]._restoring(ids)) for name, ids in by_kind.items()]

    async def carried_out() -> list[Receipt]:
        if len(commands) > 1:
            async with scope.writable() as live:
                for _, command in commands:
                    await live.actor.dry_run(command)
        return [one for handle, command in commands for one in await handle._restored(command)]

    return await scope.unattended(carried_out())


async def _kinds_ever(scope: Scope, memory_ids: Sequence[str]) -> dict[str, Kind]:
    """Return the kinds of memories, alive or not, by id: by the events they began with.

    :raises NotFoundError: one of them never was.
    """
    scope.services.runtime.check_open()
    log, stream = scope.services.log, scope.stream
    ids = check_names(memory_ids, "memory_ids")
    about = dict(await versions_about(log, stream, ids))
    if unknown := [one for one in ids if not about[one]]:  # they may be on their way to the log
        await log.flush()
        about |= await versions_about(log, stream, unknown)
    firsts = (versions[0] for versions in about.values() if versions)
    begun = [one async for page in pages(log, stream, firsts) for one in page]
    kinds = {recorded.version: kind_of(recorded) for recorded in begun}
    found: dict[str, Kind] = {}
    for memory_id in ids:
        kind = kinds.get(next(iter(about[memory_id]), 0))
        if kind is None:
            raise NotFoundError(f"no memory {memory_id!r} to restore: it was never there")
        found[memory_id] = kind
    return found


DELETED_AT_ONCE = 64  # what an actor takes of its mailbox for one append


async def delete_many(scope: Scope, handles: Mapping[str, Handle], which: Chosen) -> list[Receipt]:
    """Delete memories. See `UserMemory.delete_many`; `handles` are by the names of their kinds."""
    state = await scope.state_now()
    found = await anyio.to_thread.run_sync(lambda: list(matching(state, which)))
    receipts: list[Receipt] = []
    for start in range(0, len(found), DELETED_AT_ONCE):
        batch = found[start : start + DELETED_AT_ONCE]
        deleting = [_deleted(handles[one.kind.NAME], one, which.matches) for one in batch]
        for outcome in await asyncio.gather(*deleting, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            receipts += outcome
    return receipts


async def _deleted(handle: Handle, one: Found, matches: Predicate | None) -> list[Receipt]:
    """Delete one; return no receipt if it went, or was changed to match no more, meanwhile."""
    try:
        return [await handle._delete(one.row, matches)]
    except NotFoundError:
        return []
