"""A part of the demonstration: a handover note that gets better, without a model."""

from difflib import unified_diff
from importlib.resources import files

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.improve import LocalCritic, LocalReviser, Scored, improve_stream, recorded_run
from memory_actors.improve.records import Finished

TEXT_FILE = "improving.txt"
TERMS = ("Harbourmaster", "Tideline", "PostgreSQL")


class ImprovingReport(msgspec.Struct, frozen=True, kw_only=True):
    """A text before and after, and what the log kept of the way."""

    scores: list[float]
    """Of the text after each round, the first as it was given."""
    words_before: int
    words_after: int
    stopped_because: str
    iterations: int
    found: dict[str, int]
    """What was wrong at first: findings by kind."""
    left: dict[str, int]
    """What no safe edit mends."""
    diff: list[str]
    """The sentences that changed, - before and + after."""
    rounds_recorded: int
    """Rounds of the episode, read back from the log."""
    same: bool
    """Whether the log's last word is the result."""


async def run_improving(user: UserMemory) -> ImprovingReport:
    """Improve the bundled note, and record it as an episode of a user."""
    before = (files(__package__) / TEXT_FILE).read_text("utf-8")
    scores: list[float] = []
    events = improve_stream(
        before, critic=LocalCritic(TERMS), reviser=LocalReviser(TERMS), record_to=user
    )
    async for event in events:
        if isinstance(event, Scored):
            scores.append(event.score)
        if isinstance(event, Finished):
            result = event.result
    recorded = await recorded_run(user, result.metadata["episode_id"])
    stats = result.metadata["memory_stats"]
    return ImprovingReport(
        scores=scores,
        words_before=len(before.split()),
        words_after=len(result.text.split()),
        stopped_because=stats["stopped_because"],
        iterations=stats["iterations"],
        found=_by_kind(before),
        left=_by_kind(result.text),
        diff=_changes(before, result.text),
        rounds_recorded=len(recorded.rounds),
        same=recorded.result == result.text,
    )


def _by_kind(text: str) -> dict[str, int]:
    kinds = [finding.kind for finding in LocalCritic(TERMS).judge(text).findings]
    return {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}


def _changes(before: str, after: str) -> list[str]:
    lines = list(unified_diff(_lines(before), _lines(after), n=0))[2:]
    return [line for line in lines if not line.startswith("@")]


def _lines(text: str) -> list[str]:
    """Return a text a sentence a line, so that a difference shows the sentence."""
    return text.replace(". ", ".\n").splitlines()
