"""The payload of a memory of mem0, and the dicts in which mem0 returns one.

The payload is the metadata here, under mem0's names, so its filters find it. An id is a UUID of
version 8 whose first 48 bits are a hash of the user, so that `get` needs no user.
"""

import hashlib
import secrets
import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from memory_actors.base.records import HistoryEntry, Memory
from memory_actors.integrations.mem0.checks import Fields, Told
from memory_actors.interchange.sources.mem0 import SCOPES

PROMOTED: Final = (*SCOPES, "actor_id", "role", "expiration_date")
"""The keys of the payload that are told beside the text, and not in its metadata."""
_COMPUTED: Final = frozenset({"data", "hash", "text_lemmatized"})
_OWN: Final = frozenset(
    {*PROMOTED, *_COMPUTED, "attributed_to", "created_at", "updated_at", "id", "is_compressed"}
)
_IDENTITY: Final = frozenset({*SCOPES, "actor_id"})

# --- whose memory, and its id


def new_id(owner: str) -> str:
    """Return an id for a memory of a user here."""
    random = secrets.token_hex(10)
    variant = "89ab"[int(random[0], 16) % 4]
    return str(uuid.UUID(f"{_tag(owner)}8{random[1:4]}{variant}{random[4:19]}"))


def may_own(owner: str, memory_id: str) -> bool:
    """Say whether an id may be that of a memory of a user here."""
    try:
        known = uuid.UUID(memory_id)
    except ValueError:
        return True  # it was not made here
    return known.version != 8 or known.hex.startswith(_tag(owner))


def _tag(owner: str) -> str:
    return hashlib.blake2b(owner.encode(), digest_size=6).hexdigest()


# --- the payload


def payload(metadata: Fields | None, scope: Mapping[str, str], expires: str | None) -> Told:
    """Return the stored metadata of each message of an add, without its speaker."""
    fixed = _IDENTITY | _COMPUTED
    kept = {name: value for name, value in (metadata or {}).items() if name not in fixed}
    created_at = kept.pop("created_at", datetime.now(UTC).isoformat())
    kept |= {**scope, "created_at": created_at, "updated_at": created_at}
    return kept if expires is None else {**kept, "expiration_date": expires}


def changed(memory: Memory, metadata: Fields | None) -> Told:
    """Return the payload of a memory after an update: scope and first time stay."""
    fixed = {*_IDENTITY, *_COMPUTED, "created_at"}
    said = {name: value for name, value in (metadata or {}).items() if name not in fixed}
    return {**_kept(memory), **said, "updated_at": datetime.now(UTC).isoformat()}


def as_read(memory: Memory) -> Told | None:
    """Return the filter that a memory matches until its next update, which has another time.

    None: somebody who keeps something else under that name has added it.
    """
    at = memory.metadata.get("updated_at", "")
    if not isinstance(at, str):
        return None
    return {"updated_at": {"eq": at} if "updated_at" in memory.metadata else {"exists": False}}


def _kept(memory: Memory) -> Told:
    return {name: value for name, value in memory.metadata.items() if name != "is_compressed"}


# --- as mem0 tells it


def item(memory: Memory, owner: str, *, score: float | None = None) -> Told:
    """Return a memory as `get` and `search` tell it."""
    kept = _kept(memory)
    created_at = kept.get("created_at", memory.created_at.isoformat())
    told: Told = {
        "id": memory.memory_id,
        "memory": memory.content,
        "hash": hashlib.md5(memory.content.encode(), usedforsecurity=False).hexdigest(),
        "metadata": {name: value for name, value in kept.items() if name not in _OWN} or None,
        "score": score,
        "created_at": created_at,
        "updated_at": kept.get("updated_at", created_at),
    }
    if not any(name in kept for name in SCOPES):  # it was added by another way in
        told["user_id"] = owner
    if memory.role is not None:
        told["role"] = memory.role
    return told | {name: kept[name] for name in (*PROMOTED, "attributed_to") if name in kept}


def listed(memory: Memory, owner: str) -> Told:
    """Return a memory as `get_all` tells it: without a score."""
    return {name: value for name, value in item(memory, owner).items() if name != "score"}


_EVENTS: Final = {
    "added": "ADD", "restored": "ADD", "updated": "UPDATE", "deleted": "DELETE",
    "pruned": "DELETE", "compressed": "DELETE",
}  # fmt: skip
"""mem0's words for what happened, by the last part of an event's tag."""


def history(memory_id: str, entries: Sequence[HistoryEntry]) -> list[Told]:
    """Return the events about a memory as mem0 tells them; of an unknown one, none."""
    told: list[Told] = []
    text: str | None = None
    kept: Told = {}
    for entry in entries:
        event = _EVENTS.get(entry.event.rpartition(".")[2])
        if event is None:
            continue
        old, kept = text, entry.data.get("metadata") or kept
        text = None if event == "DELETE" else entry.data.get("content") or text
        at = entry.recorded_at.isoformat()
        created_at = kept.get("created_at", at)
        told.append(
            {
                "id": str(uuid.uuid5(uuid.NAMESPACE_OID, f"{memory_id}/{entry.position}")),
                "memory_id": memory_id,
                "old_memory": old,
                "new_memory": text,
                "event": event,
                "created_at": created_at,
                "updated_at": at if event == "DELETE" else kept.get("updated_at", at),
                "is_deleted": event == "DELETE",
                "actor_id": kept.get("actor_id"),
                "role": kept.get("role"),
            }
        )
    return told
