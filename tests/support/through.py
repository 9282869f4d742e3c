"""A memory system as a client has it: its owner is on an event loop in another thread."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future  # noqa: TC003 - as the others
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any, Final, TypeVar

from eventlog.files.datafile import named
from memory_actors import MemorySystem
from memory_actors.api.parts import Opening, StoreParts, described
from memory_actors.server import KeyStore
from memory_actors.server.serving import address, listening, new_server
from memory_actors.sharing.client import Client
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.generated_routes import OFFERED
from memory_actors.sharing.http import HttpCaller
from memory_actors.sharing.owning import owned

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
        return await asyncio.wrap_future(self.start(work))

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Begin to carry something out there."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        """End it."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class _ClientOfThread(Client):
    """A client whose owner ends with it."""

    def __init__(self, directory: Path, parts: StoreParts, there: OtherLoop):
        super().__init__(directory, described(directory, parts), self._nobody)
        self._parts, self._there = parts, there

    async def _nobody(self, _: object) -> None:
        raise AssertionError("a client of the tests owns nothing")

    async def began(self) -> None:
        """Open the store there, and connect."""
        opened = owned(self.directory, self._parts, self.choices)
        self._owner = await self._there.run(opened)
        await self.start()

    async def close(self) -> None:
        """End both."""
        await super().close()
        await self._there.run(self._owner.close())


def through_client(there: OtherLoop) -> Open:
    """Return a replacement of `MemorySystem.open`: a client of an owner there."""

    opened_here = MemorySystem.open

    def open_(directory: str | Path, *, share: bool = True, **parts: Any) -> Opening[MemorySystem]:
        if not share:
            return opened_here(directory, share=False, **parts)

        async def opened() -> MemorySystem:
            client = _ClientOfThread(named(directory), StoreParts(**parts), there)
            await client.began()
            return MemorySystem(client)

        return Opening("MemorySystem.open(...)", opened)

    return open_


class _Current:
    """Stands before the memory system that a server serves at the moment."""

    def __init__(self) -> None:
        self.memory: Any = None

    def watch_erasures(self, _forget: object) -> None:
        """Take no note: a server outlives the memory of one test."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.memory, name)


class HttpServer:
    """A server on a loopback port, in another thread, that serves one store after another."""

    def __init__(self, there: OtherLoop, directory: Path):
        self.there = there
        self.current = _Current()
        self._keys = keys = KeyStore(directory)
        self.key = self.new_key(None)
        self._held = ExitStack()
        bound = self._held.enter_context(listening("127.0.0.1", 0))
        self.url = address(bound)
        server = new_server(self.current, keys)  # type: ignore[arg-type]
        self._server, self._serving = server, there.start(server.serve([bound]))

    def new_key(self, user_id: str | None) -> str:
        """Return a key for a user, or a root key."""
        return self._keys.create(user_id)[0]

    def stop(self) -> None:
        """Stop listening."""
        self._server.should_exit = True
        self._serving.result(20)
        self._held.close()


class _ClientOfServer(HttpCaller):
    """A client over HTTP whose store ends with it."""

    def __init__(self, server: HttpServer):
        super().__init__(server.url, server.key, 30.0)
        self._server = server

    async def began(self, directory: Path, parts: dict[str, Any]) -> None:
        """Open the store there, and connect."""
        opened = owned(directory, StoreParts(**parts), {})
        self._owner = self._server.current.memory = await self._server.there.run(opened)
        await self.start()

    async def close(self) -> None:
        """End both."""
        await super().close()
        await self._server.there.run(self._owner.close())


def over_http(server: HttpServer) -> Open:
    """Return a replacement of `MemorySystem.open`: a client of a server over the store."""
    opened_here = MemorySystem.open

    def open_(directory: str | Path, *, share: bool = True, **parts: Any) -> Opening[MemorySystem]:
        if not share:
            return opened_here(directory, share=False, **parts)

        async def opened() -> MemorySystem:
            client = _ClientOfServer(server)
            await client.began(named(directory), parts)
            return MemorySystem(client)

        return Opening("MemorySystem.open(...)", opened)

    return open_


def at_node(lend_url: Callable[[], str]) -> Open:
    """Return a replacement of `MemorySystem.open`: a node of a store in a database.

    Each directory has a database of its own, which `lend_url` returns.
    """
    opened_here, urls = MemorySystem.open, dict[Path, str]()

    def open_(directory: str | Path, *, share: bool = True, **parts: Any) -> Opening[MemorySystem]:
        if not share or parts.get("encrypt"):
            return opened_here(directory, share=share, **parts)
        path = Path(directory)
        if path not in urls:
            urls[path] = lend_url()
        return opened_here(urls[path], **parts)

    return open_


# --- which tests can run over HTTP

NAMES: Final = {name.rpartition(".")[2] for name in DECLARED} | {
    name.partition(".")[0] for name in DECLARED if "." in name
}
HERE: Final = {"open", "close", "user", "from_source", "compact", "compaction_stats", "system"}
NOT_OFFERED: Final = NAMES - {name.rpartition(".")[2] for name in OFFERED} - HERE | {
    "replay", "watch_erasures", "context", "documents",
}  # fmt: skip
"""The names of operations and handles that a server does not offer, or not all of."""


def is_offered(test: FunctionType) -> bool:
    """Say whether all that a test and its helpers call is there over HTTP, by the names."""
    seen: set[CodeType] = set()
    wanted = [(test.__code__, test.__globals__)]
    while wanted:
        code, known = wanted.pop()
        if NOT_OFFERED & {*code.co_names}:
            return False
        seen.add(code)
        helpers = [known.get(name) for name in code.co_names]
        functions = [each for each in helpers if isinstance(each, FunctionType)]
        found = [(each.__code__, each.__globals__) for each in functions]
        found += [(each, known) for each in code.co_consts if isinstance(each, CodeType)]
        wanted += [each for each in found if each[0] not in seen]
    return True
