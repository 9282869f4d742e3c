"""Opening a store in this process, and serving it to others; and what becomes of that in a fork.

What is imported here is all of the engine: a client does so only when it becomes the owner.

The forked child of an owner is a client of its parent, for neither the log's file nor its threads
may be used in a child. So there every handle of a store that this process owned becomes, in its
place, what a client would have: who holds it notices nothing. The parent's objects are kept,
untouched, so that nothing of them is finalised in the child.
"""

# ruff: noqa: SLF001 - an owner's objects are taken apart here

import gc
import os
import weakref
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

from eventlog.core.errors import DiskFull
from eventlog.core.logs import get_logger
from eventlog.core.waiting import to_the_end
from memory_actors.api.parts import StoreParts
from memory_actors.api.past import PastMemory
from memory_actors.api.system import MemorySystem, open_alone
from memory_actors.api.user import UserMemory
from memory_actors.api.user_context import UserContext
from memory_actors.sharing import remote
from memory_actors.sharing.address import forget_owner, forget_socket, listening
from memory_actors.sharing.at_once import OWNED_HERE
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.client import Client
from memory_actors.sharing.declaration import On, Then
from memory_actors.sharing.serving import OwnerServer
from memory_actors.sharing.system import MemorySystem as Shared
from memory_actors.users.handles.context_document import ContextDocument
from memory_actors.users.handles.documents import Documents
from memory_actors.users.handles.entities import EntityGraph
from memory_actors.users.handles.episodes import Episodes
from memory_actors.users.handles.short_term import ShortTermMemory
from memory_actors.users.handles.working import WorkingMemory

_logger = get_logger("memory_actors.sharing")


async def owned_alone(directory: Path, parts: StoreParts) -> MemorySystem:
    """Open a store for this process and no other."""
    return await open_alone(directory, parts, AsyncExitStack())


async def owned(
    directory: Path,
    parts: StoreParts,
    choices: Choices,
    give_up: Callable[[], object] | None = None,
) -> MemorySystem:
    """Open a store in this process, and serve it to others until it is closed.

    `give_up` is called when somebody comes who wants to keep it: who owns it for one call only.
    Where a full disk has no room for the address, it is open for this process alone.
    """
    held, secrets = AsyncExitStack(), set[str]()
    held.push_async_callback(
        forget_owner, directory, secrets
    )  # last: who waits for the end reads it
    memory = await open_alone(directory, parts, held)
    server = OwnerServer(
        memory,
        choices,
        give_up,
        listen=partial(listening, directory),
        unlisten=partial(forget_socket, directory),
    )
    held.push_async_callback(server.close)
    try:
        await to_the_end(server.start())
    except DiskFull as error:
        _logger.warning("the store is not shared until it is opened again", error=str(error))
        return memory
    except BaseException:
        await memory.close()
        raise
    secrets.add(server.address.secret)

    async def own(_: Callable[[], object]) -> MemorySystem:
        return await owned(directory, parts, choices)

    memory._as_client = server.close_in_child, lambda: Client(directory, choices, own)
    _owned.add(memory)
    return memory


# --- forks


CLIENTS: Final[dict[type, Any]] = {
    MemorySystem: Shared,
    UserMemory: remote.UserMemory,
    PastMemory: remote.PastMemory,
    UserContext: remote.UserContext,
    ContextDocument: remote.ContextDocument,
    WorkingMemory: remote.WorkingMemory,
    ShortTermMemory: remote.ShortTermMemory,
    EntityGraph: remote.EntityGraph,
    Episodes: remote.Episodes,
    Documents: remote.Documents,
}
"""The class of a client for each class of the owner."""
for _here, _there in CLIENTS.items():
    _there.register(_here)

_owned: Final["weakref.WeakSet[MemorySystem]"] = weakref.WeakSet()
"""The systems that become a client's in a forked child; their handles do, too."""
_kept: Final[list[Any]] = []


def _in_child() -> None:
    clients: dict[int, Client] = {}
    for memory in _owned:
        assert memory._as_client is not None
        close, made = memory._as_client
        close()
        clients[id(memory._services)] = made()
    OWNED_HERE.clear()
    if not clients:
        return
    for one in gc.get_objects():
        if type(one) in CLIENTS:
            scope = one._services if type(one) is MemorySystem else one._scope.services
            if (client := clients.get(id(scope))) is not None:
                _replace(one, client)
    _owned.clear()


def _replace(one: Any, client: Client) -> None:
    """Make an object a client's."""
    kind = CLIENTS[type(one)]
    made: Any = kind(client) if isinstance(one, MemorySystem) else kind(client, _on(one))
    if kind is remote.PastMemory:
        made.moment, made.lost = one.moment, one.lost
    _kept.append(dict(vars(one)))
    one.__class__ = kind
    one.__dict__ = vars(made)


def _on(one: Any) -> On:
    """Say what a handle is on."""
    scope = one._scope
    moment = getattr(scope, "moment", None)
    named = type(one) is ContextDocument
    return On(
        scope.user_id,
        scope.agent_id,
        scope.session_id,
        scope.origins,
        scope.auto_prune,
        document=one.name if named else None,
        then=None if moment is None else Then(moment.at, "mark"),
    )


os.register_at_fork(after_in_child=_in_child)
