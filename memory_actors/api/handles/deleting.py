"""`user.delete_many(...)`: all that matches is deleted.

Each memory has a command of its own, as for `delete`. They are given to the actor many at a time,
so that it decides them in one batch, and a commit deletes as many.
"""
# ruff: noqa: SLF001 - a user's memory calls what the handles of its kinds have in common

import asyncio
from collections.abc import Mapping

import anyio.to_thread

from memory_actors.api.handles.finding import state_now
from memory_actors.api.handles.listing import Chosen, matching
from memory_actors.base.errors import NotFoundError
from memory_actors.base.records import Receipt
from memory_actors.search.reading import Found
from memory_actors.users.handles.handle import Handle
from memory_actors.users.handles.scope import Scope

DELETED_AT_ONCE = 64  # what an actor takes of its mailbox for one append


async def delete_many(scope: Scope, handles: Mapping[str, Handle], which: Chosen) -> list[Receipt]:
    """Delete memories. See `UserMemory.delete_many`; `handles` are by the names of their kinds."""
    found = await anyio.to_thread.run_sync(matching, await state_now(scope), which)
    receipts: list[Receipt] = []
    for start in range(0, len(found), DELETED_AT_ONCE):
        batch = found[start : start + DELETED_AT_ONCE]
        deleting = [_deleted(handles[one.kind.NAME], one) for one in batch]
        for outcome in await asyncio.gather(*deleting, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            receipts += outcome
    return receipts


async def _deleted(handle: Handle, one: Found) -> list[Receipt]:
    """Delete one; return no receipt if it went meanwhile, or with another one."""
    try:
        return [await handle._delete(one.row)]
    except NotFoundError:
        return []
