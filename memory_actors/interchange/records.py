"""The format of a line: one memory as a JSON object. No files here.

Every field but the content may be left out:

- `content`, a text; or `value`, any JSON, for working memory that is no text
- `timestamp`: when it was true, ISO 8601 (naive means UTC) or seconds since 1970; default: now
- `session`, `role`, `metadata` (a JSON object)
- `memory_type`: long_term unless it says otherwise; `key`: working memory's
- `pinned`: long-term memory's
- `id`: the memory's id

A line without an id gets one from what it says: the SHA-256 of session, time, role, content and how
many equal lines came before it. So the same file gives the same ids, and an import that was cut off
can be run again. Fields that are none of the above are kept as metadata.
"""

import hashlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from memory_actors.errors import InvalidInputError
from memory_actors.records import Item, Memory, MemoryType
from memory_actors.validation import (
    check_memory_type,
    check_name,
    check_optional_name,
    content_bytes,
    json_copy,
    metadata_copy,
    time_us,
)

Progress: TypeAlias = Callable[[int, int], None]
"""(done, total), in units of the work at hand; a total of 0 means that it is not known."""

SAME_AS: Final = {
    "memory_id": "id",
    "occurred_at": "timestamp",
    "session_id": "session",
    "text": "content",
}
"""Other names that a field goes by, where its own is not there."""

COMPRESSED_FLAG: Final = "is_compressed"  # says how the log stores a content, and is none of it
WORKING_ONLY: Final = ("key", "value")
NOT_WORKING: Final = ("timestamp", "session", "role", "pinned")
SHOWN_CHARACTERS_MAX: Final = 60


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """What came of an import."""

    users: list[str]
    added: int
    unchanged: int
    """They were there already: nothing is added twice."""
    unindexed: int = 0
    """Added, but not searchable until the embedder works again."""


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory as a line has it, in the order an export writes it."""

    id: str | None = None
    timestamp: str | float | None = None
    session: str | None = None
    role: str | None = None
    memory_type: str | None = None
    key: str | None = None
    content: str | None = None
    value: Any = msgspec.UNSET
    metadata: dict[str, Any] | None = None
    pinned: bool = False


class Entry(NamedTuple):
    """A line that was read and checked."""

    place: str
    """File and line, for messages."""
    kind: MemoryType
    item: Item
    key: str | None
    value: Any
    """Working memory: a value that is no text; otherwise UNSET."""


def line_of(memory: Memory, value: Any = msgspec.UNSET) -> bytes:
    """Return a memory as a line, with its line feed; `value` is for working memory.

    Working memory has no time of its own: it is as old as its last write, wherever that was.
    """
    working = memory.memory_type == MemoryType.WORKING
    text = value is msgspec.UNSET or isinstance(value, str)
    metadata = {k: v for k, v in memory.metadata.items() if (k, v) != (COMPRESSED_FLAG, True)}
    line = Line(
        id=memory.memory_id,
        timestamp=None if working else memory.occurred_at.isoformat(),
        session=memory.session_id,
        role=memory.role,
        memory_type=None if memory.memory_type == MemoryType.LONG_TERM else memory.memory_type,
        key=memory.key,
        content=memory.content if text and memory.content else None,
        value=msgspec.UNSET if text and memory.content else value,
        metadata=metadata or None,
        pinned=memory.pinned,
    )
    return msgspec.json.encode(line) + b"\n"


class LineReader:
    """Turns lines into entries. One for each file: it counts equal lines."""

    def __init__(self) -> None:
        self._seen: Counter[bytes] = Counter()

    def read(self, data: bytes, place: str) -> Entry:
        """Return what a line says; `place` is named in errors.

        :raises InvalidInputError: it is not JSON, or not a memory.
        """
        try:
            return self._entry(_line(data), place)
        except InvalidInputError as error:
            raise InvalidInputError(
                f"{place}: {error}. Correct or remove this line and import the file again: what "
                "came before it is kept, nothing after it was read, nothing is added twice"
            ) from error

    def _entry(self, line: Line, place: str) -> Entry:
        kind = check_memory_type(line.memory_type or MemoryType.LONG_TERM)
        _check_fields(line, kind)
        content = _content(line, kind)
        occurred_at_us = _time_us(line.timestamp)
        item = Item(
            content=content,
            metadata=metadata_copy(line.metadata),
            occurred_at=None if line.timestamp is None else _datetime(line.timestamp),
            session_id=check_optional_name(line.session, "session"),
            role=check_optional_name(line.role, "role"),
            memory_id=check_optional_name(line.id, "id") or self._own_id(line, occurred_at_us),
            pinned=line.pinned,
        )
        key = check_optional_name(line.key, "key")
        return Entry(place, kind, item, key, line.value)

    def _own_id(self, line: Line, occurred_at_us: int | None) -> str:
        """Return the id of a line that names none: the same for the same line of the same file."""
        said = [line.session, occurred_at_us, line.role, line.content]
        if line.content is None:
            said.append(line.value)
        digest = hashlib.sha256(msgspec.json.encode(said, order="sorted")).digest()
        ordinal, self._seen[digest] = self._seen[digest], self._seen[digest] + 1
        return "imp_" + hashlib.sha256(digest + ordinal.to_bytes(8, "big")).hexdigest()[:40]


def _line(data: bytes) -> Line:
    try:
        fields = msgspec.json.decode(data.decode())
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"this is not UTF-8 text (byte {error.start + 1} of the line): save the file as UTF-8"
        ) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidInputError(f"this is not JSON ({_reason(error)}): {_shown(data)}") from error
    if not isinstance(fields, dict):
        raise InvalidInputError(
            f'a line must be a JSON object such as {{"content": "…"}}, not {_shown(data)}'
        )
    return _typed(_own_names(fields))


def _own_names(fields: dict[str, Any]) -> dict[str, Any]:
    """Give fields our names for them, and move what is none of ours to the metadata."""
    for other, own in SAME_AS.items():
        if other in fields and own not in fields:
            fields[own] = fields.pop(other)
    extra = {name: fields.pop(name) for name in [*fields] if name not in Line.__struct_fields__}
    metadata = fields.get("metadata")
    if extra and (metadata is None or isinstance(metadata, dict)):
        fields["metadata"] = {**extra, **(metadata or {})}
    return fields


def _typed(fields: dict[str, Any]) -> Line:
    try:
        return msgspec.convert(fields, Line)
    except msgspec.ValidationError as error:
        reason = str(error).replace("Object contains", "it has").replace(" - at `$.", " in `")
        raise InvalidInputError(reason) from error


def _check_fields(line: Line, kind: MemoryType) -> None:
    working = kind is MemoryType.WORKING
    wrong = NOT_WORKING if working else WORKING_ONLY
    unset = (None, False, msgspec.UNSET)
    for name in wrong:
        if not any(getattr(line, name) is nothing for nothing in unset):
            raise InvalidInputError(f"{kind} memory has no {name!r}: remove it")
    if line.pinned and kind is not MemoryType.LONG_TERM:
        raise InvalidInputError(f"{kind} memory cannot be pinned: remove 'pinned'")
    if line.content is not None and line.value is not msgspec.UNSET:
        raise InvalidInputError("it has both 'content' and 'value': keep one")


def _content(line: Line, kind: MemoryType) -> str:
    if line.content is not None:
        content_bytes(line.content)
        return line.content
    if kind is MemoryType.WORKING and line.value is not msgspec.UNSET:
        return msgspec.json.encode(json_copy(line.value, "value")).decode()
    raise InvalidInputError("it has no 'content': give it the text to remember")


def _time_us(timestamp: str | float | None) -> int | None:
    return None if timestamp is None else time_us(_datetime(timestamp), "timestamp")


def _datetime(timestamp: str | float) -> datetime | str:
    if isinstance(timestamp, str):
        time_us(check_name(timestamp, "timestamp"), "timestamp")
        return timestamp
    try:
        return datetime.fromtimestamp(timestamp, UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInputError(
            f"timestamp {timestamp!r} is no number of seconds since 1970: write seconds (not "
            "milliseconds), or ISO 8601"
        ) from error


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…")


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).removeprefix("JSON is malformed: ").lower()
