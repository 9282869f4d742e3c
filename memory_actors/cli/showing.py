"""Memories of each kind as people see them: in a table, and one by one."""

import re
from collections.abc import Sequence
from datetime import datetime

import msgspec
from rich.table import Table
from rich.text import Text

from memory_actors.base.records import (
    Hit,
    JsonObject,
    Memory,
    MemoryType,
    Receipt,
    Relationship,
    as_record,
)
from memory_actors.cli.output import (
    counted,
    excerpt,
    local,
    pretty_json,
    print_table,
    say,
    shortened,
    size,
    table,
    text,
)

CONTENT_CHARACTERS_MAX = 300  # of a memory in a table; `get` shows all of it
LINES_MAX, LINE_CHARACTERS_MAX = 5, 120  # of an entity or an episode in a table
IDS_SHOWN_MAX = 5
ID_CHARACTERS_SHOWN = 22
_GENERATED_ID = re.compile(r"mem_[0-9a-f]{30}")
STATUS_STYLES = {"running": "yellow", "done": "green", "failed": "red"}
_MULTILINE = (MemoryType.ENTITY, MemoryType.EPISODIC)

# --- in a table


def memory_table(memories: Sequence[Memory]) -> Table:
    """Return memories as a table, with their scores where they have any."""
    scored = any(isinstance(memory, Hit) for memory in memories)
    made = table(*(["score"] if scored else []), "when", "who", "memory", right=("score",))
    for memory in memories:
        score = [f"{memory.score:.3f}"] if isinstance(memory, Hit) else []
        is_episode = memory.memory_type == MemoryType.EPISODIC
        who = memory.data["agent_id"] if is_episode else memory.role
        made.add_row(*score, local(memory.occurred_at), text(who), described(memory))
    return made


def described(memory: Memory) -> Text:
    """Return a memory's text, with its id and what else it is under it."""
    kind = "" if memory.memory_type == MemoryType.LONG_TERM else type_of(memory)
    marks = [kind]
    if memory.memory_type == MemoryType.STRUCTURED:
        marks.append(f"collection {memory.data['collection']}")
    if memory.memory_type == MemoryType.CONTEXT:
        marks.append(memory.data["document"] + (", archived" if memory.data["archived"] else ""))
    if memory.key not in (None, memory.memory_id):
        marks.append(f"key {memory.key}")
    if is_relationship(memory):
        marks.append(validity(as_record(Relationship, memory)))
    named = (("session", memory.session_id), ("agent", memory.agent_id))
    marks += [f"{name} {value}" for name, value in named if value]
    if isinstance(memory, Hit) and memory.scope:
        marks.append(f"of {memory.scope}")
    if isinstance(memory, Hit) and memory.superseded_by:
        marks.append(f"superseded by {memory.superseded_by}")
    if memory.origins:
        marks.append(said_by(memory))
    facts = [short_id(memory.memory_id), *([*marks, "pinned"] if memory.pinned else marks)]
    if isinstance(memory, Hit) and memory.signals is not None:
        facts += [f"{name} {value:+.3f}" for name, value in memory.signals.items()]
    if memory.memory_type in _MULTILINE:
        content = excerpt(memory.content, LINES_MAX, LINE_CHARACTERS_MAX)
    else:
        content = shortened(memory.content, CONTENT_CHARACTERS_MAX)
    return text(content) + text("\n" + "  ".join(fact for fact in facts if fact), "dim")


def short_id(memory_id: str) -> str:
    """Return the beginning of a generated id that is enough to name it, or one of one's own whole.

    It is the time to the microsecond, and two bytes of chance for what is added at the same one.
    """
    return memory_id[:ID_CHARACTERS_SHOWN] if _GENERATED_ID.fullmatch(memory_id) else memory_id


def said_by(memory: Memory) -> str:
    """Return how far a memory is trusted, and where it comes from."""
    named = [one.source for one in memory.origins if one.source is not None]
    more = f" and {len(named) - 1} more" if len(named) > 1 else ""
    return f"{memory.trust.value}, from {shortened(named[0], 60)}{more}" if named else memory.trust


def type_of(memory: Memory) -> str:
    """Return the type of a memory; what relates two entities is of type entity, too."""
    return "relationship" if is_relationship(memory) else memory.memory_type


def is_relationship(memory: Memory) -> bool:
    """Say whether a memory relates two entities."""
    return memory.memory_type == MemoryType.ENTITY and "relation" in memory.data


def validity(it: Relationship) -> str:
    """Return from when to when a relationship is true."""
    begins = f"since {_day(it.valid_from)}"
    return begins if it.valid_to is None else f"{_day(it.valid_from)} to {_day(it.valid_to)}"


def _day(time: datetime) -> str:
    return local(time).removesuffix(" 00:00")


# --- one by one


def print_memory(memory: Memory) -> None:
    """Print one memory with all there is to it."""
    kind, data = memory.memory_type, memory.data
    if data is not None and is_relationship(memory):
        it = as_record(Relationship, memory)
        say(f"{it.source} ─ {it.relation} → {it.target}", "bold")
        say(f"  {validity(it)}")
        if it.fact is not None:
            say(f"  {it.fact}")
    elif data is not None and kind == MemoryType.ENTITY:
        say(f"{data['name']} ({data['type']})", "bold")
        for observation in data["observations"]:
            say(f"  • {observation}")
    elif data is not None and kind == MemoryType.EPISODIC:
        _print_episode(data)
    elif data is not None and kind == MemoryType.STRUCTURED:
        say(f"{data['collection']} / {data['key']}", "bold")
        say(pretty_json(data["value"]))
    elif data is not None and kind == MemoryType.WORKING:
        say(data if isinstance(data, str) else pretty_json(data))
    else:
        say(memory.content)
    facts = table("", "")
    for name, value in _facts(memory).items():
        if value:
            facts.add_row(text(name, "dim"), text(value))
    print_table(facts)


def _facts(memory: Memory) -> dict[str, object]:
    metadata = memory.metadata and msgspec.json.encode(memory.metadata).decode()
    working, seen = memory.memory_type == MemoryType.WORKING, ""
    if memory.times_seen != 1 and memory.last_seen_at is not None:
        seen = f"{memory.times_seen} times, last {local(memory.last_seen_at)}"
    return {
        "id": memory.memory_id,
        "type": type_of(memory),
        "key": memory.key if working else "",
        "agent": memory.agent_id,
        "source": said_by(memory) if memory.origins else "",
        "when": "" if is_relationship(memory) else local(memory.occurred_at),
        "added": local(memory.created_at),
        "session": memory.session_id,
        "role": memory.role,
        "pinned": "yes" if memory.pinned else "",
        "expires": "" if memory.expires_at is None else local(memory.expires_at),
        "seen": seen,
        "metadata": metadata,
        "size": f"{size(memory.size_bytes)} ({size(memory.stored_bytes)} in the log)",
    }


def _print_episode(data: JsonObject) -> None:
    say(f"Goal: {data['goal']}", "bold")
    if data["steps"]:
        steps = data["steps"]
        said = [n for n in ("observation", "outcome", "error") if any(step[n] for step in steps)]
        made = table("#", "action", *said, right=("#",))
        for step in steps:
            cells = [text(step[name], "red" if name == "error" else "") for name in said]
            made.add_row(str(step["number"]), text(step["action"]), *cells)
        print_table(made)
    if data["steps_evicted"]:
        gone = counted(data["steps_evicted"], "older step")
        say(f"{gone} made room for newer ones.", "dim")
    result = f": {data['result']}" if data["result"] else ""
    say(f"{data['status'].capitalize()}{result}", STATUS_STYLES[data["status"]])


# --- what came of a write

_DONE = {
    "seen": "Seen again", "unchanged": "Already there", "update": "Updated",
    "pending": "Waits for a review",
}  # fmt: skip
_ROOM = {MemoryType.SHORT_TERM: " in this session", MemoryType.EPISODIC: " of this agent"}


def say_added(receipt: Receipt, what: str = "") -> None:
    """Print what came of an add; `what` names it where the type of memory does not."""
    done = _DONE.get(receipt.operation, "Added")
    kind = MemoryType(receipt.memory_type)
    room = f"room for {receipt.quota_remaining:,} more{_ROOM.get(kind, '')}"
    say(f"{done}: {receipt.memory_id}  ({what or kind}, {room})")
    gone = (*receipt.evicted, *receipt.pruned)
    if gone:
        say(f"Removed to make room: {len(gone):,}", "yellow")
    if 0 < len(receipt.pruned) <= IDS_SHOWN_MAX:
        say(
            f"To bring back: memory-actors restore {' '.join(map(short_id, receipt.pruned))}", "dim"
        )
    if receipt.supersedes:
        say(f"Ranks before what held until now: {len(receipt.supersedes):,}", "dim")
        say(f"To undo that: memory-actors restore {' '.join(receipt.supersedes)}", "dim")
    if not receipt.indexed:
        say("Kept, but not searchable until the model works: `memory-actors doctor`", "yellow")
