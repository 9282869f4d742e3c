"""One end of a connection, and the calls that wait for an answer over it."""

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from memory_actors.sharing import frames
from memory_actors.sharing.declaration import How
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import ERASURES


class FrameLink(asyncio.Protocol):
    """One end of a connection.

    `heard` gets each message, `lost` is called once at its end, `swollen` whenever much is under
    way: a large frame that is not complete, or much that the peer has not read.
    """

    def __init__(
        self,
        heard: Callable[["FrameLink", frames.Said], None],
        lost: Callable[["FrameLink", Exception | None], None],
        bytes_max: int = frames.FRAME_BYTES_MAX,
        swollen: Callable[[], object] = lambda: None,
    ):
        self._heard, self._lost, self._swollen = heard, lost, swollen
        self.frames = frames.Frames(bytes_max)
        self.alive_s = 0.0
        """The time at which the peer was last heard of, by the clock of the loop."""
        self.transport: asyncio.Transport | None = None
        self._is_over = False
        self._writable = asyncio.Event()
        self._writable.set()

    def connection_made(self, transport: Any) -> None:
        """Take note of the connection; end one that was ended before it began."""
        self.transport = transport
        if self._is_over:
            transport.abort()

    def data_received(self, data: bytes) -> None:
        """Hand on what is complete; end the connection over what is no message."""
        self.alive_s = asyncio.get_running_loop().time()
        try:
            messages = self.frames.fed(data)
        except frames.NotAFrameError:
            self.abort()
            return
        for message in messages:
            if self.is_closing:
                return
            self._heard(self, message)
        if self.frames.waiting_bytes > frames.LARGE_BYTES:
            self._swollen()

    def connection_lost(self, exc: Exception | None) -> None:
        """Hand on that nothing more comes."""
        self._writable.set()
        self._lost(self, exc)

    def pause_writing(self) -> None:
        """Take note that the peer does not read as fast as is written."""
        self._writable.clear()

    def resume_writing(self) -> None:
        """Take note that it has caught up."""
        self._writable.set()

    async def drained(self) -> None:
        """Return when the peer has read most of what was written, or has gone."""
        await self._writable.wait()

    def send(self, message: frames.Message) -> None:
        """Send a message; a peer that has not read what came before has lost its connection."""
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(frames.framed(message))
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes > frames.UNREAD_BYTES_MAX:
            self.transport.abort()
        elif unread_bytes > frames.LARGE_BYTES:
            self._swollen()

    @property
    def unread_bytes(self) -> int:
        """The bytes that were sent and that the peer has not taken."""
        return 0 if self.transport is None else self.transport.get_write_buffer_size()

    @property
    def is_closing(self) -> bool:
        """True if nothing more is sent."""
        return self.transport is None or self.transport.is_closing()

    def close(self) -> None:
        """End the connection when all is written."""
        if self.transport is not None:
            self.transport.close()

    def close_socket(self) -> None:
        """Close the socket past its loop: that has ended, or is the parent's in a forked child."""
        if self.transport is not None:
            # Not the descriptor alone: the object would close its number when it is another's.
            self.transport.get_extra_info("socket")._sock.close()  # noqa: SLF001
            if hasattr(self.transport, "_sock"):
                self.transport._sock = None  # noqa: SLF001 - or it warns that it was never closed

    def shut_down(self) -> None:
        """Have both ends notice that the connection is over, from any thread."""
        if self.transport is not None:
            with suppress(OSError):
                self.transport.get_extra_info("socket").shutdown(socket.SHUT_RDWR)

    def abort(self) -> None:
        """End the connection at once, also one that has not begun."""
        self._is_over = True
        if self.transport is not None:
            self.transport.abort()

    def read(self, *, go_on: bool) -> None:
        """Read no further, or go on."""
        if self.transport is None or self.transport.is_closing():
            return
        if go_on:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()


class Waiting:
    """A call that has no result yet."""

    def __init__(self, message: frames.Call, kept: list[Any]):
        self.message = message
        self.kept = kept
        """The functions and events among its arguments."""
        self.after: int | None = None
        """The position of the log when it was first sent."""
        self.result: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.items: asyncio.Queue[bytes | None] = asyncio.Queue()
        """Of an iteration; None when it ends."""
        self.raised: dict[bytes, BaseException] = {}
        """The exceptions that the caller's functions raised: they come back as they were."""
        self.is_endless = message.operation == ERASURES or (
            message.operation in DECLARED and DECLARED[message.operation].how is How.ITERATED
        )
        self.taken = 0
        """Items that were taken."""
        self.tasks: set[asyncio.Task[None]] = set()
        """They pass on what the caller sets, and call what it gave."""

    def events(self) -> Iterator[tuple[int, asyncio.Event]]:
        """Yield the events among its arguments, each with its number."""
        for place, one in enumerate(self.kept):
            if isinstance(one, asyncio.Event):
                yield place, one

    def settle(self, value: bytes) -> None:
        """Give it its result."""
        if not self.result.done():
            self.result.set_result(value)
        self.items.put_nowait(None)

    def fail(self, error: BaseException) -> None:
        """Set an error as the result."""
        if not self.result.done():
            self.result.set_exception(error)
            self.result.exception()  # nobody may be waiting any more
        self.items.put_nowait(None)
