"""The events by which each kind leaves a memory without the words of a source, or deletes it.

- A key of working memory has again the value that others set last.
- A message, a fact and a block say what others have said last.
- An entity that the source began keeps its name where others have observed something of it, or
  relate to it: they have used the name themselves. A relationship that the source said goes, and
  what it ended is true again.
- A step of the source leaves its number behind, and no words: numbers are never used twice. An
  episode that the source ended runs again; one that the source began goes.
- A document is as others have put it.
- A block that is archived, and one whose earlier text has no room any more, goes as a whole.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.errors import NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.compression import CompactionUndone
from memory_actors.kinds.context.commands import BUDGET
from memory_actors.kinds.context.events import BlockEdited, BlockInserted, BlockRemoved
from memory_actors.kinds.context.sizes import after, check_document
from memory_actors.kinds.entity.events import (
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityRestored,
    EntityUpdated,
    RelationshipAdded,
    RelationshipDeleted,
)
from memory_actors.kinds.entity.graph import RelationshipRow, touching
from memory_actors.kinds.entity.state import LIVES as ENTITY_LIVES
from memory_actors.kinds.entity.state import as_it_was as entity_as_it_was
from memory_actors.kinds.episodic import events as episodic_events
from memory_actors.kinds.episodic.events import (
    EpisodeDeleted,
    EpisodeRestored,
    EpisodeStarted,
    EvictedStep,
    StepAdded,
)
from memory_actors.kinds.episodic.state import LIVES as EPISODE_LIVES
from memory_actors.kinds.episodic.state import returning
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.long_term.events import CompactionUndone as MemoriesUndone
from memory_actors.kinds.long_term.events import (
    MemoryAdded,
    MemoryDeleted,
    MemoryUpdated,
    SummaryAdded,
)
from memory_actors.kinds.long_term.state import LIVES as MEMORY_LIVES
from memory_actors.kinds.long_term.state import Restored
from memory_actors.kinds.long_term.state import as_it_was as memory_as_it_was
from memory_actors.kinds.purging.pasts import TaintedPast
from memory_actors.kinds.rows import derived
from memory_actors.kinds.short_term import MessageAdded, MessageDeleted, MessageUpdated
from memory_actors.kinds.structured.state import LIVES as DOCUMENT_LIVES
from memory_actors.kinds.structured.state import DocumentDeleted, DocumentPut
from memory_actors.kinds.structured.state import as_it_was as document_as_it_was
from memory_actors.kinds.working import KeyDeleted, KeySet


class Way(NamedTuple):
    """The functions of one kind; they return None for its events where nothing is left."""

    kind: Kind
    without: Callable[[TaintedPast, Any, Any, Limits], list[Any] | None]
    """(past, row, state, limits) -> the events that leave a memory what others have said."""
    deleted: Callable[[Any, Any], list[Any]]
    """(row, state) -> the events that take a memory away."""
    returning: Callable[[TaintedPast, Limits], list[Any] | None] | None = None
    """(past, limits) -> the events that bring an original of a summary back."""
    undone: type[CompactionUndone] | None = None


# --- working memory


def _key_without(past: TaintedPast, row: Any, _state: Any, _limits: Limits) -> list[Any] | None:
    last: KeySet | None = None
    for recorded in past.clean:
        event = recorded.data
        its_own = isinstance(event, KeySet) and event.memory_id == row.memory_id
        last = event if its_own else None  # else it was deleted, or left for another
    return None if last is None else [replace(last, key=row.key, evicted=(), evicted_ids=())]


# --- short-term memory


def _message_without(past: TaintedPast, row: Any, _state: Any, _limits: Limits) -> list[Any] | None:
    told = [one.data for one in past.cleaned(MessageAdded)]
    texts = [event for event in told if getattr(event, "content", None) is not None]
    if not texts:
        return None
    metadata = [event.metadata for event in told if getattr(event, "metadata", None) is not None]
    return [derived(MessageUpdated, texts[-1], session_id=row.session_id, metadata=metadata[-1])]


# --- long-term memory


def _memory_without(past: TaintedPast, row: Any, _state: Any, _limits: Limits) -> list[Any] | None:
    then = _memory_left(past)
    if then is None or isinstance(then, SummaryAdded):
        return None
    # Said again even where nothing changes: what is not in its log was not purged.
    if then.digest == row.digest:
        return [MemoryUpdated(memory_id=row.memory_id, metadata=then.metadata)]
    return [derived(MemoryUpdated, then, same=b"")]


def _memory_returning(past: TaintedPast, _limits: Limits) -> list[Any] | None:
    then = _memory_left(past)
    return None if then is None else [then]


def _memory_left(past: TaintedPast) -> Restored | None:
    try:
        return memory_as_it_was(MEMORY_LIVES.last(past.memory_id, past.cleaned(MemoryAdded)))
    except NotFoundError:
        return None


# --- entities and relationships


def _entity_without(past: TaintedPast, row: Any, state: Any, _limits: Limits) -> list[Any] | None:
    if isinstance(row, RelationshipRow):
        return _relationship_without(past)
    related = bool(touching(state.graph, (row.memory_id,)))
    begin = next((e.data for e in past.events if isinstance(e.data, EntityAdded)), None)
    empty = {"observations": (), "size_bytes": row.name_bytes}
    events = past.cleaned(EntityAdded, _observes, **empty)
    if not events and related and begin is not None:
        alone = {**empty, "metadata": {}, "origins": (), "created_at_us": row.created_at_us}
        return [derived(EntityRestored, begin, **alone)]
    try:
        return [entity_as_it_was(ENTITY_LIVES.last(past.memory_id, events))]
    except NotFoundError:
        return None


def _observes(event: Any) -> bool:
    if isinstance(event, EntityObserved):
        return bool(event.observations or event.metadata)
    return isinstance(event, EntityAdded | EntityUpdated)


def _relationship_without(past: TaintedPast) -> list[Any] | None:
    said = [one.data for one in past.clean if isinstance(one.data, RelationshipAdded)]
    if all(event.memory_id != past.memory_id for event in said):
        return None
    return [entity_as_it_was(ENTITY_LIVES.last(past.memory_id, past.clean))]


def _entity_deleted(row: Any, state: Any) -> list[Any]:
    if isinstance(row, RelationshipRow):
        return [RelationshipDeleted(memory_id=row.memory_id)]
    ids = tuple(touching(state.graph, (row.memory_id,)))
    return [EntityDeleted(memory_id=row.memory_id, relationship_ids=ids)]


# --- episodes


def _episode_without(past: TaintedPast, row: Any, _state: Any, limits: Limits) -> list[Any] | None:
    events = _episode_returning(past, limits)
    return None if events is None else [EpisodeDeleted(memory_id=row.memory_id), *events]


def _episode_returning(past: TaintedPast, limits: Limits) -> list[Any] | None:
    steps = {
        one.data.number: one.data
        for one in past.events
        if isinstance(one.data, StepAdded) and past.tainted(one)
    }
    events = _each_step_once(past.cleaned(EpisodeStarted))
    left = [_without_markers(one, set(steps)) for one in events]
    try:
        there = returning(EPISODE_LIVES.last(past.memory_id, left), limits.episode_steps)
    except NotFoundError:
        return None
    first, *others = there.events
    if isinstance(first, EpisodeRestored) and steps:
        first = _with_numbers(first, list(steps.values()))
    return [first, *others]


def _each_step_once(events: Sequence[Recorded[Any]]) -> Iterator[Recorded[Any]]:
    """Yield events without steps that were said again when an episode came back."""
    seen = set[int]()
    for one in events:
        if isinstance(one.data, EpisodeStarted):
            seen.clear()
        elif isinstance(one.data, StepAdded):
            if one.data.number in seen:
                continue
            seen.add(one.data.number)
        yield one


def _without_markers(recorded: Recorded[Any], numbers: set[int]) -> Recorded[Any]:
    """Return an event that does not name those steps as evicted: their words are in that, too."""
    evicted = getattr(recorded.data, "evicted", ())
    kept = tuple(one for one in evicted if one.number not in numbers)
    if len(kept) == len(evicted):
        return recorded
    return replace(recorded, data=replace(recorded.data, evicted=kept))


def _with_numbers(event: EpisodeRestored, steps: list[StepAdded]) -> EpisodeRestored:
    wordless = [EvictedStep(step.number, step.sha256, "") for step in steps]
    evicted = sorted((*event.evicted, *wordless), key=lambda one: one.number)
    counted = event.steps_evicted + len(steps)
    return replace(event, evicted=tuple(evicted), steps_evicted=counted)


# --- documents


def _document_without(
    past: TaintedPast, _row: Any, _state: Any, _limits: Limits
) -> list[Any] | None:
    events = past.cleaned(DocumentPut, text="value")
    if not events:
        return None
    return [document_as_it_was(DOCUMENT_LIVES.last(past.memory_id, events))]


# --- blocks of context documents


def _block_without(past: TaintedPast, row: Any, state: Any, limits: Limits) -> list[Any] | None:
    texts = [one.data for one in past.clean if getattr(one.data, "raw", None) is not None]
    if row.archived or not texts:
        return None
    said = [one.data.metadata for one in past.clean if _gives_metadata(one.data)]
    metadata = said[-1] if said else {}
    edited = derived(BlockEdited, texts[-1], metadata=metadata, spacing=False)
    try:
        check_document(row.document, state, after(state, [edited], 0), limits, BUDGET)
    except QuotaExceededError:
        return None
    return [edited]


def _gives_metadata(event: Any) -> bool:
    return isinstance(event, BlockInserted) or getattr(event, "metadata", None) is not None


# --- all of them

WAYS = (
    Way(
        working,
        _key_without,
        lambda row, _state: [KeyDeleted(memory_id=row.memory_id, key=row.key)],
    ),
    Way(
        short_term,
        _message_without,
        lambda row, _state: [MessageDeleted(memory_id=row.memory_id, session_id=row.session_id)],
    ),
    Way(
        long_term,
        _memory_without,
        lambda row, _state: [MemoryDeleted(memory_id=row.memory_id)],
        _memory_returning,
        MemoriesUndone,
    ),
    Way(entity, _entity_without, _entity_deleted),
    Way(
        episodic,
        _episode_without,
        lambda row, _state: [EpisodeDeleted(memory_id=row.memory_id)],
        _episode_returning,
        episodic_events.CompactionUndone,
    ),
    Way(
        structured,
        _document_without,
        lambda row, _state: [DocumentDeleted(memory_id=row.memory_id)],
    ),
    Way(
        context,
        _block_without,
        lambda row, _state: [BlockRemoved(memory_id=row.memory_id)],
    ),
)
