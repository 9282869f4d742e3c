"""Why a memory is there, or no longer is: its life, and that of the summary it went into.

A summary is never compressed itself, so there is at most one behind it.
"""

from collections.abc import Iterable
from typing import Any

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.reports import Why, WhyStep
from memory_actors.history.steps import steps_of
from memory_actors.kinds.events import Effect
from memory_actors.kinds.user_state import KINDS, kind_of_tag
from memory_actors.users.handles.scope import Scope


async def why(scope: Scope, memory_id: str) -> Why:
    """Return the life of a memory. See `UserMemory.why`.

    :raises NotFoundError: no event ever named it.
    """
    events = await _about(scope, memory_id)
    if not events:
        raise NotFoundError(f"no event names memory {memory_id!r}")
    steps = steps_of(memory_id, events, alive=False)
    summary_id = steps[-1].by if steps[-1].effect == Effect.COMPRESSED else None
    if summary_id is not None:  # its first event is the last one of the original
        steps += steps_of(summary_id, (await _about(scope, summary_id))[1:], alive=True)
    living = await _living(scope, (memory_id, summary_id))
    return Why(
        memory_id=memory_id,
        memory_type=_type(events),
        alive=memory_id in living,
        summary_id=summary_id,
        originals=_originals(memory_id, events),
        steps=tuple(steps),
        says=_now(memory_id, summary_id, steps[-1], living),
    )


async def _about(scope: Scope, memory_id: str) -> list[Recorded[Any]]:
    versions = await scope.versions_about(memory_id)
    return await scope.services.log.read_versions(scope.stream, versions, dropped="mark")


async def _living(scope: Scope, memory_ids: Iterable[str | None]) -> set[str]:
    async with scope.live() as live:
        state = live.state.at(scope.now_us())
    asked = [memory_id for memory_id in memory_ids if memory_id is not None]
    return {one for one in asked if any(kind.find(state.of(kind), one) for kind in KINDS)}


def _type(events: list[Recorded[Any]]) -> str:
    kinds = (kind_of_tag(recorded.tag) for recorded in events)
    return next((kind.NAME for kind in kinds if kind is not None), "")


def _originals(memory_id: str, events: list[Recorded[Any]]) -> tuple[str, ...]:
    own = [event.data for event in events if getattr(event.data, "memory_id", "") == memory_id]
    made = [getattr(event, "compressed_from_ids", ()) for event in own]
    return next((tuple(ids) for ids in made if ids), ())


def _now(memory_id: str, summary_id: str | None, last: WhyStep, living: set[str]) -> str:
    if memory_id in living:
        return "It is there."
    if summary_id in living:
        return f"It is not there itself: it is a part of the summary {summary_id}."
    what = "It is not there" if summary_id is None else f"Its summary {summary_id} is not there"
    if last.effect in (Effect.ADDED, Effect.CHANGED, Effect.RESTORED):
        return f"{what}: its time was up."
    return f"{what}: {last.says[0].lower()}{last.says[1:]}"
