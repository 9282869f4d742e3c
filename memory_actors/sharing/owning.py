"""Opening a store in this process, and serving it to others; and the end of that by other means.

The imports here load all of the engine: a client does so only when it becomes the owner.

The forked child of an owner is a client of its parent, for neither the log's file nor its threads
may be used in a child. Every handle of a store that this process owned is therefore replaced in the
child by a client's handle: the holder notices nothing. The parent's objects are kept, untouched, so
that nothing of them is finalised in the child.

The same happens where the owner's event loop is closed before the store is, as by `asyncio.run`:
the store is released at once, in the thread that closes the loop, and the handles become a
client's. On the next loop a handle opens the store again, or asks the process that has it by then.
A loop that does not run at the moment loses the store to the first other loop of its process that
opens it.
"""

# ruff: noqa: SLF001 - an owner's objects are taken apart here

import asyncio
import gc
import os
import socket
from collections.abc import Callable, Container, Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec

from eventlog.core.errors import DiskFull
from eventlog.core.logs import get_logger
from eventlog.core.waiting import SharedExitStack, to_the_end
from memory_actors.api.parts import Choices, StoreParts
from memory_actors.api.system import MemorySystem, PastMemory, open_alone
from memory_actors.api.user import HANDLES, UserMemory
from memory_actors.sharing import remote
from memory_actors.sharing.address import (
    LOOK_AGAIN_S,
    Address,
    forget_now,
    forget_socket,
    listening,
)
from memory_actors.sharing.client import Client
from memory_actors.sharing.invocations import OWNED_HERE
from memory_actors.sharing.serving import OwnerServer
from memory_actors.sharing.system import MemorySystem as Shared
from memory_actors.users.handles.context_document import ContextDocument
from memory_actors.users.handles.long_term import LongTermMemory

_logger = get_logger("memory_actors.sharing")

GIVEN_UP_LOOKS: Final = 250
"""Five seconds: in that time a process that takes a store over opens it, or gives up."""


async def owned_alone(directory: Path, parts: StoreParts) -> MemorySystem:
    """Open a store for this process and no other."""
    return await _loaded(await open_alone(directory, parts, AsyncExitStack()))


async def owned(
    directory: Path,
    parts: StoreParts,
    choices: Choices,
    give_up: Callable[[], object] | None = None,
) -> MemorySystem:
    """Open a store in this process, and serve it to others until it is closed.

    `give_up` is called when somebody comes who wants to keep it: who owns it for one call only. If
    a full disk has no room for the address, the store is open for this process alone.
    """
    held, orphaned, secrets = AsyncExitStack(), SharedExitStack(), set[str]()
    # Both last: who waits for the end reads it.
    held.push_async_callback(_forget_owner, directory, secrets)
    orphaned.callback(forget_now, directory, secrets)
    memory = await open_alone(directory, parts, held, orphaned=orphaned)

    def listen() -> tuple[socket.socket, Address]:
        found, address = listening(directory)
        secrets.add(address.secret)
        return found, address

    server = OwnerServer(
        memory,
        choices,
        give_up,
        listen=listen,
        unlisten=partial(forget_socket, directory),
        release=orphaned.close,
    )
    held.push_async_callback(server.close)
    orphaned.callback(server.release)
    try:
        await to_the_end(server.start())
    except DiskFull as error:
        _logger.warning("the store is not shared until it is opened again", error=str(error))
        return await _loaded(memory)
    except BaseException:
        await memory.close()
        raise
    keeps = give_up is None

    async def own(give_up: Callable[[], object]) -> MemorySystem:
        return await owned(directory, parts, choices, None if keeps else give_up)

    memory._is_shared = True
    _owned[memory] = server, lambda: Client(directory, choices, own, keeps=keeps)
    held.callback(_owned.pop, memory, None)
    orphaned.callback(_become_client, memory)
    return await _loaded(memory) if keeps else memory


async def _forget_owner(directory: Path, secrets: Container[str]) -> None:
    """Remove the owner's address of a store that is closed here, unless the next owner wrote it.

    In its turn: nobody opens the store between the look and the removal. The process that has the
    turn now rewrites the file, or gives up: this call waits for that, but not long.
    """
    for _ in range(GIVEN_UP_LOOKS):
        if forget_now(directory, secrets):
            return
        await asyncio.sleep(LOOK_AGAIN_S)


async def _loaded(memory: MemorySystem) -> MemorySystem:
    """Return a system when its model is loaded, if that is installed."""
    try:
        await memory._services.embeddings.load()
    except BaseException:
        await memory.close()
        raise
    return memory


# --- forks, and loops that end


_handles = {UserMemory, PastMemory, ContextDocument, *HANDLES.values()}
_handles.remove(LongTermMemory)  # a user's memory is its only caller
CLIENTS: Final[dict[type, Any]] = {one: getattr(remote, one.__name__) for one in _handles}
CLIENTS[MemorySystem] = Shared
"""The class of a client for each class of the owner: handles have the same names."""
for _here, _there in CLIENTS.items():
    _there.register(_here)

_owned: Final[dict[MemorySystem, tuple[OwnerServer, Callable[[], Client]]]] = {}
"""The systems that become a client's, as their handles do, in a forked child."""
_kept: Final[list[object]] = []


def _become_client(memory: MemorySystem) -> None:
    _, made = _owned.pop(memory)
    _replace_all({id(memory._services): made()})


def _in_child() -> None:
    clients: dict[int, Client] = {}
    for memory, (server, made) in _owned.items():
        server.close_sockets()
        clients[id(memory._services)] = made()
    OWNED_HERE.clear()
    _kept.extend(_replace_all(clients))
    _owned.clear()


def _replace_all(clients: Mapping[int, Client]) -> list[dict[str, object]]:
    """Make the objects of some systems a client's; return what they had."""
    found = [one for one in gc.get_objects() if type(one) in CLIENTS] if clients else []
    scopes = [one._services if type(one) is MemorySystem else one._scope.services for one in found]
    asked = [(one, clients.get(id(scope))) for one, scope in zip(found, scopes, strict=True)]
    return [_replaced(one, client) for one, client in asked if client is not None]


def _replaced(one: Any, client: Client) -> dict[str, object]:
    """Make an object a client's; return what it had."""
    kind = CLIENTS[type(one)]
    if isinstance(one, MemorySystem):
        made: Any = kind(client)
    else:
        name = one.name if type(one) is ContextDocument else None
        made = kind(client, msgspec.structs.replace(one._scope.on, document=name))
    if kind is remote.PastMemory:
        made.moment, made.lost = one.moment, one.lost
    had = dict(vars(one))
    one.__class__ = kind
    one.__dict__ = vars(made)
    return had


os.register_at_fork(after_in_child=_in_child)
