"""Invocations: their arguments by name, the user concerned, their messages, and calls that block.

The few operations that are not awaited block the thread. Each such call has a connection of its
own: that of a client belongs to its event loop, which waits as well.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from memory_actors.api.parts import Choices
from memory_actors.base.errors import (
    DeadlineExceededError,
    InvalidInputError,
    SystemClosedError,
    UnavailableError,
)
from memory_actors.sharing import frames
from memory_actors.sharing.address import Address, reachable
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.values import Found, error_of, packed, unpacked

ERASURES: Final = "system.watch_erasures"
FORGET: Final = "node.forget"
"""Between nodes: let go of all that you keep of a user, who is being erased."""


def arguments(invocation: Invocation) -> dict[str, Any]:
    """Return the arguments that were given, by the names of their parameters.

    :raises TypeError: the operation does not take them.
    """
    takes = signature(DECLARED[invocation.name].takes)
    given = takes.bind(None, *invocation.args, **invocation.kwargs).arguments
    del given["self"]
    return given


def user_of(invocation: Invocation) -> str | None:
    """Return the id of the user that an invocation concerns.

    None: it concerns all users, or the operation refuses what it was given.
    """
    if invocation.on.user_id is not None:
        return invocation.on.user_id
    if invocation.name in DECLARED:
        with suppress(TypeError):  # the operation says better what is wrong
            user_id = arguments(invocation).get("user_id")
            return user_id if isinstance(user_id, str) else None
    return None


def call_of(
    number: int, invocation: Invocation, deadline_s: float | None = None
) -> tuple[frames.Call, list[object]]:
    """Return the message that asks for an operation, and what of its arguments stays here."""
    kept: list[object] = []

    def keep(one: object) -> int:
        kept.append(one)
        return len(kept) - 1

    args, kwargs = _absolute(invocation)
    arguments = packed([list(args), dict(kwargs)], keep)
    if len(arguments) > frames.VALUE_BYTES_MAX:
        raise InvalidInputError(
            f"the arguments take {len(arguments):,} bytes (max: {frames.VALUE_BYTES_MAX:,}): give "
            "less at once"
        )
    return frames.Call(number, invocation.name, invocation.on, arguments, deadline_s), kept


def _absolute(invocation: Invocation) -> tuple[Sequence[object], Mapping[str, object]]:
    """Return arguments with paths as they are for every process."""
    _, _, args, kwargs = invocation
    declared = DECLARED.get(invocation.name)
    if declared is None or declared.path is None:
        return args, kwargs
    place, parameter = declared.path
    if len(args) > place:
        return [*args[:place], _whole(args[place]), *args[place + 1 :]], kwargs
    return args, {**kwargs, parameter: _whole(kwargs.get(parameter))}


def _whole(path: object) -> object:
    return str(Path(path).absolute()) if isinstance(path, str | Path) and str(path) else path


def invocation_of(call: frames.Call, found: Found) -> Invocation:
    """Decode a call.

    :raises InvalidInputError: its arguments cannot be read.
    """
    args, kwargs = unpacked(call.arguments, found)
    return Invocation(call.operation, call.on, args, kwargs)


def nothing(*_: object) -> Any:
    """Stand for a function where there is none."""
    return None


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
