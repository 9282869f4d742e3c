"""Letta: an agent file (`.af`), or JSON with a list of archival passages.

An agent file is JSON, or a JSON string that holds it. Its blocks become documents of the collection
`letta`, by their labels: what an agent always has before it is replaced, not added to. The messages
of the user, the agent and its tools become memories of a session for each agent. The system's
messages are left out, and reported: its prompts, the logins, heartbeats and alerts that it sends in
the name of the user, and the inner monologue beside a call of a tool. A passage, `{"text",
"created_at", "tags", ...}`, becomes a fact: agent files have none, so ask the server for them.

An agent has no user: `--user-field agent` makes one of each, which has its messages and blocks. By
default all data belongs to one user, where the blocks of several agents are in a collection of
each, `letta/NAME`. A block that agents share is of each of them; one that no agent names is of the
only agent there is, or of nobody.
"""

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from memory_actors.base.json_text import decoded
from memory_actors.interchange.sources import port
from memory_actors.interchange.sources.chats import message as chat_message
from memory_actors.interchange.sources.chats import spoken
from memory_actors.interchange.sources.json_items import json_values
from memory_actors.interchange.sources.port import words

COLLECTION: Final = "letta"
SPEAKERS: Final = ("user", "assistant", "tool")
MACHINE: Final = ("login", "heartbeat", "system_alert", "reminder")
"""Types of messages that the server sends in the name of the user, as JSON."""
PASSAGE: Final = words(
    "id text created_at tags metadata metadata_ embedding embedding_config organization_id",
    "is_deleted updated_at created_by_id last_updated_by_id file_id source_id archive_id file_name",
)
OF_BLOCKS: Final = ("blocks", "core_memory")
OF_PASSAGES: Final = ("", "passages", "archival_memory")
KNOWN: Final = (*OF_BLOCKS, *OF_PASSAGES, "agents", "messages")
TOOL_THAT_SPEAKS: Final = "send_message"


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield what a file has, in its order."""
    agents = _Agents(path, reading)
    names = iter(agents.names)
    members = set[str]()
    for number, member, value in json_values(path, KNOWN):
        place = f"{path}, {member or 'record'} {number}"
        members.add(member)
        if member in KNOWN:
            agent = next(names) if member == "agents" else agents.only
            record = port.as_object(value, place, reading)
            if record is not None:
                yield from _of(member, record, agent, agents, place)
        elif isinstance(value, dict | list) and value and member != "metadata":
            reading.note(f"{member[:60]!r} is not memory: it was not taken over")
    if members and members.isdisjoint(KNOWN):
        reading.note(f"there is none of {', '.join(filter(None, KNOWN))} in it")


# --- whose


class _Agents:
    def __init__(self, path: Path, reading: port.SourceReading):
        self.reading = reading
        named: dict[str, None] = {}
        self._of_blocks: dict[str, list[str | None]] = {}
        """The agents that have a block, by its id: several may share one."""
        own: list[str] = []  # a file that is an agent itself has its name at the top
        for _, member, value in json_values(path, KNOWN):
            if member == "name" and isinstance(value, str):
                own = [value]
            if member != "agents":
                continue
            agent = value if isinstance(value, dict) else {}
            name = str(agent.get("name") or agent.get("id") or "agent")
            while name in named:
                name = f"{name} ({agent.get('id') or len(named) + 1})"
            named[name] = None
            blocks = agent.get("block_ids")
            for block_id in blocks if isinstance(blocks, list) else []:
                self._of_blocks.setdefault(str(block_id), []).append(name)
            port.check_names(named, str(path))
        self.names = list(named) or own
        """The name of each agent, in order; agents of one name are told apart by their ids."""
        self.only = self.names[0] if len(self.names) == 1 else None
        """The agent, if it is the only one: of what the file has beside it."""
        self._together = reading.user_field != "agent" and self.only is None
        """True if several agents share one user: each then has a collection of its own."""
        self._taken: set[tuple[str | None, str]] = set()
        self._repeats: Counter[tuple[str | None, str]] = Counter()

    def owners(self, block: port.Raw) -> list[str | None]:
        return self._of_blocks.get(str(block.get("id")), [self.only])

    def place(self, label: str, owner: str | None) -> tuple[str, str]:
        key = label
        while (owner, key) in self._taken:
            self._repeats[owner, label] += 1
            key = f"{label} ({self._repeats[owner, label] + 1})"
        self._taken.add((owner, key))
        port.check_names(self._taken, "the file")
        apart = self._together and owner is not None
        return f"{COLLECTION}/{owner}" if apart else COLLECTION, key


# --- its parts


def _of(
    member: str, record: port.Raw, agent: str | None, agents: _Agents, place: str
) -> port.Records:
    if member == "agents":
        return _agent(record, str(agent), agents, place)
    if member == "messages":
        return _message(record, agent or COLLECTION, place, agents.reading)
    if member in OF_BLOCKS:
        owners = agents.owners(record)
        return (one for owner in owners for one in _block(record, owner, agents, place))
    return iter([_passage(record, agent, place, agents.reading)])


def _agent(agent: port.Raw, name: str, agents: _Agents, place: str) -> port.Records:
    messages, blocks = agent.get("messages") or [], agent.get("memory_blocks") or []
    if not isinstance(messages, list) or not isinstance(blocks, list):
        agents.reading.leave_out(place, "its messages or blocks are no list")
        return
    for number, one in enumerate(chain(blocks, messages), start=1):
        inner = f"{place}, {name!r:.60}, {number}"
        record = port.as_object(one, inner, agents.reading)
        if record is None:
            continue
        if number <= len(blocks):
            yield from _block(record, name, agents, inner)
        else:
            yield from _message(record, name, inner, agents.reading)


def _block(block: port.Raw, owner: str | None, agents: _Agents, place: str) -> port.Records:
    label, text = block.get("label"), block.get("value") or ""
    if not isinstance(label, str) or not isinstance(text, str):
        agents.reading.leave_out(place, "a block must have a label, and a value that is a text")
        return
    collection, key = agents.place(label, owner)
    value = port.present(label=label, description=block.get("description"), text=text.strip())
    yield port.SourceRecord(
        place=place,
        raw={**block, **port.present(agent=owner)},
        key=["block", collection, key],
        replaces=True,
        fields=port.document(collection, key, value),
    )


def _passage(
    passage: port.Raw, agent: str | None, place: str, reading: port.SourceReading
) -> port.SourceRecord:
    own = passage.get("metadata") or passage.get("metadata_")
    own = own if isinstance(own, dict) else {}
    return port.SourceRecord(
        place=place,
        raw={**port.present(agent=agent), **passage},
        key=["passage", passage.get("id")] if passage.get("id") else None,
        fields=port.present(
            content=passage.get("text"),
            timestamp=passage.get("created_at"),
            metadata=port.metadata_of(passage, PASSAGE, reading)
            | own
            | port.present(tags=passage.get("tags"), letta_id=passage.get("id")),
        ),
    )


def _message(
    message: port.Raw, agent: str, place: str, reading: port.SourceReading
) -> port.Records:
    role = message.get("role")
    if role not in SPEAKERS:
        reading.note(f"a message of the role {role!r:.60} was not taken over")
        return
    which = [message.get("id"), message.get("created_at")]
    text = _text(message, reading)
    if not text.strip():
        reading.note("a message without words (a tool call, a thought, a picture) was left out")
    for one in chat_message(
        place, {**message, "agent": agent}, role=role, text=text, conversation=agent, title=None,
        own_id=message.get("id"), said_at=message.get("created_at"), program="letta", agent=agent,
    ):  # fmt: skip
        more = one.key[2:] if isinstance(one.key, list) else []
        key = ["message", agent, *which, *more] if any(which) else None
        yield msgspec.structs.replace(one, key=key)


def _text(message: port.Raw, reading: port.SourceReading) -> str:
    """Return the words of a message: of its parts, or of the tool that speaks to the user."""
    calls = message.get("tool_calls")
    if isinstance(calls, list) and calls:
        return "\n".join(filter(None, map(_spoken, calls)))
    words = spoken(message.get("content", message.get("text")), reading)
    if message.get("role") == "assistant":
        return "\n".join(words)
    return "\n".join(_unwrapped(message, one, reading) for one in words)


def _unwrapped(message: port.Raw, text: str, reading: port.SourceReading) -> str:
    """Return the words in the JSON in which the server wraps what users and tools say."""
    said = _json(text)
    sort = said.get("type")
    if message.get("role") == "tool":
        is_wrapped = "status" in said and isinstance(said.get("message"), str)
        is_sent = message.get("name") == TOOL_THAT_SPEAKS
        return "" if is_sent else said["message"] if is_wrapped else text
    if sort == "user_message" and isinstance(said.get("message"), str):
        return str(said["message"])
    if sort in MACHINE or (isinstance(sort, str) and "time" in said):
        reading.note(f"a message of the server, {sort!r:.60}, was not taken over")
        return ""
    return text


def _json(text: object) -> port.Fields:
    said = decoded(text)
    return said if isinstance(said, dict) else {}


def _spoken(call: object) -> str | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or function.get("name") != TOOL_THAT_SPEAKS:
        return None
    said = _json(function.get("arguments")).get("message")
    return said if isinstance(said, str) else None
