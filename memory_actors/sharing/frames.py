"""The messages between a client and the owner of a store, and their frames.

A frame is four bytes of length, most significant first, and a message in msgpack: an array that
begins with its tag. A client says hello and is welcomed or refused. Then each call has a number of
its own, and what is said about it, in both directions, has the same: results come in any order.

Every frame has a limit, a small one before the welcome; a peer that says more has lost its
connection. A peer that does not read loses it too: what waits to be written is limited as well.
"""

from typing import Final, TypeAlias

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
    """The settings and parts that it was opened with. See choices.py."""
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
