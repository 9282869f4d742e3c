"""A sentence in plain English about what an event did to a memory."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from eventlog import Dropped, Recorded
from memory_actors.kinds.events import ENDS, Effect, field_naming, verb_of

AUTOMATIC: Mapping[str, str] = MappingProxyType({"CompressMemories": "compaction"})
"""Commands that nobody gives: who does."""

_SAYS: Mapping[Effect, str] = MappingProxyType(
    {
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
)
_BY_VERB: Mapping[str, str] = MappingProxyType(
    {
        "compressed": "Made as a summary of {count} memories",
        "summary_added": "Put here as a summary of {count} memories",
        "observed": "Got new observations",
        "unobserved": "Lost an observation",
        "step_added": "Got a step",
        "seen": "Said again in the same words",
        "finished": "Finished",
        "ended": "Said to be over",
        "superseded": "Said otherwise by {newer}, which is newer ({evidence})",
        "reinstated": "Said to hold all the same",
        "started": "Started",
    }
)
"""Of the memory that an event is about, where its tag says more than its effect."""
_BY_FIELD: Mapping[str, str] = MappingProxyType(
    {
        "relationship_ids": "Deleted with the entity {by}",
        "closed_ids": "Ended by {by}, which contradicts it",
        "superseded_by_id": "Says otherwise than {by}, which is older",
    }
)
_CAUSES: Mapping[tuple[Effect, str], str] = MappingProxyType(
    {
        (Effect.EXPIRED, "ttl"): "Expired: its session was silent for too long",
        (Effect.EXPIRED, "quota"): "Left with its session: there were too many",
    }
)


def sentence(recorded: Recorded[Any], effect: Effect, memory_id: str) -> str:
    """Return what an event did to a memory, and who asked for it."""
    event = recorded.data
    told = _told(recorded.tag, event, effect, memory_id)
    ids = getattr(event, "compressed_from_ids", ())
    told = told.format(
        by=getattr(event, "memory_id", "another one"),
        newer=getattr(event, "superseded_by_id", "another one"),
        evidence=getattr(event, "evidence", "no more is known"),
        count=len(ids),
    )
    if isinstance(event, Dropped):
        return f"{told}. Retention dropped the details on {event.since:%Y-%m-%d}."
    return f"{told}{_by_whom(recorded.meta)}{_purged(recorded.meta, effect)}."


def _purged(meta: Mapping[str, str], effect: Effect) -> str:
    """Return what was purged by it: with that a memory went, or it was left without that."""
    what = meta.get("purged")
    if what is None:
        return ""
    how = "with all that" if effect in ENDS else "to be without what"
    return f", {how} came from {what}"


def _told(tag: str, event: Any, effect: Effect, memory_id: str) -> str:
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
    return by + within
