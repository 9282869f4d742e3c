"""Episodic memory: what an agent set out to do, the steps it took, and what came of it.

An episode is running until it is finished, done or failed. Of its steps it keeps a limited number:
the first, the last and those with an error stay longest. Each agent has a limited number of
episodes: the next one takes the place of its oldest finished one, those that failed last, for they
teach the most. What is running goes only with leave, and what is pinned never.

Compaction may put summaries in the place of an agent's old episodes that have ended.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from memory_actors.base.quota import Limits
from memory_actors.base.records import Episode, EvictedStep, QuotaUse, Step
from memory_actors.kinds.compacting import summary_data, summary_passages, summary_text
from memory_actors.kinds.defaults import (
    by_age,
    by_rows,
    deleting,
    its_content,
    none_at_hand,
    timeless,
)
from memory_actors.kinds.episodic.decide import (
    COMMANDS,
    NAME,
    AddEpisodeSummary,
    AddStep,
    CompressEpisodes,
    DeleteEpisode,
    FinishEpisode,
    PutEpisode,
    RestoreEpisodes,
    StartEpisode,
    UndoEpisodeCompaction,
    UpdateEpisode,
    compressible,
    decide,
)
from memory_actors.kinds.episodic.events import (
    EpisodeCompactionUndone,
    EpisodeDeleted,
    EpisodeFinished,
    EpisodesCompressed,
    RowEvent,
    StepAdded,
    StepTexts,
    TextEvent,
    goal_of,
    registry,
)
from memory_actors.kinds.episodic.purging import returning, without
from memory_actors.kinds.episodic.state import (
    Dump,
    Episodic,
    Row,
    Text,
    dump,
    find,
    fold,
    initial,
    load,
)
from memory_actors.kinds.kind import Events, Nature, Passage, Tally, version_of
from memory_actors.kinds.rows import record_data

TOLD_CHARACTERS_MAX = 4_000  # of one episode: a cluster of hundreds has to be read, too
LINE_CHARACTERS_MAX = 500  # of its goal, and of its result
PART_CHARACTERS_MAX = 150  # of each text of a step

NATURE = Nature(names_origins_by_text=True)

# --- reads

at = timeless


def tally(state: Episodic) -> Tally:
    """Return counts and bytes."""
    held, told = state.held, state.summaries.tallied()
    return Tally(len(held), held.size_bytes, held.stored_bytes, state.evicted, state.pruned, **told)


held_bytes = by_rows(tally)


def quotas(state: Episodic, limits: Limits, agent_id: str | None) -> Sequence[QuotaUse]:
    """Return how full each limit is; the episodes are an agent's, or those of the fullest one."""
    count = state.fullest if agent_id is None else len(state.agents.get(agent_id, ()))
    return (
        QuotaUse("episodes", "count", count, limits.episodes),
        QuotaUse("bytes", "bytes", state.held.size_bytes, limits.episodic_bytes),
    )


def rows(state: Episodic) -> Iterable[Row]:
    """Return the living episodes."""
    return state.held.rows.values()


def rows_of(state: Episodic, agent_id: str) -> Iterable[Row]:
    """Return the living episodes of one agent."""
    return map(state.held.rows.__getitem__, state.agents.get(agent_id, ()))


at_hand = none_at_hand
indexed_rows = rows
exported = by_age(rows)
worded = find
deleted = deleting(EpisodeDeleted)


def chain(row: Row) -> str | None:
    """Return the episode: its steps help to find each other. A summary stands alone."""
    return None if row.original_count else row.memory_id


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
        return StepTexts.of(event).line
    if isinstance(event, EpisodeFinished):
        return event.result or ""
    return goal_of(event)


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
    result = None if row.result is None else passage_text(row, row.result.label, events)
    steps = [record_data(Step, events[version_of(step.label)].data) for step in row.steps]
    evicted = [record_data(EvictedStep, gone, sha256=gone.sha256.hex()) for gone in row.evicted]
    goal = goal_of(events[row.version].data)
    said = record_data(Episode, row, goal=goal, result=result, steps=steps, evicted=evicted)
    return made_of | said


# --- compaction

UNDONE = EpisodeCompactionUndone


def whose(row: Row) -> str:
    """Return the agent: an episode is its own."""
    return row.agent_id


def summaries(state: Episodic) -> Iterable[Row]:
    """Return the living summaries."""
    return map(state.held.rows.__getitem__, state.summaries.ids)


def is_own(event: Any) -> bool:
    """Say whether an event has a text of one episode, and lets no other one go."""
    return isinstance(event, TextEvent) and not getattr(event, "evicted_ids", ())


def compressed(rows: Sequence[Row], fields: Mapping[str, Any]) -> EpisodesCompressed:
    """Return the event that puts a summary with these fields in the place of episodes."""
    failed = all(row.status == "failed" for row in rows)
    return EpisodesCompressed(**fields, agent_id=rows[0].agent_id, failed=failed)


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
    texts = (_shortened(text or "", PART_CHARACTERS_MAX) for text in StepTexts.of(step))
    return StepTexts(*texts).line


def _shortened(said: str, characters_max: int) -> str:
    return said if len(said) <= characters_max else said[: characters_max - 1] + "…"
