"""From an id to what it stands for."""

from eventlog import Dropped
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.base.validation import check_name
from memory_actors.kinds.kind import is_summary
from memory_actors.kinds.user_state import KINDS, UserState, event_registry
from memory_actors.search.reading import Found
from memory_actors.users.handles.scope import Scope

AMBIGUOUS_NAMED_MAX = 3


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


async def full_id(scope: Scope, beginning: str) -> str:
    """Return the only id that begins so: of what is there or, if none of it does, of what was.

    :raises NotFoundError: none does.
    :raises InvalidInputError: several do.
    """
    check_name(beginning, "memory_id")
    if await scope.versions_about(beginning):
        return beginning
    state = await state_now(scope)
    rows = (row for kind in KINDS for row in kind.rows(state.of(kind)))
    ids = {row.memory_id for row in rows if row.memory_id.startswith(beginning)}
    ids = ids or await _ever_named(scope, beginning)
    if len(ids) > 1:
        some = ", ".join(sorted(ids)[:AMBIGUOUS_NAMED_MAX])
        raise InvalidInputError(
            f"{len(ids):,} ids begin with {beginning!r}: write more of it (such as {some})"
        )
    if not ids:
        raise NotFoundError(f"no memory of this user has an id that begins with {beginning!r}")
    return ids.pop()


async def _ever_named(scope: Scope, beginning: str) -> set[str]:
    """Return the ids that begin so, of all that any event is about."""
    log, about, version, ids = scope.services.log, event_registry().keys, 0, set[str]()
    while page := await log.read_stream(scope.stream, version, dropped="mark"):
        version = page[-1].version
        events = (recorded.data for recorded in page if not isinstance(recorded.data, Dropped))
        ids.update(one for event in events for one in about(event) if one.startswith(beginning))
    return ids


async def found_summary(scope: Scope, memory_id: str) -> Found:
    """Return a living summary.

    :raises NotFoundError: there is no memory with this id, or it is no summary.
    """
    one = await found(scope, memory_id)
    if not is_summary(one.row):
        raise NotFoundError(f"{memory_id!r} is no compressed memory: it stands for itself")
    return one
