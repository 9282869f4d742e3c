"""What an episode says: the texts it is found by, and how it reads as text and as JSON.

A goal and a result are found by their own words, a step by what `step_text` returns: that is what
a caller embeds, and whose digest it gives with its command.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from memory_actors.kinds.episodic.episode import (
    EpisodeFinished,
    EpisodeUpdated,
    Row,
    RowEvent,
    Step,
    StepAdded,
    Text,
)
from memory_actors.kinds.kind import Events, Passage, version_of

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
    """Return one passage for each text."""
    return [Passage(text.label, text.digest) for text in texts(row)]


def passage_text(_row: Row, passage_label: int, events: Events) -> str:
    """Return a goal, a step or a result as it is found."""
    event: RowEvent = events[version_of(passage_label)].data
    if isinstance(event, StepAdded):
        return step_text(event.action, event.observation, event.outcome, event.error)
    if isinstance(event, EpisodeFinished):
        return event.result or ""
    return goal_of(event)


def goal_of(event: RowEvent) -> str:
    """Return the goal that an event gave to its episode."""
    assert not isinstance(event, StepAdded | EpisodeFinished)
    goal = event.content if isinstance(event, EpisodeUpdated) else event.goal
    assert goal is not None, "a label leads to an event with a text"
    return goal


def sources(row: Row) -> Sequence[int]:
    """Return the versions of the events that have its texts."""
    return [version_of(text.label) for text in texts(row)]


def content(row: Row, events: Events) -> str:
    """Return an episode as people read it: the goal, the numbered steps, the result."""
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
    """Return an episode as JSON; its evicted steps in the order they left, as far as known."""
    return {
        "agent_id": row.agent_id,
        "goal": passage_text(row, row.goal.label, events),
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
