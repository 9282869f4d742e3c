"""A TCP proxy between a client and a server, which does harm to one message."""

import asyncio
from contextlib import suppress
from typing import Literal, Self

Harm = Literal["lose the request", "lose the answer", "hold back its end", "hold back the answer"]
SYNC_BYTES = 5  # of PostgreSQL's protocol: the message without which a server ends no transaction


class Proxy:
    """Passes everything on, until a message that has certain bytes in it comes from a client."""

    def __init__(self, port: int):
        self._server_port = port
        self.port = 0
        self._harm: Harm | None = None
        self._trigger = b""
        self.done = asyncio.Event()
        self.released = asyncio.Event()
        self.is_away = False
        self._ends: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._listening = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._listening.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self.released.set()
        self._listening.close()
        self.cut()
        await asyncio.sleep(0)

    def do(self, harm: Harm, trigger: bytes) -> None:
        """Harm the next message with these bytes in it."""
        self._harm, self._trigger = harm, trigger

    def cut(self) -> None:
        """Drop every connection."""
        for end in self._ends:
            end.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_away:
            writer.close()
            return
        with suppress(OSError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
            ends = {writer, to_server}
            self._ends |= ends
            held = asyncio.Event()
            answers = asyncio.create_task(self._answers(from_server, writer, held))
            with suppress(OSError):
                await self._requests(reader, to_server, held)
            for end in ends:
                end.close()
            self._ends -= ends
            with suppress(OSError):
                await answers

    async def _requests(
        self, reader: asyncio.StreamReader, server: asyncio.StreamWriter, held: asyncio.Event
    ) -> None:
        while data := await reader.read(1 << 20):
            if self._harm is None or self._trigger not in data:
                server.write(data)
                continue
            harm, self._harm = self._harm, None
            if harm == "lose the request":
                self.done.set()
                return
            if harm in ("lose the answer", "hold back the answer"):
                held.set()
                server.write(data)
                if harm == "lose the answer":
                    await self.done.wait()
                    return
            else:
                server.write(data[:-SYNC_BYTES])
                self.done.set()
                await self.released.wait()
                server.write(data[-SYNC_BYTES:])

    async def _answers(
        self, server: asyncio.StreamReader, writer: asyncio.StreamWriter, held: asyncio.Event
    ) -> None:
        while data := await server.read(1 << 20):
            if held.is_set():
                self.done.set()
                await self.released.wait()
                held.clear()
            writer.write(data)
        writer.close()
