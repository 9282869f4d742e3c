"""Users who leave a database: the nodes of it forget them, before they may be claimed elsewhere.

A node hears by its renewals that shards have come or left, asks which are here, and says so when
nobody of another shard is live in it any more. Whoever moves a shard waits for that, of every node
whose lease has not expired. What lies on the disk of the node follows, and is waited for as well
before the old place of a shard is emptied: by what is there it is found.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from eventlog.core.logs import get_logger
from memory_actors.base.privacy import reason
from memory_actors.base.streams import is_user_stream, user_of
from memory_actors.sharing.nodes.node import Node

AGAIN_S: Final = 0.5

_logger = get_logger("memory_actors.sharing")


class Leaving:
    """Keeps a node to the shards that are in its database. Begins with `start`."""

    def __init__(
        self, node: Node, shard_of: Callable[[str], int], changed: Callable[[int, set[int]], object]
    ):
        """Take a node, and what is to be told of the shards that its database has."""
        self._node = node
        self._shard_of = shard_of
        self._changed = changed
        self._wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        node.placement.claimed = set()

    async def start(self) -> None:
        """Look which shards are here, and go on looking whenever that changes."""
        self._node.placement.leases.shards_changed = lambda _version: self._wanted.set()
        await self._look()
        self._task = asyncio.create_task(self._go_on())

    async def close(self) -> None:
        """Stop."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _go_on(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._look()
            except Exception as error:
                _logger.warning("a node cannot forget who has left", error=reason(error))
                await asyncio.sleep(AGAIN_S)
                self._wanted.set()

    async def _look(self) -> None:
        leases, runtime = self._node.placement.leases, self._node.runtime
        version, here = await leases.here()
        self._changed(version, here)
        gone = [key for key in runtime.live_keys() if self._shard_of(key) not in here]
        await asyncio.gather(*map(runtime.forget, gone))
        leases.say_forgotten(version)
        await self._clear(here)
        leases.say_forgotten(version, cleared=True)

    async def _clear(self, here: set[int]) -> None:
        """Remove from the disk what the node has kept there of users who are elsewhere."""
        claimed = self._node.placement.claimed or set()
        for key in [key for key in claimed if self._shard_of(key) not in here]:
            if is_user_stream(key):
                await self._node.memory._erasing.let_go(user_of(key))  # noqa: SLF001 - its own
            claimed.discard(key)
