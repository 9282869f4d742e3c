"""The usage of a user's memory, counted anew from texts and events, and the alerts it calls for."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from eventlog import Recorded
from memory_actors import Limits
from memory_actors.kinds import context, entity, long_term, short_term, structured, working
from memory_actors.kinds.effects import Pruned
from memory_actors.kinds.kind import Kind, Tally
from memory_actors.kinds.provenance import LifetimeSet
from memory_actors.kinds.short_term import SessionsExpired
from memory_actors.kinds.user_state import KINDS, UserState, kind_of_event

Log = Sequence[Recorded[Any]]
Uses = dict[tuple[str, ...], tuple[int, int]]
"""Limits as name -> (used, limit). A limit for each session, agent or episode is named
with it."""

# --- how much of each limit


def uses(state: UserState, limits: Limits) -> Uses:
    """Return how full every limit is, counted row by row."""
    rows = {kind.NAME: list(kind.rows(state.of(kind))) for kind in KINDS}
    entities = [row for row in rows["entity"] if isinstance(row, entity.EntityRow)]
    sizes = {name: sum(row.size_bytes for row in held) for name, held in rows.items()}
    sessions = {row.session_id for row in rows["short_term"]}
    counted: Uses = {
        ("working", "keys"): (len(rows["working"]), limits.working_keys),
        ("working", "bytes"): (sizes["working"], limits.working_bytes),
        ("short_term", "sessions"): (len(sessions), limits.short_term_sessions),
        ("short_term", "messages"): (0, limits.short_term_messages),
        ("short_term", "bytes"): (0, limits.short_term_bytes),
        ("long_term", "memories"): (len(rows["long_term"]), limits.long_term_memories),
        ("long_term", "bytes"): (sizes["long_term"], limits.long_term_bytes),
        ("entity", "entities"): (len(entities), limits.entities),
        ("entity", "relationships"): (
            len(rows["entity"]) - len(entities), limits.relationships,
        ),
        ("entity", "bytes"): (sizes["entity"], limits.entity_bytes),
        ("episodic", "episodes"): (0, limits.episodes),
        ("episodic", "bytes"): (sizes["episodic"], limits.episodic_bytes),
        ("structured", "documents"): (len(rows["structured"]), limits.documents),
        ("structured", "bytes"): (sizes["structured"], limits.structured_bytes),
        ("context", "entries"): (len(rows["context"]), limits.context_entries),
        ("context", "documents"): (len(state.context.documents), limits.context_documents),
        ("context", "bytes"): (
            sum(row.size_bytes for row in sized(context.KIND, state.context)), limits.context_bytes,
        ),
    }  # fmt: skip
    return counted | _of_sessions(rows["short_term"], limits) | _of_agents(rows["episodic"], limits)


def _of_sessions(rows: Sequence[Any], limits: Limits) -> Uses:
    counts = Counter(row.session_id for row in rows)
    sizes: Counter[str] = Counter()
    for row in rows:
        sizes[row.session_id] += row.size_bytes
    used: Uses = {}
    for session, count in counts.items():
        used["short_term", "messages", session] = (count, limits.short_term_messages)
        used["short_term", "bytes", session] = (sizes[session], limits.short_term_bytes)
    return used


def _of_agents(rows: Sequence[Any], limits: Limits) -> Uses:
    counts = Counter(row.agent_id for row in rows)
    used: Uses = {
        ("episodic", "episodes", agent): (count, limits.episodes) for agent, count in counts.items()
    }
    for row in rows:
        used["episodic", "steps", row.memory_id] = (len(row.steps), limits.episode_steps)
    return used


SILENT = {
    "short_term.bytes", "short_term.messages", "short_term.sessions", "working.bytes",
}  # fmt: skip
"""Limits that raise no alert: something leaves where it has to, and nothing is refused."""


def fullest(counted: Uses) -> dict[str, tuple[int, int]]:
    """Return the fullest use of each quota of a user, by its name."""
    by_quota: dict[str, tuple[int, int]] = {}
    for (kind, quota, *_), use in counted.items():
        if quota != "steps":
            name = f"{kind}.{quota}"
            by_quota[name] = max(use, by_quota.get(name, use))
    return by_quota


# --- tallies


def tally(kind: Kind, state: Any, log: Log) -> Tally:
    """Count the content of a kind from the texts of its rows; count its losses from the log."""
    rows, sized_rows = list(kind.rows(state)), sized(kind, state)
    relationships = sum(isinstance(row, entity.RelationshipRow) for row in rows)
    events = {entry.version: entry for entry in log}
    mine = [entry.data for entry in log if kind_of_event(entry.data) is kind]
    pruned = [e for e in mine if isinstance(e, Pruned)]
    expired = [e for e in mine if isinstance(e, SessionsExpired)]
    return Tally(
        count=len(rows) - relationships,
        size_bytes=sum(text_bytes(kind, row, events) for row in sized_rows),
        stored_bytes=sum(stored_bytes(kind, row, log) for row in sized_rows),
        evicted=sum(len(getattr(e, "evicted_ids", ())) for e in mine)
        + sum(len(e.memory_ids) for e in expired),
        pruned=sum(len(e.memory_ids) for e in pruned),
        relationships=relationships,
        **_summarised(rows, events),
    )


def _summarised(rows: Sequence[Any], events: Mapping[int, Recorded[Any]]) -> dict[str, int]:
    """Total the summaries among rows, by the events that have their texts."""
    held = [events[row.version].data for row in rows if getattr(row, "original_count", 0)]
    return {
        "summaries": len(held),
        "originals": sum(len(event.compressed_from_ids) for event in held),
        "summaries_bytes_before": sum(event.bytes_before for event in held),
        "summaries_bytes_after": sum(_bytes(event.content) for event in held),
    }


def sized(kind: Kind, state: Any) -> list[Any]:
    """Return the rows whose bytes count: headings of documents are no memories, but have a size."""
    if kind is context.KIND:
        return [row for row in context.KIND.exported(state) if row.rank]
    return list(kind.rows(state))


def text_bytes(kind: Kind, row: Any, events: Mapping[int, Recorded[Any]]) -> int:
    """Return the bytes of what a row says."""
    data = kind.data(row, events)
    if kind is context.KIND:
        return _bytes(context.raw_of(row, events))
    if kind is working.KIND:
        return _bytes(row.key, kind.content(row, events))
    if kind in (short_term.KIND, long_term.KIND, structured.KIND) or isinstance(
        row, entity.RelationshipRow
    ):
        return _bytes(kind.content(row, events))
    if kind is entity.KIND:
        return _bytes(data["name"], data["type"], *data["observations"])
    parts = ("action", "observation", "outcome", "error")
    steps = [step[part] for step in data["steps"] for part in parts]
    return _bytes(data["goal"], data["result"], *steps)


def _bytes(*texts: str | None) -> int:
    return sum(len(text.encode()) for text in texts if text is not None)


def stored_bytes(kind: Kind, row: Any, log: Log) -> int:
    """Return the bytes that the events of a row take."""
    if kind is entity.KIND:
        return sum(entry.stored_bytes for entry in _own_life(row, log))
    versions = kind.sources(row) or (row.version,)
    return sum(log[version - 1].stored_bytes for version in versions)


def _own_life(row: Any, log: Log) -> Log:
    """Return the events of an entity or relationship itself since it came, or came back."""
    said = [entry for entry in log if not isinstance(entry.data, LifetimeSet)]
    own = [entry for entry in said if getattr(entry.data, "memory_id", None) == row.memory_id]
    came = max(n for n, entry in enumerate(own) if entry.tag.endswith((".added", ".restored")))
    return own[came:]


# --- alerts


def level(used: int, limit: int, was: str | None) -> str | None:
    """Return the level of an alert: at 95 and 80 percent, held until 5 points below."""
    critical, warning = (90, 75) if was == "critical" else (95, 75 if was == "warning" else 80)
    if 100 * used >= critical * limit:
        return "critical"
    return "warning" if 100 * used >= warning * limit else None
