"""Opening a store in this process, and serving it to others.

What is imported here is all of the engine: a client does so only when it becomes the owner.
"""

from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from eventlog.core.waiting import to_the_end
from memory_actors.api.system import MemorySystem, open_alone
from memory_actors.sharing.address import forget_owner
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.client import Client
from memory_actors.sharing.forking import becomes_client
from memory_actors.sharing.serving import Server


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
    held, secrets = AsyncExitStack(), set[str]()
    held.push_async_callback(
        forget_owner, directory, secrets
    )  # last: who waits for the end reads it
    memory = await open_alone(directory, **parts, held=held)
    server = Server(memory, directory, choices, give_up)
    held.push_async_callback(server.close)
    try:
        await to_the_end(server.start())
    except BaseException:
        await memory.close()
        raise
    secrets.add(server.address.secret)

    async def own(give_up: Callable[[], object]) -> MemorySystem:
        return await owned(directory, parts, choices, give_up)

    becomes_client(memory, server, lambda: Client(directory, choices, own))
    return memory
