"""What an episode says: the texts it is found by, and how it reads as text and as JSON.

A goal and a result are found by their own words, a step by what `step_text` returns: that is what
a caller embeds, and whose digest it gives with its command.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memory_actors.kinds.compression import summary_data, summary_passages, summary_text
from memory_actors.kinds.episodic.episode import (
    EpisodeFinished,
    EpisodeStarted,
    Row,
    RowEvent,
    Step,
    StepAdded,
    Text,
)
from memory_actors.kinds.kind import Events, Passage, its_content, version_of

TOLD_CHARACTERS_MAX = 4_000  # of one episode: a cluster of hundreds has to be read, too
LINE_CHARACTERS_MAX = 500  # of its goal, and of its result
PART_CHARACTERS_MAX = 150  # of each text of a step

# --- of one text


def step_text(
    action: str,
    observation: str | None = None,
    outcome: str | None = None,
    error: str | None = None,
) -> str:
    """Return what a step is found by: `action -> observation -> outcome -> error: …`."""
    said = [action, observation, outcome, f"error: {error}" if error else None]
    return " -> ".join(part for part in said if part)


def step_bytes(
    action: str,
    observation: str | None = None,
    outcome: str | None = None,
    error: str | None = None,
) -> int:
    """Return what a step counts for: the UTF-8 bytes of its texts."""
    return sum(len(part.encode()) for part in (action, observation, outcome, error) if part)


def step_sha256(
    action: str,
    observation: str | None = None,
    outcome: str | None = None,
    error: str | None = None,
) -> bytes:
    """Return the hash of a step's JSON, which stays when the step is evicted.

    The JSON is an object of the four, in this order, without spaces; what is not there is null.
    """
    step = {"action": action, "observation": observation, "outcome": outcome, "error": error}
    return hashlib.sha256(msgspec.json.encode(step)).digest()


# --- of an episode


def texts(row: Row) -> list[Text]:
    """Return the texts of an episode: the goal, the steps that are kept, the result."""
    return [row.goal, *row.steps, *([row.result] if row.result is not None else [])]


def passages(row: Row) -> Sequence[Passage]:
    """Return one passage for each text; of a summary, its parts."""
    if row.original_count:
        return summary_passages(row)
    goal, *others = texts(row)
    first = Passage(goal.label, goal.digest, place=0)  # however late it was reworded
    return [first, *(Passage(text.label, text.digest, text.label) for text in others)]


def passage_text(row: Row, passage_label: int, events: Events) -> str:
    """Return a goal, a step or a result as it is found, or a part of a summary."""
    if row.original_count:
        return summary_text(row, passage_label, events)
    event: RowEvent = events[version_of(passage_label)].data
    if isinstance(event, StepAdded):
        return step_text(event.action, event.observation, event.outcome, event.error)
    if isinstance(event, EpisodeFinished):
        return event.result or ""
    return goal_of(event)


def goal_of(event: RowEvent) -> str:
    """Return the goal that an event gave to its episode."""
    assert not isinstance(event, StepAdded | EpisodeFinished)
    goal = event.goal if isinstance(event, EpisodeStarted) else event.content
    assert goal is not None, "a label leads to an event with a text"
    return goal


def sources(row: Row) -> Sequence[int]:
    """Return the versions of the events that have its texts."""
    return [version_of(text.label) for text in texts(row)]


def content(row: Row, events: Events) -> str:
    """Return an episode as people read it: the goal, the numbered steps, the result."""
    if row.original_count:
        return its_content(row, events)
    return "\n".join(_lines(row, events))


def _lines(row: Row, events: Events) -> Iterator[str]:
    yield f"Goal: {passage_text(row, row.goal.label, events)}"
    next_number = 1
    for step in row.steps:
        if missing := step.number - next_number:
            yield f"… {missing} {'step' if missing == 1 else 'steps'} evicted"
        yield f"{step.number}. {passage_text(row, step.label, events)}"
        next_number = step.number + 1
    if not row.running:
        yield _result_line(row, events)


def _result_line(row: Row, events: Events) -> str:
    if row.result is None:
        return f"Result: {row.status}"
    heading = "Result (failed)" if row.status == "failed" else "Result"
    return f"{heading}: {passage_text(row, row.result.label, events)}"


def data(row: Row, events: Events) -> dict[str, Any]:
    """Return an episode as JSON; its evicted steps in the order they left, as far as known.

    A summary is an episode without steps, and says what it was made of besides.
    """
    made_of = summary_data(row, events) if row.original_count else {}
    return made_of | {
        "agent_id": row.agent_id,
        "goal": goal_of(events[row.version].data),
        "status": row.status,
        "result": None if row.result is None else passage_text(row, row.result.label, events),
        "steps": [_step(step, events) for step in row.steps],
        "evicted": [
            {"number": gone.number, "sha256": gone.sha256.hex(), "snippet": gone.snippet}
            for gone in row.evicted
        ],
        "steps_evicted": row.steps_evicted,
    }


def _step(step: Step, events: Events) -> dict[str, Any]:
    event = events[version_of(step.label)].data
    return {
        "number": step.number,
        "action": event.action,
        "observation": event.observation,
        "outcome": event.outcome,
        "error": event.error,
    }


# --- of an episode that is summarised


def told(row: Row, events: Events) -> str:
    """Return an episode as a summariser reads it: as people do, within a limit.

    Where it is longer, steps are left out: the older ones first, those with an error last.
    """
    ends = [f"Goal: {goal_of(events[row.version].data)}", _result_line(row, events)]
    goal, result = (_shortened(line, LINE_CHARACTERS_MAX) for line in ends)
    room, kept = TOLD_CHARACTERS_MAX - len(goal) - len(result), dict[int, str]()
    for step in sorted(row.steps, key=lambda step: (step.failed, step.number), reverse=True):
        said = f"{step.number}. {_told_step(events[version_of(step.label)].data)}"
        room -= len(said)
        if room < 0:
            break
        kept[step.number] = said
    return "\n".join([goal, *(kept[number] for number in sorted(kept)), result])


def _told_step(step: StepAdded) -> str:
    """Return a step, each of its texts shortened: its error stands last, and is not to be lost."""
    texts = (step.action, step.observation, step.outcome, step.error)
    return step_text(*(_shortened(text or "", PART_CHARACTERS_MAX) for text in texts))


def _shortened(said: str, characters_max: int) -> str:
    return said if len(said) <= characters_max else said[: characters_max - 1] + "…"
