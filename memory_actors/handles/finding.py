"""From an id to what it stands for."""

from memory_actors.errors import NotFoundError
from memory_actors.kinds.kind import is_summary
from memory_actors.reading import Found
from memory_actors.user_state import KINDS, UserState
from memory_actors.validation import check_name
from memory_actors.writers.scope import Scope


async def found(scope: Scope, memory_id: str) -> Found:
    """Return a living memory.

    :raises NotFoundError: there is none with this id.
    """
    check_name(memory_id, "memory_id")
    return found_in(await state_now(scope), memory_id)


async def state_now(scope: Scope) -> UserState:
    """Return the state as it reads now: rows and their origins of one moment."""
    async with scope.live() as live:
        return live.state.at(scope.now_us())


def found_in(state: UserState, memory_id: str) -> Found:
    """Return a memory that lives in a state.

    :raises NotFoundError: there is none with this id.
    """
    for kind in KINDS:
        row = kind.find(state.of(kind), memory_id)
        if row is not None:
            return Found(kind, row)
    raise NotFoundError(
        f"no memory {memory_id!r}: never there, deleted, evicted, expired, or compressed into a "
        "summary; `why` tells what became of it"
    )


async def found_summary(scope: Scope, memory_id: str) -> Found:
    """Return a living summary.

    :raises NotFoundError: there is no memory with this id, or it is no summary.
    """
    one = await found(scope, memory_id)
    if not is_summary(one.row):
        raise NotFoundError(f"{memory_id!r} is no compressed memory: it stands for itself")
    return one
