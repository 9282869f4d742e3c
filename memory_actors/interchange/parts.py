"""The `data` of a line: the parts of an entity, a relationship, an episode or a document."""

from collections.abc import Callable, Mapping
from typing import Final, Literal, TypeAlias, TypeVar

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import EvictedStep, JsonObject, MemoryType, Step
from memory_actors.base.validation import CONTENT_BYTES_MAX, text_bytes
from memory_actors.kinds.compacting import SummaryData
from memory_actors.kinds.context.events import BlockData, Section
from memory_actors.users.handles.episodes import EpisodeSummaryData

T = TypeVar("T")
Time: TypeAlias = str | float
"""ISO 8601 (naive means UTC), or seconds since 1970."""


class _Data(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A misspelled field is an error: dropping it silently would lose what it says."""


class EntityParts(_Data, frozen=True, kw_only=True):
    """An entity."""

    name: str
    type: str = "entity"
    observations: tuple[str, ...] = ()


class RelationshipParts(_Data, frozen=True, kw_only=True):
    """A relationship. Each end by id, by name, or both; an id that is not known leaves the name."""

    relation: str
    source_id: str | None = None
    source: str | None = None
    target_id: str | None = None
    target: str | None = None
    fact: str | None = None
    valid_from: Time | None = None
    valid_to: Time | None = None


class StepParts(Step, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A step that an episode kept."""

    number: int | None = None  # type: ignore[assignment]
    """None: the one after the last."""


class EvictedParts(EvictedStep, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rest of a step that made room for others."""


class EpisodeParts(_Data, frozen=True, kw_only=True):
    """An episode."""

    goal: str
    agent_id: str | None = None
    status: Literal["running", "done", "failed"] = "running"
    result: str | None = None
    steps: tuple[StepParts, ...] = ()
    evicted: tuple[EvictedParts, ...] = ()
    steps_evicted: int = 0


class DocumentParts(_Data, frozen=True, kw_only=True):
    """A document."""

    value: JsonObject
    collection: str | None = None
    key: str | None = None


class SectionParts(Section, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The heading that an archived entry stood under."""


class BlockParts(BlockData, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A block of a context document."""

    section: SectionParts | None = None


class EmptyDocumentParts(_Data, frozen=True, kw_only=True):
    """A context document without blocks."""

    document: str


Parts: TypeAlias = (
    EntityParts
    | RelationshipParts
    | EpisodeParts
    | DocumentParts
    | BlockParts
    | EmptyDocumentParts
    | SummaryData
)

SUMMARY_DATA: Final[Mapping[MemoryType, type[SummaryData]]] = {
    MemoryType.LONG_TERM: SummaryData,
    MemoryType.EPISODIC: EpisodeSummaryData,
}
"""The data of a summary, by its kind."""
HAVE_DATA: Final[Mapping[MemoryType, Callable[[Mapping[str, object]], type[Parts]]]] = {
    MemoryType.ENTITY: lambda data: RelationshipParts if "relation" in data else EntityParts,
    MemoryType.EPISODIC: lambda _data: EpisodeParts,
    MemoryType.STRUCTURED: lambda _data: DocumentParts,
    MemoryType.CONTEXT: lambda data: (
        EmptyDocumentParts if data.keys() == {"document"} else BlockParts
    ),
}
"""The kinds whose lines say what they hold in `data`, and what each holds there."""
HAVE_VALUE: Final = (MemoryType.WORKING, MemoryType.STRUCTURED)
"""The kinds that may hold JSON in place of a text."""


def parts_of(kind: MemoryType, data: object) -> Parts:
    """Parse `data` by the kind of its line, or raise `InvalidInputError`."""
    if not isinstance(data, dict):
        raise InvalidInputError(f"'data' must be a JSON object, not {type(data).__name__}")
    parts = read(data, HAVE_DATA[kind](data), "data")
    if isinstance(parts, RelationshipParts):
        for end in ("source", "target"):
            if getattr(parts, f"{end}_id") is None and getattr(parts, end) is None:
                raise InvalidInputError(
                    f"'data' has no {end!r}: name the entity, or give its '{end}_id'"
                )
    if isinstance(parts, EpisodeParts):
        steps, number = list[StepParts](), 0
        for step in parts.steps:
            text_bytes(step.action, "action", CONTENT_BYTES_MAX)
            number = number + 1 if step.number is None else step.number
            steps.append(msgspec.structs.replace(step, number=number))
        return msgspec.structs.replace(parts, steps=tuple(steps))
    return parts


def read(given: object, kind: type[T], name: str) -> T:
    """Return a field of a line as a struct, or raise `InvalidInputError`."""
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        reason = str(error).replace("Object ", "it ").replace(" - at `$.", f" in `{name}.")
        raise InvalidInputError(f"{name!r} is not as it must be: {reason}") from error
