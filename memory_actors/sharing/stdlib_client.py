"""Calls of the owner of a store by a process that has no time to load more: the standard library.

It says what `frames.py` says, in as much of msgpack as that takes. Results are plain values: a
struct is a `Row`. `invocations.py` is for processes that have loaded the rest.
"""

import _socket  # `socket` makes enumerations of all its constants: a tenth of a hook's time
import errno
import json
import os
import stat
import struct
from collections.abc import Mapping, Sequence
from typing import Any, Final

PROTOCOL: Final = 1
"""That of `frames.py`."""
WAIT_S: Final = 5.0
"""A person waits for the hook: an owner that is stopped says nothing."""
ADDRESS_BYTES_MAX: Final = 64 << 10
HELLO, REFUSED, CALL, ANSWERED, CALL_FAILED = 0, 2, 3, 7, 8
_NUMBERS: Final = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q",
    0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_SIZED: Final[Mapping[int, tuple[object, int]]] = {
    0xC4: (bytes, 1), 0xC5: (bytes, 2), 0xC6: (bytes, 4), 0xC7: ("time", 1), 0xC8: ("time", 2),
    0xC9: ("time", 4), 0xD9: (str, 1), 0xDA: (str, 2), 0xDB: (str, 4), 0xDC: (list, 2),
    0xDD: (list, 4), 0xDE: (dict, 2), 0xDF: (dict, 4),
}  # fmt: skip
"""Kinds of values with a length, and the bytes of the length."""
_TIMES: Final = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}
_CONSTANTS: Final = {0xC0: None, 0xC2: False, 0xC3: True}


class OwnerFailed(Exception):
    """The owner refused a call, or failed."""


class ResultRow(dict[str, Any]):
    """A struct of a result: its fields are attributes, and those that were left out are None."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.get(name)


class OwnerConnection:
    """A connection to the process that has a store open. Each call blocks the thread."""

    def __init__(self, directory: str):
        """Connect.

        :raises OSError: nobody has it open, or not at a socket in its directory.
        """
        written = read_small(os.path.join(directory, "owner.json"), ADDRESS_BYTES_MAX)
        address = json.loads(written)
        self._socket = _socket.socket(_socket.AF_UNIX)
        self._socket.settimeout(WAIT_S)
        self._socket.connect(os.path.join(directory, "owner.sock"))
        self._number = 0
        client = os.urandom(9).hex()
        self._send([HELLO, PROTOCOL, address["secret"], client, os.getpid(), {}, False])

    def ask(
        self,
        on: Sequence[str | None],
        operation: str,
        args: Sequence[object],
        named: Mapping[str, object],
    ) -> object:
        """Return the result of an operation on a handle: its user, agent and session.

        :raises OwnerFailed: it failed there.
        :raises OSError: the owner says nothing, or is gone.
        """
        self._number += 1
        arguments = packed([list(args), dict(named)])
        self._send([CALL, self._number, operation, list(on), arguments])
        while True:
            tag, *rest = unpacked(self._received(int.from_bytes(self._received(4), "big")))
            if tag in (REFUSED, CALL_FAILED):
                raise OwnerFailed(": ".join(map(str, unpacked(rest[-1])[:2])))
            if tag == ANSWERED:
                return unpacked(rest[-1])

    def _send(self, message: Sequence[object]) -> None:
        said = packed(message)
        self._socket.sendall(len(said).to_bytes(4, "big") + said)

    def _received(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            more = self._socket.recv(size - len(data))
            if not more:
                raise ConnectionError("the connection to the owner was lost")
            data += more
        return bytes(data)


class OwnerHandle:
    """A handle of a user in the owner. Awaiting a call of it blocks, and needs no event loop."""

    def __init__(self, owner: OwnerConnection, on: Sequence[str | None], name: str = ""):
        self._owner, self._on, self._name = owner, on, name

    def __getattr__(self, name: str) -> "OwnerHandle":
        return OwnerHandle(self._owner, self._on, f"{self._name}.{name}".lstrip("."))

    async def __call__(self, *args: object, **kwargs: object) -> object:
        """Carry out the operation of this name."""
        return self._owner.ask(self._on, self._name, args, kwargs)


# --- msgpack


def packed(value: Any) -> bytes:
    """Return a value of JSON, or bytes, in msgpack."""
    if value is None or isinstance(value, bool):
        return b"\xc0" if value is None else b"\xc3" if value else b"\xc2"
    if isinstance(value, int):
        return struct.pack(">Bq", 0xD3, value)
    if isinstance(value, float):
        return struct.pack(">Bd", 0xCB, value)
    if isinstance(value, str):
        text = value.encode(errors="replace")
        return struct.pack(">BI", 0xDB, len(text)) + text
    if isinstance(value, bytes):
        return struct.pack(">BI", 0xC6, len(value)) + value
    if isinstance(value, dict):
        parts = [packed(one) for item in value.items() for one in item]
        return struct.pack(">BI", 0xDF, len(value)) + b"".join(parts)
    return struct.pack(">BI", 0xDD, len(value)) + b"".join(map(packed, value))


def unpacked(data: bytes) -> Any:
    """Return a value that is written in msgpack; a time as seconds since 1970."""
    return _Unpacking(data).value()


class _Unpacking:
    def __init__(self, data: bytes):
        self._data, self._at = data, 0

    def value(self) -> Any:
        (tag,) = self._taken(1)
        if tag < 0x80 or tag >= 0xE0:
            return tag if tag < 0x80 else tag - 0x100
        if tag < 0xC0:
            short = (dict, list, str, str)[(tag >> 4) - 8]
            return self._sized(short, tag & (0x1F if short is str else 0xF))
        if tag in _NUMBERS:
            return struct.unpack(_NUMBERS[tag], self._taken(struct.calcsize(_NUMBERS[tag])))[0]
        if tag in _SIZED:
            kind, width = _SIZED[tag]
            return self._sized(kind, int.from_bytes(self._taken(width), "big"))
        return self._sized("time", _TIMES[tag]) if tag in _TIMES else _CONSTANTS[tag]

    def _sized(self, kind: object, size: int) -> object:
        if kind is list:
            return [self.value() for _ in range(size)]
        if kind is dict:
            return ResultRow((self.value(), self.value()) for _ in range(size))
        if kind == "time":
            return _seconds(self._taken(1), self._taken(size))
        return self._taken(size).decode() if kind is str else self._taken(size)

    def _taken(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def _seconds(code: bytes, data: bytes) -> int:
    """Return the seconds of a timestamp, the only extension that results have."""
    if code != b"\xff":
        raise ValueError(f"extension {code!r} is no time")
    if len(data) == 8:
        return int.from_bytes(data, "big") & ((1 << 34) - 1)
    return int.from_bytes(data[-8:], "big", signed=len(data) == 12)


def read_small(path: str, bytes_max: int) -> bytes:
    """Return the first bytes of a regular file. Never waits for a pipe.

    :raises OSError: there is none, it cannot be read, or it is no regular file.
    """
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file: move it away", path)
        return file.read(bytes_max)
