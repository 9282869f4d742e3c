"""Episodes as they are now: the row of one, what each event makes of it, and all of a user's.

A step leaves the row because an event names it; `leaving` says which to name. A fold skips events
about an episode that is missing: see kinds/compacting.py for why.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import Literal, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog.core.records import AnyRecorded
from memory_actors.base.records import Episode, EvictedStep, Step
from memory_actors.kinds.compacting import Compactable, Compacted, CompactedBase, summary_row
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeStarted,
    EpisodeUpdated,
    RowEvent,
    StepAdded,
    StepMarker,
    StepTexts,
    SummaryEvent,
    goal_of,
)
from memory_actors.kinds.kind import rows_dump
from memory_actors.kinds.passages import Passage, label, version_of
from memory_actors.kinds.past import Events
from memory_actors.kinds.rows import Draft, derived, kept, new_row, record_data

SNIPPET_CHARS = 80  # of an action: enough to know what an evicted step was about
MARKERS_MAX = 50  # of evicted steps in a row, as many as it keeps steps; the log names all of them

TOLD_CHARACTERS_MAX = 4_000  # of one episode: a cluster of hundreds has to be read, too
LINE_CHARACTERS_MAX = 500  # of its goal, and of its result
PART_CHARACTERS_MAX = 150  # of each text of a step

Status: TypeAlias = Literal["running", "done", "failed"]

# --- one episode


class Text(msgspec.Struct, frozen=True, kw_only=True, array_like=True, gc=False):
    """A text of an episode, without the text."""

    label: int
    """Label of its passage, and so of the event that has it."""
    digest: bytes
    size_bytes: int
    stored_bytes: int
    compressed: bool


class StepRow(Text, frozen=True, kw_only=True, array_like=True, gc=False):
    """A step that is kept."""

    number: int
    sha256: bytes
    failed: bool
    """It had an error."""
    snippet: str


class EpisodeRow(Compactable, frozen=True, kw_only=True, array_like=True, gc=False):
    """An episode without its texts. Its sizes are those of the texts it still has.

    A summary is an episode that has ended, without steps; its goal is its whole text.
    """

    agent_id: str
    session_id: str | None
    status: Status
    goal: Text
    steps: tuple[StepRow, ...] = ()
    result: Text | None = None
    """The result, or None while it runs and if it ended without a text."""
    evicted: tuple[StepMarker, ...] = ()
    """The steps that left last, in the order they left."""
    steps_evicted: int = 0

    @property
    def digest(self) -> bytes:
        """Digest of its goal, or of the whole text of a summary."""
        return self.goal.digest

    @property
    def running(self) -> bool:
        """True if it takes steps."""
        return self.status == "running"

    @property
    def next_number(self) -> int:
        """The number of its next step."""
        return len(self.steps) + self.steps_evicted + 1


def _text(recorded: AnyRecorded) -> Text:
    event = recorded.data
    return Text(
        label=label(recorded.version),
        digest=event.digest,
        size_bytes=event.size_bytes,
        stored_bytes=recorded.stored_bytes,
        compressed=recorded.compressed,
    )


def without_steps(row: EpisodeRow, evicted: tuple[StepMarker, ...]) -> EpisodeRow:
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


def _with_text(row: EpisodeRow, old: Text | None, new: Text, **fields: object) -> EpisodeRow:
    """Return a row with other fields, and the sizes of a `new` text in the place of the old."""
    return _resized(
        row,
        size_bytes=row.size_bytes + new.size_bytes - (old.size_bytes if old else 0),
        stored_bytes=row.stored_bytes + new.stored_bytes - (old.stored_bytes if old else 0),
        **fields,
    )


def _resized(row: EpisodeRow, **fields: object) -> EpisodeRow:
    changed = replace(row, **fields)
    ends = (changed.goal,) if changed.result is None else (changed.goal, changed.result)
    compressed = any(text.compressed for text in (*ends, *changed.steps))
    if compressed == changed.compressed:
        return changed
    return replace(changed, compressed=compressed)


# --- what a decision asks of a row


def leaving(older: Sequence[StepRow], steps_max: int) -> list[StepRow]:
    """Return the `older` steps to evict, so that they and the newest keep to a limit.

    The oldest steps after the first leave first, those with an error last; then the first.
    """
    over = len(older) + 1 - steps_max
    in_order = sorted(older, key=lambda step: (step is older[0], step.failed))
    return in_order[: max(0, over)]


def markers(steps: Sequence[StepRow]) -> tuple[StepMarker, ...]:
    """Return the markers of evicted steps."""
    return tuple(StepMarker(step.number, step.sha256, step.snippet) for step in steps)


# --- all of a user's episodes


Episodic: TypeAlias = Compacted[EpisodeRow]
"""The living episodes, whose they are (the groups), and how many left so far."""


class EpisodeRows(CompactedBase[Episodic, EpisodeRow]):
    """Folds events into the rows of episodes, and reads their texts."""

    Dump = rows_dump("EpisodicDump", EpisodeRow, "evicted", "pruned")
    initial = Episodic()
    place = attrgetter("agent_id", "memory_id")

    def begun(self, recorded: AnyRecorded, _draft: Draft[EpisodeRow]) -> EpisodeRow:
        """Return the row of an episode, or of a summary of some."""
        event: EpisodeStarted | SummaryEvent = recorded.data
        if isinstance(event, EpisodeStarted):
            return new_row(EpisodeRow, recorded, status="running", goal=_text(recorded))
        status = "failed" if event.failed else "done"
        return summary_row(
            EpisodeRow, recorded, session_id=None, status=status, goal=_text(recorded)
        )

    def changed(self, row: EpisodeRow, recorded: AnyRecorded) -> EpisodeRow:
        """Return a row after an event about it."""
        event: StepAdded | EpisodeFinished | EpisodeUpdated = recorded.data
        if isinstance(event, StepAdded):
            step = derived(
                StepRow,
                _text(recorded),
                number=event.number,
                sha256=event.sha256,
                failed=bool(event.error),
                snippet=event.action[:SNIPPET_CHARS],
            )
            row = without_steps(row, event.evicted)
            return _with_text(row, None, step, steps=(*row.steps, step))
        if isinstance(event, EpisodeFinished):
            status: Status = "failed" if event.failed else "done"
            if event.result is None:
                return replace(row, status=status)
            result = _text(recorded)
            return _with_text(row, None, result, status=status, result=result)
        row = kept(row, event)
        if event.content is None:
            return row
        goal = _text(recorded)
        return _with_text(row, row.goal, goal, version=recorded.version, goal=goal)

    # --- texts: as they are found, as people read them, and as a summariser does

    def chain(self, row: EpisodeRow) -> str | None:
        """Return the episode: its steps help to find each other. A summary stands alone."""
        return None if row.original_count else row.memory_id

    def text_of(self, row: EpisodeRow) -> Text:
        """Return the goal."""
        return row.goal

    def texts(self, row: EpisodeRow) -> list[Text]:
        """Return the texts of an episode: the goal, the steps that are kept, the result."""
        return [row.goal, *row.steps, *([row.result] if row.result is not None else [])]

    def passages(self, row: EpisodeRow) -> Sequence[Passage]:
        """Return one passage for each text; of a summary, its parts."""
        if row.original_count:
            return self.summary_passages(row)
        goal, *others = self.texts(row)
        first = Passage(goal.label, goal.digest, place=0)  # however late it was reworded
        return [first, *(Passage(text.label, text.digest, text.label) for text in others)]

    def passage_text(self, row: EpisodeRow, passage_label: int, events: Events) -> str:
        """Return a goal, a step or a result as it is found, or a part of a summary."""
        if row.original_count:
            return self.summary_text(row, passage_label, events)
        event: RowEvent = events[version_of(passage_label)].data
        if isinstance(event, StepAdded):
            return StepTexts.of(event).line
        if isinstance(event, EpisodeFinished):
            return event.result or ""
        return goal_of(event)

    def sources(self, row: EpisodeRow) -> Sequence[int]:
        """Return the versions of the events that have its texts."""
        return [version_of(text.label) for text in self.texts(row)]

    def content(self, row: EpisodeRow, events: Events) -> str:
        """Return an episode as people read it: the goal, the numbered steps, the result."""
        if row.original_count:
            return super().content(row, events)
        return "\n".join(self._lines(row, events))

    def _lines(self, row: EpisodeRow, events: Events) -> Iterator[str]:
        yield f"Goal: {self.passage_text(row, row.goal.label, events)}"
        next_number = 1
        for step in row.steps:
            if missing := step.number - next_number:
                yield f"… {missing} {'step' if missing == 1 else 'steps'} evicted"
            yield f"{step.number}. {self.passage_text(row, step.label, events)}"
            next_number = step.number + 1
        if not row.running:
            yield self._result_line(row, events)

    def _result_line(self, row: EpisodeRow, events: Events) -> str:
        if row.result is None:
            return f"Result: {row.status}"
        heading = "Result (failed)" if row.status == "failed" else "Result"
        return f"{heading}: {self.passage_text(row, row.result.label, events)}"

    def data(self, row: EpisodeRow, events: Events) -> dict[str, object]:
        """Return an episode as JSON; its evicted steps in the order they left, as far as known.

        A summary is an episode without steps, and says what it was made of besides.
        """
        made_of = self.summary_data(row, events) if row.original_count else {}
        result = None if row.result is None else self.passage_text(row, row.result.label, events)
        steps = [record_data(Step, events[version_of(step.label)].data) for step in row.steps]
        evicted = [record_data(EvictedStep, gone, sha256=gone.sha256.hex()) for gone in row.evicted]
        goal = goal_of(events[row.version].data)
        said = record_data(Episode, row, goal=goal, result=result, steps=steps, evicted=evicted)
        return made_of | said

    def told(self, row: EpisodeRow, events: Events) -> str:
        """Return an episode as a summariser reads it: as people do, within a limit.

        A longer episode leaves out steps: the older ones first, those with an error last.
        """
        ends = [f"Goal: {goal_of(events[row.version].data)}", self._result_line(row, events)]
        goal, result = (_shortened(line, LINE_CHARACTERS_MAX) for line in ends)
        room, kept = TOLD_CHARACTERS_MAX - len(goal) - len(result), dict[int, str]()
        for step in sorted(row.steps, key=lambda step: (step.failed, step.number), reverse=True):
            texts = StepTexts.of(events[version_of(step.label)].data)
            # Each is shortened: the error stands last, and is not to be lost.
            short = (_shortened(text or "", PART_CHARACTERS_MAX) for text in texts)
            said = f"{step.number}. {StepTexts(*short).line}"
            room -= len(said)
            if room < 0:
                break
            kept[step.number] = said
        return "\n".join([goal, *(kept[number] for number in sorted(kept)), result])


def _shortened(said: str, characters_max: int) -> str:
    return said if len(said) <= characters_max else said[: characters_max - 1] + "…"
