"""A call of the owner that blocks the thread.

It serves the few operations that are not awaited. Each call has a connection of its own: that of a
client belongs to its event loop, which waits as well.
"""

import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from memory_actors.base.errors import DeadlineExceededError, SystemClosedError, UnavailableError
from memory_actors.sharing import frames
from memory_actors.sharing.address import Address, reachable
from memory_actors.sharing.choices import Choices
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.invocations import call_of
from memory_actors.sharing.values import error_of

if TYPE_CHECKING:
    import asyncio

WAIT_S: Final = 10.0
LOOK_S_MAX: Final = 1.0
"""The thread may be that of an event loop: it is not held up for longer."""
LOOK_AGAIN_S: Final = 0.02


class OwnedHere(NamedTuple):
    """An owner in this process."""

    answer: Callable[[frames.Call], bytes]
    loop: "asyncio.AbstractEventLoop"
    release: Callable[[], object]
    """Lets go of the store, without the loop. Blocks."""


OWNED_HERE: Final[dict[str, OwnedHere]] = {}
"""The owners in this process, by the secret of the address: nobody else could answer."""


def ask_at_once(
    directory: Path, choices: Choices, invocation: Invocation, find: Callable[[], Address | None]
) -> object:
    """Return the result of an operation from the owner of a store, who is where `find` says.

    A change of owners is waited for, for a moment.

    :raises UnavailableError: nobody answers.
    :raises DeadlineExceededError: the owner says nothing.
    """
    until_s = time.monotonic() + LOOK_S_MAX
    call, _ = call_of(0, invocation)
    while True:
        try:
            answer = _answer(directory, choices, call, find())
            return DECLARED[invocation.name].decoded(answer)
        except DeadlineExceededError:  # an OSError too, but somebody has the store
            raise
        except (OSError, SystemClosedError) as error:
            if time.monotonic() > until_s:
                raise UnavailableError(f"nobody serves the store {directory}: try again") from error
        time.sleep(LOOK_AGAIN_S)


def _answer(directory: Path, choices: Choices, call: frames.Call, address: Address | None) -> bytes:
    if address is None:
        raise FileNotFoundError(directory)
    if address.secret in OWNED_HERE:
        return OWNED_HERE[address.secret].answer(call)
    client = secrets.token_urlsafe(9)  # of this call alone
    hello = frames.Hello(frames.PROTOCOL, address.secret, client, os.getpid(), choices, keeps=False)
    try:
        return _asked(directory, address, hello, call)
    except TimeoutError:
        raise DeadlineExceededError(
            f"process {address.pid} has the store and has said nothing for {WAIT_S:g} s"
        ) from None


def _asked(directory: Path, address: Address, hello: frames.Hello, call: frames.Call) -> bytes:
    with reachable(directory, address) as (found, where), found:
        found.settimeout(WAIT_S)
        found.connect(where)
        found.sendall(frames.framed(hello) + frames.framed(call))
        read = frames.Frames(frames.FRAME_BYTES_MAX)
        while data := found.recv(1 << 16):
            for message in read.fed(data):
                if isinstance(message, frames.Answered):
                    return message.value
                if isinstance(message, frames.CallFailed | frames.Refused):
                    raise error_of(message.error)
    raise ConnectionError("the connection was lost")
