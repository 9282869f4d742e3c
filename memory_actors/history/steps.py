"""The life of one memory, event by event, from the log."""

from collections.abc import Sequence
from typing import Any

from eventlog import Recorded
from memory_actors.base.reports import WhyStep
from memory_actors.history.sentences import sentence
from memory_actors.kinds.events import BEGINS, ENDS, Effect, effect, field_naming


def steps_of(memory_id: str, events: Sequence[Recorded[Any]], *, alive: bool) -> list[WhyStep]:
    """Return what events did to a memory that was alive before them, or was not."""
    steps = []
    for recorded in events:
        what = effect(recorded.tag, recorded.data, memory_id)
        if what is Effect.ADDED and alive:  # a key is set, or a document put, over what was there
            what = Effect.CHANGED
        alive = (alive or what in BEGINS) and what not in ENDS
        steps.append(_step(memory_id, recorded, what))
    return steps


def _step(memory_id: str, recorded: Recorded[Any], what: Effect) -> WhyStep:
    event, meta = recorded.data, recorded.meta
    other = None if field_naming(event, memory_id) is None else event.memory_id
    return WhyStep(
        memory_id=memory_id,
        position=recorded.position,
        version=recorded.version,
        at=recorded.recorded_at,
        event=recorded.tag,
        effect=what.value,
        command=meta.get("command"),
        agent_id=meta.get("agent_id"),
        session_id=meta.get("session_id"),
        source=meta.get("source"),
        trust=meta.get("trust"),
        cause=getattr(event, "cause", meta.get("cause")),
        by=other,
        says=sentence(recorded, what, memory_id),
    )
