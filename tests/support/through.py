"""A memory system as a client has it: its owner is on an event loop in another thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from eventlog.files.datafile import named
from memory_actors.base.opening import Opening
from memory_actors.sharing.choices import described
from memory_actors.sharing.client import Client
from memory_actors.sharing.owning import owned
from memory_actors.sharing.system import NOTHING, MemorySystem

T = TypeVar("T")
Open = Callable[..., Opening[MemorySystem]]


class OtherLoop:
    """An event loop in a thread of its own, until it is stopped."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Carry something out there, and wait for it here."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _ClientOfThread(Client):
    """A client whose owner ends with it."""

    def __init__(self, directory: Path, parts: dict[str, Any], there: OtherLoop):
        super().__init__(directory, described(directory, parts), self._nobody)
        self._parts, self._there = parts, there

    async def _nobody(self, _: object) -> None:
        raise AssertionError("a client of the tests owns nothing")

    async def began(self) -> None:
        """Open the store there, and connect."""
        opened = owned(self.directory, {**NOTHING, **self._parts}, self.choices)
        self._owner = await self._there.run(opened)
        await self.join()

    async def close(self) -> None:
        """End both."""
        await super().close()
        await self._there.run(self._owner.close())


def through_client(there: OtherLoop) -> Open:
    """Return what stands in for `MemorySystem.open`: a client of an owner there."""

    opened_here = MemorySystem.open

    def open_(directory: str | Path, *, share: bool = True, **parts: Any) -> Opening[MemorySystem]:
        if not share:
            return opened_here(directory, share=False, **parts)

        async def opened() -> MemorySystem:
            client = _ClientOfThread(named(directory), parts, there)
            await client.began()
            return MemorySystem(client)

        return Opening("MemorySystem.open(...)", opened)

    return open_
