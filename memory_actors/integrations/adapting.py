"""Helpers of all adapters: a memory of either API, messages of a chat, a missing package.

An adapter is written for the async API alone. A user's memory of `memory_actors.sync` works with
it, too: it has a loop in a thread of its own, so the adapter may then be called from every loop.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar, overload

import anyio.to_thread

from memory_actors import sync
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Item
from memory_actors.sharing.system import MemorySystem, UserMemory

AnyUser: TypeAlias = UserMemory | sync.UserMemory
AnyMemory: TypeAlias = MemorySystem | sync.MemorySystem
H = TypeVar("H", AnyUser, AnyMemory)
T = TypeVar("T")
ADDED_AT_ONCE: Final = 1_000  # the most that `add_many` takes
ID_CHARS: Final = 32
QUERY_CHARS_MAX: Final = 2_000  # of the end: the question mostly stands there
NEEDS: Final = "this adapter needs {}, which is missing or too old"
SAID_BY: Final = ("user", "assistant")
"""The roles whose messages are kept: those of tools and of the system are not."""


def checked(handle: H, kind: type, advice: str) -> H:
    """Return a handle of a kind, async or not, or raise `InvalidInputError` with the advice."""
    if not isinstance(handle, kind | getattr(sync, kind.__name__)):
        raise InvalidInputError(f"{type(handle).__name__} is no {kind.__name__}: {advice}")
    return handle


def checked_user(user: AnyUser) -> AnyUser:
    """Return a user's memory, or raise `InvalidInputError` if it is none."""
    return checked(user, UserMemory, 'give memory.user("…")')


def checked_memory(memory: AnyMemory) -> AnyMemory:
    """Return a memory system, or raise `InvalidInputError` if it is none."""
    return checked(memory, MemorySystem, "give what MemorySystem.open returned")


@overload
async def reach(handle: AnyUser, function: Callable[[UserMemory], Awaitable[T]]) -> T: ...
@overload
async def reach(handle: AnyMemory, function: Callable[[MemorySystem], Awaitable[T]]) -> T: ...
async def reach(handle: object, function: Callable[[Any], Awaitable[T]]) -> T:
    """Call an async function with a memory of the async API, on the loop where that is open.

    A caller that is cancelled meanwhile does not undo what the function has begun to write.

    :raises WrongLoopError: the memory is async, and was opened on another loop: use
        `memory_actors.sync`, whose memory may be used from every loop.
    """
    if isinstance(handle, sync.UserMemory | sync.MemorySystem):
        return await anyio.to_thread.run_sync(partial(sync.on_loop, handle, function))
    return await function(handle)


async def known_about(handle: AnyUser, query: str, token_budget: int) -> str:
    """Return the memories about the end of a query, as quoted data; "" if there are none."""
    asked = query[-QUERY_CHARS_MAX:]
    if not asked.strip():
        return ""
    known = await reach(handle, lambda user: user.context(asked, token_budget=token_budget))
    return str(known.text)


def lasting_id(*parts: object) -> str:
    """Return the id of a memory that may be handed in again: of the same parts it is the same."""
    said = "\0".join(map(str, parts))
    return f"msg_{hashlib.sha256(said.encode(errors='surrogatepass')).hexdigest()[:ID_CHARS]}"


async def add_messages(handle: AnyUser, messages: Sequence[Item]) -> None:
    """Add messages of a conversation, up to 1,000 in one append; those without words are left out.

    One that has an id of its own which was used before adds nothing.

    :raises QuotaExceededError: there is no room for them.
    """
    said = [message for message in messages if message.content.strip()]
    for start in range(0, len(said), ADDED_AT_ONCE):
        some = said[start : start + ADDED_AT_ONCE]
        await reach(handle, lambda user, some=some: user.add_many(some, on_duplicate="keep"))
