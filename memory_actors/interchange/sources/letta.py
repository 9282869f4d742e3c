"""Letta: an agent file (`.af`), or JSON with a list of archival passages.

An agent file is JSON, or a JSON string that holds it. Its blocks become documents of the collection
`letta`, by their labels: what an agent always has before it is replaced, not added to. The messages
of the user and the agent become memories of a session for each agent; what tools and the system
said is left out, and told. A passage, `{"text", "created_at", "tags", ...}`, becomes a fact: agent
files have none, so ask the server for them. An agent has no user: `--user-field agent` makes one
of each.
"""

import json
from collections.abc import Iterator, Mapping
from itertools import chain
from pathlib import Path
from typing import Any, Final

from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources.found import (
    Found,
    Reading,
    Source,
    as_object,
    metadata_of,
    present,
    words,
)
from memory_actors.interchange.sources.json_items import json_items

COLLECTION: Final = "letta"
SPEAKERS: Final = ("user", "assistant")
PASSAGE: Final = words(
    "id text created_at tags metadata metadata_ embedding embedding_config organization_id",
    "is_deleted updated_at created_by_id last_updated_by_id file_id source_id archive_id file_name",
)
OF_BLOCKS: Final = ("blocks", "core_memory")
OF_PASSAGES: Final = ("", "passages", "archival_memory")
TOOL_THAT_SPEAKS: Final = "send_message"


def read(path: Path, reading: Reading) -> Iterator[Found]:
    """Yield what a file has, in its order."""
    with open_file(path) as file:
        for number, (member, value) in enumerate(json_items(file, str(path)), start=1):
            place = f"{path}, {member or 'record'} {number}"
            if member in (*OF_BLOCKS, *OF_PASSAGES, "agents", "messages"):
                record = as_object(value, place, reading)
                if record is not None:
                    yield from _of(member, record, place, reading)
            elif isinstance(value, dict | list) and value and member != "metadata":
                reading.note(f"{member[:60]!r} is not memory: it was not taken over")


def _of(member: str, record: Mapping[str, Any], place: str, reading: Reading) -> Iterator[Found]:
    if member == "agents":
        yield from _agent(record, place, reading)
    elif member == "messages":
        yield from _message(record, "letta", place, reading)
    elif member in OF_BLOCKS:
        yield _block(record, place)
    else:
        yield _passage(record, place, reading)


def _agent(agent: Mapping[str, Any], place: str, reading: Reading) -> Iterator[Found]:
    name = str(agent.get("name") or agent.get("id") or "agent")
    messages, blocks = agent.get("messages") or [], agent.get("memory_blocks") or []
    if not isinstance(messages, list) or not isinstance(blocks, list):
        reading.leave_out(place, "its messages or blocks are no list")
        return
    own = ((_block, one) for one in blocks)
    for number, (_, one) in enumerate(chain(own, ((_message, one) for one in messages)), start=1):
        inner = f"{place}, {name!r:.60}, {number}"
        record = as_object(one, inner, reading)
        if record is None:
            continue
        if number <= len(blocks):
            yield _block(record, inner)
        else:
            yield from _message(record, name, inner, reading)


def _block(block: Mapping[str, Any], place: str) -> Found:
    label = block.get("label")
    value = present(
        label=label, description=block.get("description"), text=str(block.get("value")).strip()
    )
    return Found(
        place=place,
        raw=block,
        key=["block", label],
        replaces=True,
        fields={
            "memory_type": "structured",
            "data": present(collection=COLLECTION, key=label) | {"value": value},
        },
    )


def _passage(passage: Mapping[str, Any], place: str, reading: Reading) -> Found:
    own = passage.get("metadata") or passage.get("metadata_")
    own = own if isinstance(own, dict) else {}
    return Found(
        place=place,
        raw=passage,
        key=["passage", passage.get("id")] if passage.get("id") else None,
        fields=present(
            content=passage.get("text"),
            timestamp=passage.get("created_at"),
            metadata=metadata_of(passage, PASSAGE, reading)
            | own
            | present(tags=passage.get("tags"), letta_id=passage.get("id")),
        ),
    )


def _message(
    message: Mapping[str, Any], agent: str, place: str, reading: Reading
) -> Iterator[Found]:
    role = message.get("role")
    if role not in SPEAKERS:
        reading.note(f"a message of the role {role!r:.60} was not taken over")
        return
    text = _text(message)
    if not text.strip():
        reading.note("a message without words (a tool call, a thought, a picture) was left out")
        return
    yield Found(
        place=place,
        raw={**message, "agent": agent},
        key=["message", agent, message.get("id"), message.get("created_at")],
        fields=present(
            content=text,
            timestamp=message.get("created_at"),
            session=agent,
            role=role,
            metadata=present(agent=agent, letta_id=message.get("id")),
        ),
    )


def _text(message: Mapping[str, Any]) -> str:
    """Return what a message says, also if it is said through the tool for that."""
    content = message.get("content", message.get("text"))
    parts = content if isinstance(content, list) else [content]
    said = [
        part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part
        for part in parts
    ]
    calls = message.get("tool_calls")
    spoken = [_spoken(one) for one in calls] if isinstance(calls, list) else []
    return "\n".join(one for one in [*said, *spoken] if isinstance(one, str) and one)


def _spoken(call: object) -> str | None:
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict) or function.get("name") != TOOL_THAT_SPEAKS:
        return None
    try:
        given = json.loads(str(function.get("arguments")))
    except (ValueError, RecursionError):
        return None
    return given.get("message") if isinstance(given, dict) else None


SOURCE: Final = Source("letta", "an agent file (.af), or JSON of archival passages", read)
