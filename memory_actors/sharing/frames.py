"""Messages between a client and the owner of a store, their frames, and the ends of a connection.

A frame is four bytes of length, most significant first, and a message in msgpack: an array that
begins with its tag. A client says hello and is welcomed or refused. Then each call has a number of
its own, and what is said about it, in both directions, has the same: results come in any order.

Every frame has a limit, a small one before the welcome; a peer that says more has lost its
connection. A peer that does not read loses it too: what waits to be written is limited as well.
"""

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeAlias

import msgspec

from memory_actors.base.on import On

PROTOCOL: Final = 1
"""Raised when the messages change their meaning."""
HELLO_BYTES_MAX = 64 << 10  # settings, and a key: more is no hello
VALUE_BYTES_MAX = 255 << 20
FRAME_BYTES_MAX = 256 << 20  # 1,000 memories of 256 KiB, the most of one call
UNREAD_BYTES_MAX = 320 << 20  # written, and not taken by the peer: a frame, and then some
LARGE_BYTES = 1 << 20  # of what is under way: less is not worth a look at all connections
WINDOW = 64  # items of an iteration that are on their way: the owner sends no more unasked
_PREFIX = 4


class Message(msgspec.Struct, array_like=True, tag_field="message"):
    """Something that one side says to the other."""


class Hello(Message, tag=0):
    """The first words of a client."""

    protocol: int
    secret: str
    client: str
    """An id of the client: what it asks again after a failure is known by it."""
    pid: int
    choices: dict[str, str]
    """The settings and parts that it was opened with. See api/parts.py."""
    keeps: bool
    """False: it is there for one call, and so is the store, should it be the one who opens it."""


class Welcome(Message, tag=1):
    """The owner takes calls."""

    pid: int
    since: float
    """The time at which it opened the store: seconds since 1970."""
    position: int
    """The last position of the log: what the client asks from now on comes later."""
    choices: dict[str, str]


class Refused(Message, tag=2):
    """The owner takes no calls of this client, and why; the connection ends."""

    error: bytes


class Call(Message, tag=3):
    """An operation that is to be carried out."""

    number: int
    operation: str
    """Its name in generated_operations.py."""
    on: On
    arguments: bytes
    """See values.py."""
    deadline_s: float | None = None
    """The seconds in which the client wants an answer."""
    after: int | None = None
    """Not None: it is asked again, and was first asked when the log had this position."""


class OfCall(Message):
    """Something about the call of a number."""

    number: int


class Cancel(OfCall, tag=4):
    """The caller no longer waits for a call."""


class More(OfCall, tag=5):
    """Allows the owner to send so many more items of an iteration."""

    items: int


class Signal(OfCall, tag=6):
    """An event that was given as an argument has been set."""

    argument: int


class Answered(OfCall, tag=7):
    """The result of a call."""

    value: bytes


class CallFailed(OfCall, tag=8):
    """The error that a call raised: see values.py."""

    error: bytes


class Yielded(OfCall, tag=9):
    """An item of an iteration; its end is a `Answered`."""

    value: bytes


class Called(OfCall, tag=10):
    """A function that was given as an argument is called."""

    argument: int
    values: bytes


class Heard(OfCall, tag=14):
    """A function that was given as an argument has been called, and what it raised."""

    error: bytes | None = None


class Ping(Message, tag=11):
    """A question whether somebody is there."""


class Pong(Message, tag=12):
    """The answer to it."""


class Closing(Message, tag=13):
    """The owner closes the store: it carries out nothing new."""


Said: TypeAlias = (
    Hello | Welcome | Refused | Call | Cancel | More | Signal | Answered | CallFailed | Yielded
    | Called | Heard | Ping | Pong | Closing
)  # fmt: skip

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Said).decode


class NotAFrameError(Exception):
    """The peer has sent something that is no message, or too much."""


def framed(message: Message) -> bytes:
    """Return the frame of a message."""
    said = _encode(message)
    return len(said).to_bytes(_PREFIX, "big") + said


class Frames:
    """Takes bytes, and returns the messages that they complete."""

    def __init__(self, bytes_max: int):
        self.bytes_max = bytes_max
        self._buffer = bytearray()

    @property
    def waiting_bytes(self) -> int:
        """The bytes of a message that is not complete."""
        return len(self._buffer)

    def fed(self, data: bytes) -> list[Said]:
        """Return the messages that these bytes complete, in order.

        :raises NotAFrameError: they are too large, or no messages.
        """
        self._buffer += data
        found: list[Said] = []
        start = 0
        with memoryview(self._buffer) as view:
            while (begin := start + _PREFIX) <= len(view):
                end = begin + int.from_bytes(view[start:begin], "big")
                if end - begin > self.bytes_max:
                    raise NotAFrameError(f"a frame of {end - begin:,} bytes is too large")
                if end > len(view):
                    break
                try:
                    found.append(_decode(view[begin:end]))
                except (msgspec.DecodeError, RecursionError) as error:
                    raise NotAFrameError(f"a frame is no message: {error}") from error
                start = end
        del self._buffer[:start]
        return found


class FrameLink(asyncio.Protocol):
    """One end of a connection.

    `heard` gets each message, `lost` is called once at its end, `swollen` whenever much is under
    way: a large frame that is not complete, or much that the peer has not read.
    """

    def __init__(
        self,
        heard: Callable[["FrameLink", Said], None],
        lost: Callable[["FrameLink", Exception | None], None],
        bytes_max: int = FRAME_BYTES_MAX,
        swollen: Callable[[], object] = lambda: None,
    ):
        self._heard, self._lost, self._swollen = heard, lost, swollen
        self.frames = Frames(bytes_max)
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
        except NotAFrameError:
            self.abort()
            return
        for message in messages:
            if self.is_closing:
                return
            self._heard(self, message)
        if self.frames.waiting_bytes > LARGE_BYTES:
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

    def send(self, message: Message) -> None:
        """Send a message; a peer that has not read what came before has lost its connection."""
        if self.transport is None or self.transport.is_closing():
            return
        self.transport.write(framed(message))
        unread_bytes = self.transport.get_write_buffer_size()
        if unread_bytes > UNREAD_BYTES_MAX:
            self.transport.abort()
        elif unread_bytes > LARGE_BYTES:
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
