"""Opening a store in this process, and serving it to others.

What is imported here is all of the engine: a client does so only when it becomes the owner.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

from eventlog.core.waiting import to_the_end
from memory_actors.api.past import PastMemory
from memory_actors.api.system import MemorySystem, open_alone
from memory_actors.api.user import UserMemory
from memory_actors.api.user_context import UserContext
from memory_actors.sharing import remote
from memory_actors.sharing.address import forget
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.serving import Server
from memory_actors.sharing.system import MemorySystem as Shared
from memory_actors.users.handles.context_document import ContextDocument
from memory_actors.users.handles.documents import Documents
from memory_actors.users.handles.entities import EntityGraph
from memory_actors.users.handles.episodes import Episodes
from memory_actors.users.handles.short_term import ShortTermMemory
from memory_actors.users.handles.working import WorkingMemory

for here, there in (
    (MemorySystem, Shared),
    (UserMemory, remote.UserMemory),
    (PastMemory, remote.PastMemory),
    (UserContext, remote.UserContext),
    (ContextDocument, remote.ContextDocument),
    (WorkingMemory, remote.WorkingMemory),
    (ShortTermMemory, remote.ShortTermMemory),
    (EntityGraph, remote.EntityGraph),
    (Episodes, remote.Episodes),
    (Documents, remote.Documents),
):
    cast("Any", there).register(here)


async def owned_alone(directory: Path, parts: dict[str, Any]) -> MemorySystem:
    """Open a store for this process and no other."""
    return await open_alone(directory, **parts, held=AsyncExitStack())


async def owned(
    directory: Path,
    parts: dict[str, Any],
    choices: Choices,
    give_up: Callable[[], object] | None = None,
) -> MemorySystem:
    """Open a store in this process, and serve it to others until it is closed.

    `give_up` is called when somebody comes who wants to keep it: who owns it for one call only.
    """
    held, served = AsyncExitStack(), False

    def forget_all() -> None:
        if served:  # else it may be another's
            forget(directory, file=True)

    held.callback(forget_all)  # last of all: who reads the file waits for the store to be closed
    memory = await open_alone(directory, **parts, held=held)
    served = True
    server = Server(memory, directory, choices, give_up)
    held.push_async_callback(server.close)
    try:
        await to_the_end(server.start())
    except BaseException:
        await memory.close()
        raise
    return memory
