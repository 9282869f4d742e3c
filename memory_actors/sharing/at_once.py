"""A call of the owner that blocks the thread, for the few operations that are not awaited.

They read what the owner has at hand. A connection of its own carries each: that of the client
belongs to its event loop, which waits as well.
"""

import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from memory_actors.base.errors import DeadlineExceededError, UnavailableError
from memory_actors.sharing import frames
from memory_actors.sharing.address import Address, reachable, read_address
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.values import error_of

WAIT_S: Final = 10.0
OWNED_HERE: Final[dict[str, Callable[[frames.Call], bytes]]] = {}
"""What answers in this process, by the secret of the address: nobody else could."""


def ask_at_once(directory: Path, client: str, choices: Choices, call: frames.Call) -> bytes:
    """Return the answer of the owner of a store.

    :raises UnavailableError: nobody answers.
    :raises DeadlineExceededError: the owner says nothing.
    """
    address = read_address(directory)
    if address is None:
        raise UnavailableError(f"nobody serves the store {directory}: try again")
    if address.secret in OWNED_HERE:
        return OWNED_HERE[address.secret](call)
    hello = frames.Hello(frames.PROTOCOL, address.secret, client, os.getpid(), choices, keeps=False)
    try:
        return _asked(directory, address, hello, call)
    except TimeoutError:
        raise DeadlineExceededError(
            f"process {address.pid} has the store and has said nothing for {WAIT_S:g} s"
        ) from None
    except OSError as error:
        raise UnavailableError(f"nobody serves the store {directory}: try again") from error


def _asked(directory: Path, address: Address, hello: frames.Hello, call: frames.Call) -> bytes:
    with reachable(directory, address) as (found, where), found:
        found.settimeout(WAIT_S)
        found.connect(where)
        found.sendall(frames.framed(hello) + frames.framed(call))
        for message in _messages(found):
            if isinstance(message, frames.Result):
                return message.value
            if isinstance(message, frames.Failed | frames.Refused):
                raise error_of(message.error)
    raise ConnectionError("the connection was lost")


def _messages(found: socket.socket) -> Iterator[frames.Said]:
    read = frames.Frames(frames.FRAME_BYTES_MAX)
    while data := found.recv(1 << 16):
        yield from read.fed(data)
