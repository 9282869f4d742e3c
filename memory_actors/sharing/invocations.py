"""Invocations: their arguments by name, the user concerned, their messages, and who waits."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.sharing import frames
from memory_actors.sharing.declaration import How, Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.values import Found, packed, unpacked


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
) -> tuple[frames.Call, list[Any]]:
    """Return the message that asks for an operation, and what of its arguments stays here."""
    kept: list[Any] = []

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


def deadline_s() -> float | None:
    """Return the seconds that a caller on this event loop has left; None: all there are."""
    until_s = anyio.current_effective_deadline()
    if until_s == float("inf"):
        return None
    return max(0.0, until_s - asyncio.get_running_loop().time())


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


def _whole(path: object) -> Any:
    return str(Path(path).absolute()) if isinstance(path, str | Path) and str(path) else path


def invocation_of(call: frames.Call, found: Found) -> Invocation:
    """Decode a call.

    :raises InvalidInputError: its arguments cannot be read.
    """
    args, kwargs = unpacked(call.arguments, found)
    return Invocation(call.operation, call.on, args, kwargs)


def from_here(message: frames.Call, position: int) -> frames.Call:
    """Return the call that goes on behind a position."""
    args, kwargs = unpacked(message.arguments, nothing)
    return msgspec.structs.replace(
        message, arguments=packed([args, {**kwargs, "after": position}], nothing)
    )


def nothing(*_: object) -> Any:
    """Stand for a function where there is none."""
    return None


# --- calls of a client that have no result yet

ERASURES: Final = "system.watch_erasures"
FORGET: Final = "node.forget"
"""Between nodes: let go of all that you keep of a user, who is being erased."""


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
