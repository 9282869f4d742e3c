"""The format of a line: one memory as a JSON object. No files here.

Every field but the content may be left out:

- `memory_type`: long_term unless it says otherwise
- `content`, a text: a fact (long_term), a message (short_term), the value of `key` (working), the
  name of an entity (with `key`, that is the name and the content an observation), the goal of an
  episode, or a document as JSON under `key`
- `value`, any JSON, in place of the content: for working memory, or an object for a document
- `data`, in place of both, says all there is to a memory that is more than a text (see `parts`):

      entity      {"name", "type", "observations": [...]}
      entity      {"relation", "source_id", "source", "target_id", "target", "fact", "valid_from",
                   "valid_to"}, a relationship: each endpoint by its id here, or by its name
      episodic    {"goal", "agent_id", "status", "result", "steps": [{"number", "action",
                   "observation", "outcome", "error"}, ...], "evicted", "steps_evicted"}
      structured  {"collection", "key", "value"}
      context     {"document", "raw", "rank", "heading", "touched_at_us", "archived", "section"}, a
                  block of a context document; {"document"} alone, an empty one

- `compressed`: beside a content of a fact or an episode: what a summary was made of, as
  `Memory.data` has it; its originals are elsewhere
- `timestamp`: when it was true, ISO 8601 (naive means UTC) or seconds since 1970; default: now. A
  relationship's is its `valid_from`
- `session`, `role`, `metadata` (a JSON object), `pinned`: where the kind has them
- `times_seen`, `last_seen_at`: how often a fact was said, and when last
- `agent`, `expires_at`: the agent that wrote it, and the end of its time to live
- `source`, `trust`: where it comes from and how far that is trusted, as `memory.user` has them
- `origins`, in place of both: who had a say in it, a list of {"source", "trust"}; a file is taken
  at its word
- `id`: the memory's id

A line without an id gets one from what it says: the SHA-256 of session, time, role, content,
metadata and how many equal lines came before it. The same file therefore gives the same ids, and an
import that was cut off can be run again. Fields that are none of the above are kept as metadata,
and the report says which: what they mean was not understood.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias, TypeVar, get_args

import msgspec

from memory_actors.api.operations import in_json
from memory_actors.api.user import TAKES
from memory_actors.base import validation
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import without_halves
from memory_actors.base.origins import Origins, checked, origin
from memory_actors.base.records import Item, JsonObject, Memory, MemoryType, Origin
from memory_actors.base.reports import ForgottenFact
from memory_actors.interchange.noting import SourceReading, datetime_of, field_note, micros_of
from memory_actors.interchange.parts import (
    HAVE_DATA,
    HAVE_VALUE,
    SUMMARY_DATA,
    DocumentParts,
    Parts,
    RelationshipParts,
    parts_of,
    read,
)
from memory_actors.users.handles.handle import OPTIONAL

T = TypeVar("T")
Progress: TypeAlias = Callable[[int, int], None]
"""(done, total), in units of the work at hand; a total of 0 means that it is not known."""

SAME_AS: Final = {
    "agent_id": "agent",
    "memory_id": "id",
    "occurred_at": "timestamp",
    "session_id": "session",
    "text": "content",
}
"""Other names that a field goes by, where its own is not there."""

COMPRESSED_FLAG: Final = "is_compressed"  # says how the log stores a content, and is none of it
_IN_PLACE_OF_DATA: Final = ("content", "value", "key")
SHOWN_CHARACTERS_MAX: Final = 60


PLAIN: Final = {name: field for name, field in OPTIONAL.items() if name not in SAME_AS}
"""The fields of an item that a line has under their own names."""
_TIMES: Final = {name for name, field in PLAIN.items() if float in get_args(in_json(field.type))}


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One memory as a line has it. Read and written is a `_WholeLine`, with all plain fields."""

    id: str | None = None
    timestamp: str | float | None = None
    session: str | None = None
    role: str | None = None
    memory_type: str | None = None
    key: str | None = None
    content: str | None = None
    value: Any = msgspec.UNSET
    data: Any = None
    compressed: Any = None
    metadata: JsonObject | None = None
    origins: tuple[Origin, ...] = ()
    source: str | None = None
    trust: str | None = None
    agent: str | None = None
    expires_at: str | float | None = None


_WholeLine: Any = msgspec.defstruct(
    "_WholeLine",
    [
        (name, in_json(field.type), field.default)
        for name, field in PLAIN.items()
        if name not in Line.__struct_fields__
    ],
    bases=(Line,), frozen=True, kw_only=True, omit_defaults=True,
)  # fmt: skip


_BY_KIND: Final = {"data": HAVE_DATA, "compressed": SUMMARY_DATA, "value": HAVE_VALUE}
FIELDS: Final = {
    kind: {SAME_AS.get(name, name) for name in TAKES[kind]} & {*_WholeLine.__struct_fields__}
    | {name for name, kinds in _BY_KIND.items() if kind in kinds}
    for kind in MemoryType
}
_USUAL: Final = {field.name: field.default for field in msgspec.structs.fields(_WholeLine)}


def in_batches(
    entries: Iterator[T], size: Callable[[T], int], *, count_max: int, size_max: int
) -> Iterator[list[T]]:
    """Yield entries in batches; before a bad one is raised, what came before it."""
    batch, held = list[T](), 0
    try:
        for entry in entries:
            batch.append(entry)
            held += size(entry)
            if len(batch) >= count_max or held >= size_max:
                yield batch
                batch, held = [], 0
    except InvalidInputError:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


class ReadLine(NamedTuple):
    """A line that was read and checked."""

    place: str
    kind: MemoryType
    item: Item
    value: Any = msgspec.UNSET
    """Working memory: a value that is no text; otherwise UNSET."""
    parts: Parts | None = None
    """The data that it has besides, or instead of, its content."""
    origins: Origins = ()
    agent_id: str | None = None
    expires_at_us: int | None = None
    other_id: str | None = None
    """The id that it gets where its own stands for another memory; None: it is refused there."""

    @property
    def memory_id(self) -> str:
        """The id of the memory: the line's own, or the one it got."""
        assert self.item.memory_id is not None, "a reader gives an id to each"
        return self.item.memory_id


class ForgottenLine(msgspec.Struct, frozen=True):
    """A line about something that was forgotten, which is no memory."""

    forgotten: ForgottenFact

    START: ClassVar = b'{"forgotten":'

    @classmethod
    def read(cls, data: bytes) -> ForgottenFact:
        """Return the forgotten fact in a record.

        :raises InvalidInputError: there is none.
        """
        try:
            return msgspec.json.decode(data, type=cls).forgotten
        except msgspec.DecodeError as error:
            raise InvalidInputError(f"it says of nothing that it was forgotten: {error}") from error

    def line(self) -> bytes:
        """Return the line, with its line feed."""
        return msgspec.json.encode(self) + b"\n"


def line_of(memory: Memory) -> bytes:
    """Return a memory as a line, with its line feed.

    Working memory has no time of its own: it is as old as its last write, wherever that was.
    """
    metadata = {k: v for k, v in memory.metadata.items() if (k, v) != (COMPRESSED_FLAG, True)}
    has = FIELDS[MemoryType(memory.memory_type)]
    has = has - {"key", "value"} if memory.memory_type in HAVE_DATA else has
    is_relationship = memory.memory_type == MemoryType.ENTITY and "relation" in memory.data
    timed = "timestamp" in has and not is_relationship
    line = _WholeLine(
        id=memory.memory_id,
        timestamp=memory.occurred_at.isoformat() if timed else None,
        session=memory.session_id,
        memory_type=None if memory.memory_type == MemoryType.LONG_TERM else memory.memory_type,
        metadata=metadata or None,
        origins=memory.origins,
        agent=None if memory.memory_type == MemoryType.EPISODIC else memory.agent_id,
        expires_at=None if memory.expires_at is None else memory.expires_at.isoformat(),
        **{name: getattr(memory, name) for name in PLAIN if name in has and name not in _TIMES},
        **{
            name: value.isoformat()
            for name in _TIMES & has
            if (value := getattr(memory, name)) not in (None, memory.occurred_at)
        },
        **_said(memory),
    )
    return msgspec.json.encode(line) + b"\n"


def _said(memory: Memory) -> JsonObject:
    """Return the content fields of a memory: a text, or JSON if it is not a text."""
    if memory.source == "compressed":
        said = SUMMARY_DATA[MemoryType(memory.memory_type)].__struct_fields__
        made_of = {name: memory.data[name] for name in said}
        return {"content": memory.content, "compressed": made_of}
    if memory.memory_type in HAVE_DATA:
        return {"data": memory.data}
    is_text = isinstance(memory.data, str) and memory.data.strip()
    if memory.memory_type == MemoryType.WORKING and not is_text:
        return {"value": memory.data}
    return {"content": memory.content}


class LineReader:
    """Turns lines into entries. One for each file: it counts equal lines."""

    def __init__(self, notes: SourceReading | None = None) -> None:
        self._seen: Counter[bytes] = Counter()
        self._notes = SourceReading() if notes is None else notes

    def read(self, data: bytes, place: str) -> ReadLine:
        """Parse a line, which `place` names, or raise `InvalidInputError`."""
        fields = _json_object(data)
        for other, own in SAME_AS.items():
            if other in fields and own not in fields:
                fields[own] = fields.pop(other)
        extra = {name: fields.pop(name) for name in [*fields] if not _is_ours(name, fields)}
        for name, value in extra.items():
            self._notes.note(field_note(name, value, fields))
        metadata = fields.get("metadata")
        if extra and (metadata is None or isinstance(metadata, dict)):
            fields["metadata"] = {**extra, **(metadata or {})}
        return self.entry(fields, place)

    def entry(self, fields: JsonObject, place: str) -> ReadLine:
        """Parse the fields of a line, all of which are ours, or raise `InvalidInputError`."""
        _check_origins(fields)
        try:
            line: Line = msgspec.convert(fields, _WholeLine)
        except msgspec.ValidationError as error:
            reason = str(error).replace("Object contains", "it has").replace(" - at `$.", " in `")
            raise InvalidInputError(reason) from error
        named = line.memory_type or MemoryType.LONG_TERM
        kind = validation.check_member(MemoryType, named, "memory type")
        _check_fields(line, kind)
        content, parts = _content(line, kind), _parts(line, kind)
        occurred_at_us = micros_of(line.timestamp, "timestamp")
        item = Item(
            content=content,
            metadata=validation.metadata_copy(line.metadata),
            occurred_at=datetime_of(line.timestamp, "timestamp"),
            session_id=validation.check_optional_name(line.session, "session"),
            memory_id=validation.check_optional_name(line.id, "id")
            or self._own_id(line, kind, occurred_at_us),
            **{name: _plain_in(line, name) for name in PLAIN},
        )
        value = line.value if kind is MemoryType.WORKING else msgspec.UNSET
        origins = checked(line.origins) or origin(line.source, line.trust)
        return ReadLine(
            place, kind, item, value, parts, origins,
            agent_id=validation.check_optional_name(line.agent, "agent"),
            expires_at_us=micros_of(line.expires_at, "expires_at"),
        )  # fmt: skip

    def _own_id(self, line: Line, kind: MemoryType, occurred_at_us: int | None) -> str:
        """Return the id of a line that names none: the same for the same line of the same file."""
        said: list[Any] = [line.session, occurred_at_us, line.role, line.content]
        if kind in HAVE_DATA:
            said += [kind, line.key, line.data]
        if line.content is None and line.data is None:
            said.append(line.value)
        if line.metadata:
            said.append({"metadata": line.metadata})
        digest = hashlib.sha256(msgspec.json.encode(said, order="sorted")).digest()
        ordinal, self._seen[digest] = self._seen[digest], self._seen[digest] + 1
        return "imp_" + hashlib.sha256(digest + ordinal.to_bytes(8, "big")).hexdigest()[:40]


def _json_object(data: bytes) -> JsonObject:
    text = without_halves(data.decode(errors="replace"))
    try:
        try:
            fields = msgspec.json.decode(text)
        except msgspec.DecodeError:
            fields = json.loads(text, strict=False)  # lets control characters stand in texts
    except (ValueError, RecursionError) as error:
        why = "nested too deeply" if isinstance(error, RecursionError) else str(error).lower()
        raise InvalidInputError(f"this is not JSON ({why}): {_shown(data)}") from error
    if not isinstance(fields, dict):
        raise InvalidInputError(
            f'a line must be a JSON object such as {{"content": "…"}}, not {_shown(data)}'
        )
    return fields


def _is_ours(name: str, fields: JsonObject) -> bool:
    if name == "data":  # of other programs too, and with another meaning
        return fields.get("memory_type") in [*HAVE_DATA]
    if name == "compressed":
        return isinstance(fields[name], dict) and "compressed_from_ids" in fields[name]
    if name == "agent":  # an object, in what other programs write
        return isinstance(fields[name], str)
    return name in _WholeLine.__struct_fields__


def _check_origins(fields: JsonObject) -> None:
    """Refuse what would leave a part of where a line comes from unread."""
    if "origins" not in fields:
        return
    for name in Origin.__struct_fields__:
        if fields.get(name) is not None:
            raise InvalidInputError(f"it has both 'origins' and {name!r}: keep one")
    given = fields["origins"]
    for one in given if isinstance(given, list) else ():
        if isinstance(one, dict) and one.keys() - set(Origin.__struct_fields__):
            raise InvalidInputError("one of its 'origins' has more than 'source' and 'trust'")


def _plain_in(line: Line, name: str) -> Any:
    value = getattr(line, name)
    if name in _TIMES:
        return datetime_of(value, name)
    return validation.check_name(value, name) if isinstance(value, str) else value


def _check_fields(line: Line, kind: MemoryType) -> None:
    for name in sorted(set().union(*FIELDS.values()) - FIELDS[kind]):
        if _given(line, name):
            raise InvalidInputError(f"{kind} memory has no {name!r}: remove it")
    if line.content is not None and line.value is not msgspec.UNSET:
        raise InvalidInputError("it has both 'content' and 'value': keep one")
    for name in _IN_PLACE_OF_DATA:
        if line.data is not None and _given(line, name):
            raise InvalidInputError(f"it has both 'data' and {name!r}: keep one")


def _given(line: Line, name: str) -> bool:
    return bool(getattr(line, name) != _USUAL[name])


def _content(line: Line, kind: MemoryType) -> str:
    if line.content is not None:
        is_long = kind in (MemoryType.LONG_TERM, MemoryType.STRUCTURED)
        validation.content_bytes(
            line.content, validation.LONG_BYTES_MAX if is_long else validation.CONTENT_BYTES_MAX
        )
        return line.content
    if kind is MemoryType.WORKING and line.value is not msgspec.UNSET:
        return msgspec.json.encode(validation.json_copy(line.value, "value")).decode()
    if line.data is None and line.value is msgspec.UNSET:
        wanted = "'content'" if kind not in HAVE_DATA else "'content' and no 'data'"
        raise InvalidInputError(f"it has no {wanted}: give it what to remember")
    return ""


def _parts(line: Line, kind: MemoryType) -> Parts | None:
    if line.compressed is not None:
        return read(line.compressed, SUMMARY_DATA[kind], "compressed")
    if kind is MemoryType.STRUCTURED and line.value is not msgspec.UNSET:
        if not isinstance(line.value, dict):
            raise InvalidInputError("the 'value' of a document must be a JSON object")
        return DocumentParts(value=line.value, key=line.key)
    if line.data is None:
        return None
    parts = parts_of(kind, line.data)
    if isinstance(parts, RelationshipParts):
        for name in ("valid_from", "valid_to"):
            micros_of(getattr(parts, name), name)
    return parts


# --- messages


def _shown(data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    return repr(text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "…")
