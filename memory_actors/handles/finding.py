"""From an id to what it stands for."""

from memory_actors.errors import NotFoundError
from memory_actors.kinds.kind import Kind, is_summary
from memory_actors.provenance import Provenance
from memory_actors.reading import Found
from memory_actors.user_state import KINDS, kind_of_tag
from memory_actors.validation import check_name
from memory_actors.writers.scope import Scope


async def found(scope: Scope, memory_id: str) -> Found:
    """Return a living memory.

    :raises NotFoundError: there is none with this id.
    """
    check_name(memory_id, "memory_id")
    async with scope.live() as live:
        state = live.state.at(scope.now_us())
    for kind in KINDS:
        row = kind.find(state.of(kind), memory_id)
        if row is not None:
            return Found(kind, row)
    raise NotFoundError(f"no memory {memory_id!r}: never there, deleted, evicted or expired")


async def provenance_of(scope: Scope) -> Provenance:
    """Return the origins of a user's memories."""
    async with scope.live() as live:
        return live.state.provenance


async def found_summary(scope: Scope, memory_id: str) -> Found:
    """Return a living summary.

    :raises NotFoundError: there is no memory with this id, or it is no summary.
    """
    one = await found(scope, memory_id)
    if not is_summary(one.row):
        raise NotFoundError(f"{memory_id!r} is no compressed memory: it stands for itself")
    return one


async def kind_ever(scope: Scope, memory_id: str) -> Kind:
    """Return the kind of a memory, alive or not: by the event it began with.

    :raises NotFoundError: it never was.
    """
    log, stream = scope.services.log, scope.stream
    versions = await log.versions_about(stream, check_name(memory_id, "memory_id"))
    if not versions:  # it may be on its way to the log; to ask so for each id would take long
        versions = await scope.versions_about(memory_id)
    for recorded in await log.read_versions(stream, versions[:1], dropped="mark"):
        kind = kind_of_tag(recorded.tag)
        if kind is not None:
            return kind
    raise NotFoundError(f"no memory {memory_id!r} to restore: it was never there")
