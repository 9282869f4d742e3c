"""Arguments and answers as mem0 has them.

The payload of a memory is the metadata here, under mem0's names, so its filters find it. An id is a
UUID of version 8 whose first 48 bits are a hash of the user, so that `get` needs no user. Invalid
arguments raise mem0's error classes. Its filters are nearly ours (`base/filters.py`); `ne` and
`nin` want the field to be there, as in Qdrant.
"""

import hashlib
import logging
import secrets
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from memory_actors.base.records import HistoryEntry, JsonObject, Memory
from memory_actors.extraction.llm import OpenAIExtractor
from memory_actors.interchange.sources.mem0 import SCOPES

Fields: TypeAlias = Mapping[str, Any]
Told: TypeAlias = JsonObject
Filter: TypeAlias = JsonObject

_logger = logging.getLogger(__name__)


class MemoryError(Exception):  # noqa: A001 - mem0's own name for it
    """The base of mem0's structured errors."""

    def __init__(
        self,
        message: str,
        error_code: str,
        details: Fields | None = None,
        suggestion: str | None = None,
    ):
        super().__init__(message)
        self.message = message
        self.error_code = error_code
        self.details = dict(details or {})
        self.suggestion = suggestion
        self.debug_info: Told = {}


class ValidationError(MemoryError):
    """A scope, a type of memory or messages are not what they must be."""


PROCEDURAL: Final = "procedural_memory"
WILDCARD: Final = "*"


def configured(config: Fields) -> Told:
    """Return the parts that a configuration of mem0's names."""
    parts: Told = {}
    for name, chosen in config.items():
        given = chosen.get("config", {}) if isinstance(chosen, Mapping) else {}
        if name == "vector_store" and given.get("path"):
            path = Path(given["path"])
            parts["directory"] = path.with_name(f"{path.name}.memory-actors")
        elif name == "llm" and chosen.get("provider") == "openai":
            parts["extractor"] = OpenAIExtractor(
                given.get("model"), api_key=given.get("api_key"),
                base_url=given.get("openai_base_url"),
            )  # fmt: skip
        else:
            _logger.warning("mem0's configuration %r is passed over", name)
    return parts


def scope_id(value: object, name: str, *, wild: bool = False) -> str | None:
    """Return the id of a user, an agent or a run, without space around it.

    :raises ValueError: it is empty, has space in it, or is a wildcard where one is meant.
    """
    if value is None:
        return None
    trimmed = str(value).strip()
    if not trimmed or any(character.isspace() for character in trimmed):
        raise ValueError(f"Invalid {name}: give an identifier that is not empty and has no space.")
    if trimmed == WILDCARD and not wild:
        raise ValueError(
            f"Invalid {name}: {WILDCARD!r} is nobody's name. Filters may have it as agent_id or "
            "run_id beside a user_id: any agent or run of that user."
        )
    return trimmed


def scopes(**given: object) -> dict[str, str]:
    """Return the scopes that are given, by name."""
    return {name: found for name, value in given.items() if (found := scope_id(value, name))}


def needed_scopes(**given: object) -> dict[str, str]:
    """Return the scopes that are given, or raise `ValidationError` if there is none."""
    if not (found := scopes(**given)):
        raise ValidationError(
            "At least one of 'user_id', 'agent_id', or 'run_id' must be provided.",
            "VALIDATION_001",
            {"provided_ids": given},
            "Please provide at least one identifier to scope the memory operation.",
        )
    return found


def scoped_filters(filters: Fields | None) -> Told:
    """Return filters whose scopes are checked: a wildcard never reaches other users' memories.

    :raises ValueError: they name no scope, or anybody's.
    """
    given = dict(filters) if filters else {}
    named = [name for name in SCOPES if name in given]
    if not named:
        raise ValueError(
            "filters must contain at least one of: user_id, agent_id, run_id. "
            "Example: filters={'user_id': 'u1'}"
        )
    for name in named:
        wild = name != "user_id" and "user_id" in named
        given[name] = scope_id(given[name], name, wild=wild)
        if given[name] is None:
            raise ValueError(f"filters: {name} is None: leave it out, or name one")
    return given


def no_more(given: Fields, method: str) -> None:
    """Refuse arguments that a method does not have."""
    if found := set(SCOPES) & given.keys():
        raise ValueError(
            f"Top-level entity parameters {found} are not supported in {method}(). "
            "Use filters={'user_id': '...'} instead."
        )
    for name in given:
        raise TypeError(f"{method}() got an unexpected keyword argument {name!r}: is it top_k?")


def platform_only(value: object, name: str) -> None:
    """Refuse what only mem0's hosted platform takes."""
    if value is not None:
        raise ValueError(f"{name} is of mem0's platform: leave it out")


def check_top_k(top_k: object) -> int:
    """Return how many are wanted, or raise `ValueError`."""
    if not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 0:
        raise ValueError(f"Invalid top_k: {top_k!r:.80}. Must be a non-negative integer.")
    return top_k


def check_threshold(threshold: object) -> float:
    """Return the least score, or raise `ValueError`."""
    if threshold is None:
        return 0.0
    if not isinstance(threshold, int | float) or not 0 <= threshold <= 1:
        raise ValueError(f"Invalid threshold: {threshold!r:.80}. Must be between 0 and 1.")
    return float(threshold)


def day(value: object) -> str | None:
    """Return the day on which a memory expires, or raise `ValueError`."""
    if value is None:
        return None
    with suppress(ValueError):
        value = date.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(value, date):  # a datetime is one
        raise ValueError("expiration_date must be a valid date in YYYY-MM-DD format.")
    return value.strftime("%Y-%m-%d")


# --- messages


def check_memory_type(memory_type: object, agent_id: str | None) -> None:
    """Refuse a type of memory that mem0 has not either, and its procedural memory of an agent."""
    if memory_type not in (None, PROCEDURAL):
        raise ValidationError(
            f"Invalid 'memory_type'. Please pass {PROCEDURAL} to create procedural memories.",
            "VALIDATION_002",
            {"provided_type": memory_type, "valid_type": PROCEDURAL},
        )
    if memory_type is not None and agent_id is not None:
        raise NotImplementedError(
            "procedural memory is not here: use episodes, `MemorySystem.user(...).episodes`"
        )


def spoken(messages: object) -> list[Told]:
    """Return the messages that are to be kept: those with a role and a text, but the system's."""
    if isinstance(messages, str):
        messages = {"role": "user", "content": messages}
    messages = [messages] if isinstance(messages, Mapping) else messages
    if not isinstance(messages, list) or not all(isinstance(one, Mapping) for one in messages):
        raise ValidationError(
            "messages must be str, dict, or list[dict]",
            "VALIDATION_003",
            {"provided_type": type(messages).__name__},
            "Convert your input to a string, dictionary, or list of dictionaries.",
        )
    said = [_said(one) for one in messages if one.get("role") not in (None, "system")]
    return [one for one in said if one is not None]


def _said(message: Fields) -> Told | None:
    content = message.get("content")
    if isinstance(content, Sequence) and not isinstance(content, str | bytes):
        parts = [one for one in content if isinstance(one, Mapping) and one.get("type") == "text"]
        if not parts:
            return None
        return {"role": message["role"], "content": " ".join(str(one["text"]) for one in parts)}
    if content is None or (isinstance(content, Mapping) and content.get("type") == "image_url"):
        return None
    if not isinstance(content, str) or not content.strip():
        raise ValidationError(
            "a message needs a text: an empty one is nothing to remember",
            "VALIDATION_003",
            {"provided_type": type(content).__name__},
        )
    return {"role": message["role"], "content": content, "name": message.get("name")}


# --- filters

_GROUPS: Final = {
    "AND": "AND", "OR": "OR", "NOT": "NOT", "$and": "AND", "$or": "OR", "$not": "NOT",
}  # fmt: skip
_RANGE: Final = frozenset({"gt", "gte", "lt", "lte"})
_NEGATED: Final = frozenset({"ne", "nin"})
_OPERATORS: Final = _RANGE | _NEGATED | {"eq", "in", "contains", "icontains"}


def translated(filters: Fields) -> Filter:
    """Return mem0's filters as ours."""
    return {"and": [_part(key, value) for key, value in filters.items()]}


def wanted(scope: Fields, *, show_expired: bool) -> Filter:
    """Return the filter of a scope: its user is the one whose memory is asked."""
    parts = [translated({name: value for name, value in scope.items() if name != "user_id"})]
    if not show_expired:
        today = datetime.now(UTC).date().isoformat()
        parts.append({"not": {"expiration_date": {"lt": today}}})
    return {"and": parts}


def _part(key: str, value: object) -> Filter:
    if (group := _GROUPS.get(key)) is not None:
        if not isinstance(value, list) or not all(isinstance(one, Mapping) for one in value):
            raise ValueError(f"{group} filter value must be a list of filter dicts")
        parts = [translated(one) for one in value]
        if group == "AND":
            return {"and": parts}
        if not parts:
            raise ValueError(f"{group} operator requires a non-empty list of conditions")
        return {"or": parts} if group == "OR" else {"not": {"or": parts}}
    field = f"\\{key}"  # whatever it is called, it is the path of a field
    if not isinstance(value, Mapping):
        if value == "*":
            return {}
        return {field: {"in" if isinstance(value, list) else "eq": value}}
    unknown = value.keys() - _OPERATORS
    if unknown or not value:
        raise ValueError(
            f"Unsupported filter operator(s) for field '{key}': {sorted(map(str, unknown))}. "
            f"Supported operators: {sorted(_OPERATORS)}"
        )
    if value.keys() & _RANGE and value.keys() - _RANGE:
        raise ValueError(
            f"Cannot mix range operators with others for field '{key}'. Use AND to combine them as "
            "separate conditions."
        )
    own = {"icontains": "contains"}
    return {
        "and": [
            {field: {own.get(name, name): given} | ({"exists": True} if name in _NEGATED else {})}
            for name, given in value.items()
        ]
    }


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


def as_read(memory: Memory) -> Told:
    """Return the filter that a memory matches until its next update, which has another time."""
    at = memory.metadata.get("updated_at")
    return {"updated_at": {"exists": False} if at is None else {"eq": at}}


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
