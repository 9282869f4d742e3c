"""The life of a memory, event by event, in plain English: why it is there, or no longer is.

The life of its summary follows, if it was compressed. A summary is never compressed itself.
"""

from collections.abc import Mapping, Sequence

from eventlog import Dropped, Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.base.reports import Why, WhyStep
from memory_actors.kinds.effects import BEGINS, ENDS, Effect, Event, effect, field_naming, verb_of
from memory_actors.kinds.purging import made_of
from memory_actors.kinds.user_state import kind_of
from memory_actors.users.handles.scope import Scope


async def why(scope: Scope, memory_id: str) -> Why:
    """Return the life of a memory. See `UserMemory.why`.

    :raises NotFoundError: no event ever named it.
    """
    events = await scope.events_about(memory_id)
    if not events:
        raise NotFoundError(f"no event names memory {memory_id!r}")
    steps = steps_of(memory_id, events, alive=False)
    summary_id = steps[-1].by if steps[-1].effect == Effect.COMPRESSED else None
    if summary_id is not None:  # its first event is the last one of the original
        steps += steps_of(summary_id, (await scope.events_about(summary_id))[1:], alive=True)
    state = await scope.state_now()
    asked = [one for one in (memory_id, summary_id) if one is not None]
    living = {one for one in asked if state.find(one) is not None}
    kinds = map(kind_of, events)
    return Why(
        memory_id=memory_id,
        memory_type=next((kind.NAME for kind in kinds if kind is not None), ""),
        alive=memory_id in living,
        summary_id=summary_id,
        originals=made_of(memory_id, events),
        steps=tuple(steps),
        says=_now(memory_id, summary_id, steps[-1], living),
    )


def _now(memory_id: str, summary_id: str | None, last: WhyStep, living: set[str]) -> str:
    if memory_id in living:
        return "It is stored."
    if summary_id in living:
        return f"It is now a part of the summary {summary_id}."
    what = "It is not there" if summary_id is None else f"Its summary {summary_id} is not there"
    began = last.effect in (Effect.ADDED, Effect.CHANGED, Effect.RESTORED)
    if began and not last.event.startswith("review."):
        return f"{what}: its time was up."
    return f"{what}: {last.says[0].lower()}{last.says[1:]}"


def steps_of(memory_id: str, events: Sequence[Recorded[Event]], *, alive: bool) -> list[WhyStep]:
    """Return the steps of a memory through events; `alive` tells if it existed before them."""
    steps = []
    for recorded in events:
        what = effect(recorded.tag, recorded.data, memory_id)
        if what is Effect.ADDED and alive:  # a key is set, or a document put, over what was there
            what = Effect.CHANGED
        alive = (alive or what in BEGINS) and what not in ENDS
        steps.append(_step(memory_id, recorded, what))
    return steps


def _step(memory_id: str, recorded: Recorded[Event], what: Effect) -> WhyStep:
    event, meta = recorded.data, recorded.meta
    other = getattr(event, "memory_id", None) if field_naming(event, memory_id) else None
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


AUTOMATIC: Mapping[str, str] = {
    "ApplyRetention": "retention",
    "CompressMemories": "compaction",
    "ExpireMemories": "its time to live, which was over",
}
"""Commands that nobody gives: who does."""

_SAYS: Mapping[Effect, str] = {
    Effect.ADDED: "Added",
    Effect.CHANGED: "Changed",
    Effect.RESTORED: "Brought back as it was",
    Effect.DELETED: "Deleted",
    Effect.PRUNED: "Pruned to make room, as an add was allowed to",
    Effect.EVICTED: "Left to make room for {by}",
    Effect.EXPIRED: "Expired",
    Effect.COMPRESSED: "Compressed, with others, into the summary {by}",
    Effect.UNDONE: "Taken away, so that its originals could come back",
}
_BY_VERB: Mapping[str, str] = {
    "compressed": "Made as a summary of {count} memories",
    "summary_added": "Put here as a summary of {count} memories",
    "observed": "Got new observations",
    "unobserved": "Lost an observation",
    "step_added": "Got a step",
    "seen": "Said again in the same words",
    "finished": "Finished",
    "ended": "Said to be over",
    "superseded": "Said otherwise by {newer}, which is newer ({evidence})",
    "unmarked": "No longer said otherwise by {newer}: that was taken back",
    "reinstated": "Said to hold all the same",
    "started": "Started",
    "held": "Added as pending",
    "closed": "No longer pending: {outcome}",
}
"""Words for the memory that an event is about, if its tag is more specific than its effect."""
_BY_FIELD: Mapping[str, str] = {
    "relationship_ids": "Deleted with the entity {by}",
    "closed_ids": "Ended by {by}, which contradicts it",
    "superseded_by_id": "Says otherwise than {by}, which is older",
}
_CAUSES: Mapping[tuple[Effect, str], str] = {
    (Effect.EXPIRED, "ttl"): "Expired: its session was silent for too long",
    (Effect.EXPIRED, "quota"): "Left with its session: there were too many",
}


def sentence(recorded: Recorded[Event], effect: Effect, memory_id: str) -> str:
    """Return the sentence that describes an event's effect on a memory and its cause."""
    event = recorded.data
    told = _told(recorded.tag, event, effect, memory_id)
    ids = getattr(event, "compressed_from_ids", ())
    told = told.format(
        by=getattr(event, "memory_id", "another one"),
        newer=getattr(event, "superseded_by_id", "another one"),
        evidence=getattr(event, "evidence", "no more is known"),
        outcome=getattr(event, "outcome", ""),
        count=len(ids),
    )
    if isinstance(event, Dropped):
        return f"{told}. Retention dropped the details on {event.since:%Y-%m-%d}."
    told += _by_whom(recorded.meta)
    if (what := recorded.meta.get("purged")) is not None:
        how = "with all that" if effect in ENDS else "to be without what"
        told += f", {how} came from {what}"
    return f"{told}."


def _told(tag: str, event: object, effect: Effect, memory_id: str) -> str:
    field = field_naming(event, memory_id)
    if field is not None:
        return _BY_FIELD.get(field, _SAYS[effect])
    cause = getattr(event, "cause", None)
    if (effect, cause) in _CAUSES:
        return _CAUSES[effect, str(cause)]
    return _BY_VERB.get(verb_of(tag), _SAYS[effect]) if effect not in _PLAIN else _SAYS[effect]


_PLAIN = frozenset({Effect.RESTORED, Effect.DELETED})


def _by_whom(meta: Mapping[str, str]) -> str:
    automatic = AUTOMATIC.get(meta.get("command", ""))
    if automatic is not None:
        return f" by {automatic}"
    agent, session = meta.get("agent_id"), meta.get("session_id")
    by = "" if agent is None else f" by agent {agent}"
    within = "" if session is None else f" in session {session}"
    extraction = meta.get("extraction")
    extracted = "" if extraction is None else f", in the extraction {extraction}"
    return by + within + extracted
