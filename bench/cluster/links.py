"""TCP proxies that hold back what one or both sides say, for a while: a network that loses packets.

Data that is held back while packets are lost arrives late, as after a retransmission, or never, as
after a reset. A connection that begins meanwhile is taken, and hears nothing. All proxies run on an
event loop in a thread of their own.
"""

import asyncio
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Literal, TypeVar

Way = Literal["there", "back"]
"""From whoever connected to the server, and the answers."""
WAYS: tuple[Way, ...] = ("there", "back")
PIECE_BYTES = 1 << 16
HOST = "127.0.0.1"
CLOSE_S = 0.01
T = TypeVar("T")


class Link:
    """One proxy. Its methods are called on its loop."""

    def __init__(self, server_port: int):
        self._server_port = server_port
        self._passes: dict[Way, asyncio.Event] = {way: asyncio.Event() for way in WAYS}
        self._connections: set[_Connection] = set()
        for passing in self._passes.values():
            passing.set()

    async def listen(self) -> int:
        """Begin, and return the port."""
        self._listening = await asyncio.start_server(self._serve, HOST, 0)
        port: int = self._listening.sockets[0].getsockname()[1]
        return port

    async def lead_to(self, server_port: int) -> None:
        """Lead whoever connects from now on to another server."""
        self._server_port = server_port

    async def hold(self, *ways: Way) -> None:
        """Block these ways from now on."""
        for way in ways:
            self._passes[way].clear()

    async def heal(self, *, reset: bool) -> None:
        """Let all through again; with `reset`, what was held back and its connections are lost."""
        if reset:
            for connection in list(self._connections):
                connection.abort()
        for passing in self._passes.values():
            passing.set()

    async def close(self) -> None:
        """End it, and every connection."""
        self._listening.close()
        await self.heal(reset=True)
        while self._connections:
            await asyncio.sleep(CLOSE_S)
        await asyncio.sleep(CLOSE_S)  # what was aborted is closed in the next turns of the loop

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection()
        connection.writers.append(writer)
        self._connections.add(connection)
        try:
            await self._passes["there"].wait()
            if connection.is_over:
                return
            there = await asyncio.open_connection(HOST, self._server_port)
            connection.writers.append(there[1])
            await asyncio.gather(
                self._pump("there", reader, there[1], connection),
                self._pump("back", there[0], writer, connection),
            )
        except OSError:
            pass
        finally:
            connection.abort()
            self._connections.discard(connection)

    async def _pump(
        self,
        way: Way,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        connection: "_Connection",
    ) -> None:
        with suppress(OSError):
            while data := await reader.read(PIECE_BYTES):
                await self._passes[way].wait()
                if connection.is_over:
                    return
                writer.write(data)
                await writer.drain()
        await self._passes[way].wait()
        for one in connection.writers:
            one.close()


class _Connection:
    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.is_over = False

    def abort(self) -> None:
        self.is_over = True
        for writer in self.writers:
            writer.transport.abort()


class Links:
    """The proxies of a cluster, and the thread in which they run."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._links: list[Link] = []

    def add(self, server_port: int) -> tuple[Link, int]:
        """Return a proxy for a port, and the port on which it listens."""

        async def added() -> tuple[Link, int]:
            link = Link(server_port)
            return link, await link.listen()

        link, port = self.do(added())
        self._links.append(link)
        return link, port

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Have something done on the loop, and return what came of it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def close(self) -> None:
        """End all proxies, and the thread."""
        for link in self._links:
            self.do(link.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
