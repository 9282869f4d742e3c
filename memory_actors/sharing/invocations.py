"""Invocations: their arguments by name, the user concerned, and their messages."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any, Final

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.sharing import frames
from memory_actors.sharing.declaration import Invocation
from memory_actors.sharing.generated_operations import DECLARED
from memory_actors.sharing.values import Found, packed, unpacked

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


def from_here(message: frames.Call, position: int) -> frames.Call:
    """Return the call that goes on behind a position."""
    args, kwargs = unpacked(message.arguments, nothing)
    return msgspec.structs.replace(
        message, arguments=packed([args, {**kwargs, "after": position}], nothing)
    )


def nothing(*_: object) -> Any:
    """Stand for a function where there is none."""
    return None
