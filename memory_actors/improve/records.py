"""What a run holds while it goes on, and what it leaves."""

from typing import Any, Literal, TypeAlias

from eventlog.core.records import Returned
from memory_actors.improve.bounded import Marker
from memory_actors.improve.protocol import Critique, utf8_bytes

StoppedBecause: TypeAlias = Literal[
    "nothing_found", "unchanged", "no_rise", "target_reached", "stop", "max_iterations",
    "memory_limit", "error", "closed_early",
]  # fmt: skip
"""nothing_found: the critic had nothing to say. unchanged: the reviser left the text as it was.
no_rise: no better score for `patience` rounds. stop: the caller's function said so. The last three
stand in an error's result, or in the record of a run."""


class Round(Returned, frozen=True, kw_only=True):
    """One round: a text was judged, and mostly revised."""

    number: int
    """From 1."""
    critique: Critique
    """Of the text before."""
    text: str | None = None
    """The revised text; None: it was not revised, because the run ended or `error` says why."""
    error: str | None = None

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of all its texts."""
        return self.critique.size_bytes + sum(map(utf8_bytes, (self.text or "", self.error or "")))


class State(Returned, frozen=True, kw_only=True):
    """Where a run is, after a critique: what `stop` is given."""

    round: int
    """From 1."""
    text: str
    critique: Critique
    """Of the text."""
    best_text: str
    best_score: float
    best_round: int
    """Whose text was judged best: the first of equals."""

    @property
    def score(self) -> float:
        """Of the text."""
        return self.critique.score


class Result(Returned, frozen=True, kw_only=True):
    """What came of a run: the best text, which need not be the last."""

    text: str
    """Of the texts that were judged the one with the highest score, the earliest of equals."""
    score: float | None
    """None: no text was judged before the run ended."""
    history: tuple[Round | Marker, ...]
    """The rounds that are kept: the first, the last, those with an error, and the newest others;
    markers where others were."""
    metadata: dict[str, Any]
    """`memory_stats`: peak_usage_mb (of the process, 1 MB = 1024 KB), history_entries_evicted,
    total_text_processed (UTF-8 bytes of the texts that were judged), iterations (revisions),
    stopped_because (`StoppedBecause`). `episode_id`, if the run was recorded."""
