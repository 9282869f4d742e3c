"""The texts of episodes: as they are found, as people read them, and as a summariser does."""

from collections.abc import Iterator, Sequence
from typing import Any

from memory_actors.base.records import Episode, EvictedStep, Step
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    RowEvent,
    StepAdded,
    StepTexts,
    goal_of,
)
from memory_actors.kinds.episodic.state import EpisodeRow, EpisodeRows, Text
from memory_actors.kinds.kind import Events
from memory_actors.kinds.passages import Passage, version_of
from memory_actors.kinds.rows import record_data

TOLD_CHARACTERS_MAX = 4_000  # of one episode: a cluster of hundreds has to be read, too
LINE_CHARACTERS_MAX = 500  # of its goal, and of its result
PART_CHARACTERS_MAX = 150  # of each text of a step


class EpisodeTexts(EpisodeRows):
    """Reads the texts of episodes."""

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

    def data(self, row: EpisodeRow, events: Events) -> dict[str, Any]:
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
