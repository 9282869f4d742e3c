"""One episode: its events, its row, and what each event makes of the row.

Each text of an episode (the goal, a step, the result) stands in an event of its own, also after it
was restored: so no event grows with the episode, and each text is found under the version of its
event. A step leaves the row because an event names it; `leaving` says which to name.
"""

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias

import msgspec

from eventlog import Recorded
from memory_actors.base.records import Origin
from memory_actors.kinds import compression, kind
from memory_actors.kinds.compression import Compactable, Summary, summary_fields
from memory_actors.kinds.events import Effect, KindRegistry
from memory_actors.kinds.kind import Pruned, Updated

SNIPPET_CHARS = 80  # of an action: enough to know what an evicted step was about
MARKERS_MAX = 50  # of evicted steps in a row, as many as it keeps steps; the log names all of them

Status: TypeAlias = Literal["running", "done", "failed"]

registry = KindRegistry()

# --- events


class Evicted(msgspec.Struct, frozen=True, gc=False):
    """What is left of a step that made room for a newer one."""

    number: int
    sha256: bytes
    """Of the step's JSON: it proves what the step was, to one who has it."""
    snippet: str
    """The beginning of its action."""


@registry.about("episodic.started", Effect.ADDED, others={"evicted_ids": Effect.EVICTED})
class EpisodeStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An agent began to work on a goal, and its oldest finished episodes left."""

    memory_id: str
    agent_id: str
    goal: str
    size_bytes: int
    """Of the goal."""
    digest: bytes
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    session_id: str | None = None
    pinned: bool = False
    evicted_ids: tuple[str, ...] = ()


@registry.about("episodic.restored", Effect.RESTORED)
class EpisodeRestored(EpisodeStarted, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode that had gone came back; its steps and its end follow as events of their own."""

    created_at_us: int
    evicted: tuple[Evicted, ...] = ()
    """The last of its evicted steps."""
    steps_evicted: int = 0
    keep: bool = False
    """It came back out of a summary: compaction leaves it alone from now on."""
    origins: tuple[Origin, ...] = ()
    """Whose words its goal and metadata are: not those of who brought it back."""


@registry.about("episodic.step_added", Effect.CHANGED)
class StepAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An agent took a step, and older ones left the episode."""

    memory_id: str
    number: int
    """From 1; never used again, whatever leaves."""
    action: str
    size_bytes: int
    """Of its texts."""
    digest: bytes
    sha256: bytes
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None
    evicted: tuple[Evicted, ...] = ()
    origins: tuple[Origin, ...] = ()
    """Whose words it has, where it came back with its episode."""


@registry.about("episodic.finished", Effect.CHANGED)
class EpisodeFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode came to its end."""

    memory_id: str
    failed: bool
    result: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    origins: tuple[Origin, ...] = ()
    """Whose words it has, where it came back with its episode."""


@registry.about("episodic.updated", Effect.CHANGED)
class EpisodeUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode got another goal (its content), new metadata, or both; None keeps what was."""

    digest: bytes = b""


@registry.about("episodic.deleted", Effect.DELETED)
class EpisodeDeleted(msgspec.Struct, frozen=True, kw_only=True):
    """An episode was deleted by its user."""

    memory_id: str


@registry.about("episodic.pruned", Effect.PRUNED)
class EpisodesPruned(Pruned, frozen=True, kw_only=True):
    """Episodes were deleted to make room, with leave."""


@registry.about(
    "episodic.compressed", Effect.ADDED, others={"compressed_from_ids": Effect.COMPRESSED}
)
class EpisodesCompressed(
    compression.Compressed, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A summary took the place of episodes of one agent, which went."""

    agent_id: str
    failed: bool = False
    """All of them had."""


@registry.about("episodic.summary_added", Effect.ADDED)
class EpisodeSummaryAdded(
    compression.SummaryAdded, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A summary came back, or from another store; no episode went for it."""

    agent_id: str
    failed: bool = False


@registry.about("episodic.compaction_undone", Effect.UNDONE)
class CompactionUndone(compression.CompactionUndone, frozen=True, kw_only=True):
    """A summary went, because its originals are to come back: their events follow this one."""


TextEvent: TypeAlias = EpisodeStarted | StepAdded | EpisodeFinished | EpisodeUpdated
"""Has a text of one episode."""
SummaryEvent: TypeAlias = EpisodesCompressed | EpisodeSummaryAdded
RowEvent: TypeAlias = TextEvent | SummaryEvent
"""Makes a row, or changes the one it names."""
Event: TypeAlias = RowEvent | EpisodeDeleted | EpisodesPruned | CompactionUndone

# --- state


class Text(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A text of an episode, without the text."""

    label: int
    """Of its passage, and so of the event that has it."""
    digest: bytes
    size_bytes: int
    stored_bytes: int
    compressed: bool


class Step(Text, frozen=True, kw_only=True, array_like=True, gc=False):
    """A step that is kept."""

    number: int
    sha256: bytes
    failed: bool
    """It had an error."""
    snippet: str


class Row(Compactable, frozen=True, kw_only=True, array_like=True, gc=False):
    """An episode without its texts. Its sizes are those of the texts it still has.

    A summary is an episode that has ended, without steps; its goal is its whole text.
    """

    agent_id: str
    session_id: str | None
    status: Status
    goal: Text
    steps: tuple[Step, ...] = ()
    result: Text | None = None
    """None while it runs, and where it ended without words."""
    evicted: tuple[Evicted, ...] = ()
    """The steps that left last, in the order they left."""
    steps_evicted: int = 0

    @property
    def digest(self) -> bytes:
        """Of its goal, or of all that a summary says."""
        return self.goal.digest

    @property
    def running(self) -> bool:
        """Whether it takes steps."""
        return self.status == "running"

    @property
    def next_number(self) -> int:
        """The number of its next step."""
        return len(self.steps) + self.steps_evicted + 1


# --- evolve


def evolved(row: Row | None, recorded: Recorded[Any]) -> Row:
    """Return a row after a `RowEvent` about it; None is the row before it was started."""
    event: RowEvent = recorded.data
    if isinstance(event, EpisodeStarted):
        return _started(event, recorded)
    if isinstance(event, Summary):
        return _summary(event, recorded)
    assert row is not None, "an episode begins with its start"
    if isinstance(event, StepAdded):
        return _with_step(without_steps(row, event.evicted), event, recorded)
    if isinstance(event, EpisodeFinished):
        return _finished(row, event, recorded)
    return _updated(row, event, recorded)


def _started(event: EpisodeStarted, recorded: Recorded[RowEvent]) -> Row:
    restored = event if isinstance(event, EpisodeRestored) else None
    return Row(
        memory_id=event.memory_id,
        version=recorded.version,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        created_at_us=restored.created_at_us if restored else recorded.recorded_at_us,
        occurred_at_us=event.occurred_at_us,
        metadata=event.metadata,
        agent_id=event.agent_id,
        session_id=event.session_id,
        pinned=event.pinned,
        status="running",
        goal=_text(event, recorded),
        evicted=restored.evicted if restored else (),
        steps_evicted=restored.steps_evicted if restored else 0,
        keep=restored is not None and restored.keep,
    )


def _summary(event: SummaryEvent, recorded: Recorded[RowEvent]) -> Row:
    return Row(
        **summary_fields(event, recorded),
        agent_id=event.agent_id,
        session_id=None,
        status="failed" if event.failed else "done",
        goal=_text(event, recorded),
    )


def _text(
    event: EpisodeStarted | EpisodeFinished | EpisodeUpdated | SummaryEvent,
    recorded: Recorded[RowEvent],
) -> Text:
    return Text(
        label=kind.label(recorded.version),
        digest=event.digest,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
    )


def _with_step(row: Row, event: StepAdded, recorded: Recorded[RowEvent]) -> Row:
    step = Step(
        label=kind.label(recorded.version),
        digest=event.digest,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
        number=event.number,
        sha256=event.sha256,
        failed=bool(event.error),
        snippet=event.action[:SNIPPET_CHARS],
    )
    return _replace(row, None, step, steps=(*row.steps, step))


def without_steps(row: Row, evicted: tuple[Evicted, ...]) -> Row:
    """Return a row without some of its steps, which leave their markers."""
    if not evicted:
        return row
    numbers = {marker.number for marker in evicted}
    left = [step for step in row.steps if step.number in numbers]
    kept = tuple(step for step in row.steps if step.number not in numbers)
    return _resized(
        row,
        steps=kept,
        evicted=(*row.evicted, *evicted)[-MARKERS_MAX:],
        steps_evicted=row.steps_evicted + len(evicted),
        size_bytes=row.size_bytes - sum(step.size_bytes for step in left),
        stored_bytes=row.stored_bytes - sum(step.stored_bytes for step in left),
    )


def _finished(row: Row, event: EpisodeFinished, recorded: Recorded[RowEvent]) -> Row:
    status: Status = "failed" if event.failed else "done"
    if event.result is None:
        return msgspec.structs.replace(row, status=status)
    result = _text(event, recorded)
    return _replace(row, None, result, status=status, result=result)


def _updated(row: Row, event: EpisodeUpdated, recorded: Recorded[RowEvent]) -> Row:
    if event.metadata is not None:
        row = msgspec.structs.replace(row, metadata=event.metadata)
    if event.content is None:
        return row
    goal = _text(event, recorded)
    return _replace(row, row.goal, goal, version=recorded.version, goal=goal)


def _replace(row: Row, old: Text | None, new: Text, **fields: Any) -> Row:
    """Return a row with other fields, and the sizes of a `new` text in the place of the old."""
    return _resized(
        row,
        size_bytes=row.size_bytes + new.size_bytes - (old.size_bytes if old else 0),
        stored_bytes=row.stored_bytes + new.stored_bytes - (old.stored_bytes if old else 0),
        **fields,
    )


def _resized(row: Row, **fields: Any) -> Row:
    """Return a row with other texts, and whether one of them is stored compressed."""
    changed = msgspec.structs.replace(row, **fields)
    ends = (changed.goal,) if changed.result is None else (changed.goal, changed.result)
    compressed = any(text.compressed for text in (*ends, *changed.steps))
    if compressed == changed.compressed:
        return changed
    return msgspec.structs.replace(changed, compressed=compressed)


# --- what a decision asks of a row


def leaving(older: Sequence[Step], steps_max: int) -> list[Step]:
    """Return which of the `older` steps leave, for them and the newest to keep to a limit.

    Of those between the first and the newest the oldest leaves, errors last; then the first.
    """
    over = len(older) + 1 - steps_max
    in_order = sorted(older, key=lambda step: (step is older[0], step.failed))
    return in_order[: max(0, over)]


def markers(steps: Sequence[Step]) -> tuple[Evicted, ...]:
    """Return what is left of steps that leave."""
    return tuple(Evicted(step.number, step.sha256, step.snippet) for step in steps)
