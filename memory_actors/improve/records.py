"""The records of a run: a critique of a text, rounds, the state, the result, its events.

The tag of an event is its `type` as JSON.
"""

from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from eventlog.core.records import Returned
from memory_actors.base.records import JsonObject
from memory_actors.improve.bounded import Marker

QUOTE_CHARACTERS: Final = 80
"""The length of a quotation in a finding: enough to find the place."""


# --- a critique


class CritiqueFinding(Returned, frozen=True, kw_only=True):
    """One thing that could be better."""

    kind: str
    """A word or two: repetition, length, passive voice, …"""
    message: str
    quote: str = ""
    """The beginning of the place in the text."""

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of its texts."""
        return sum(map(utf8_bytes, (self.kind, self.message, self.quote)))


class Critique(Returned, frozen=True, kw_only=True):
    """A critic's judgement of a text."""

    score: float
    """From 0 to 1: how good the text is."""
    text: str = ""
    """In words; empty if there is nothing to say."""
    findings: tuple[CritiqueFinding, ...] = ()

    @property
    def found_nothing(self) -> bool:
        """True if there is nothing to improve."""
        return not self.findings and not self.text.strip()

    @property
    def size_bytes(self) -> int:
        """UTF-8 bytes of all its texts."""
        return utf8_bytes(self.text) + sum(finding.size_bytes for finding in self.findings)

    @property
    def problem(self) -> str | None:
        """The reason why it cannot be used; None if it can."""
        score = self.score
        if not isinstance(score, int | float) or isinstance(score, bool) or not 0 <= score <= 1:
            return f"its score is {score!r:.80}, not a number from 0 to 1"
        try:
            msgspec.json.decode(msgspec.json.encode(self), type=Critique)
        except (TypeError, ValueError, RecursionError) as error:
            return f"it cannot be written as JSON and read back ({type(error).__name__})"
        return None


class Critic(Protocol):
    """Judges a text. Any async function of this form will do."""

    async def __call__(self, text: str, /) -> Critique:
        """Return a critique of a text; the text is never empty.

        Never blocks the event loop. May be cancelled at any await.
        """


class Reviser(Protocol):
    """Makes a text better. Any async function of this form will do."""

    async def __call__(self, text: str, critique: Critique, /) -> str:
        """Return the whole text, revised; the same if there is nothing to do.

        Never blocks the event loop. May be cancelled at any await.
        """


def utf8_bytes(text: str) -> int:
    """Return the length of a text in UTF-8; lone surrogates count as three bytes."""
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


# --- a run

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
    """The state of a run after a critique: the argument of `stop`."""

    round: int
    """From 1."""
    text: str
    critique: Critique
    """Of the text."""
    best_text: str
    best_score: float
    best_round: int
    """The round whose text was judged best: the first of equals."""

    @property
    def score(self) -> float:
        """Of the text."""
        return self.critique.score


class Result(Returned, frozen=True, kw_only=True):
    """The outcome of a run: the best text, which need not be the last."""

    text: str
    """The text with the highest score, the earliest of equals."""
    score: float | None
    """None: no text was judged before the run ended."""
    history: tuple[Round | Marker, ...]
    """The rounds that are kept: the first, the last, those with an error, and the newest others;
    markers where others were."""
    metadata: JsonObject
    """`memory_stats`: peak_usage_mb (of the process, 1 MB = 1024 KB), history_entries_evicted,
    total_text_processed (UTF-8 bytes of the texts that were judged), iterations (revisions),
    stopped_because (`StoppedBecause`). `episode_id`, if the run was recorded."""


# --- events


class Started(Returned, frozen=True, kw_only=True, tag="started"):
    """A run began."""

    text_bytes: int
    max_iterations: int
    episode_id: str | None = None
    """The episode in which it is recorded."""


class Critiqued(Returned, frozen=True, kw_only=True, tag="critiqued"):
    """The critic judged the text."""

    round: int
    critique: Critique
    cut: bool
    """It was longer than `max_critique_length`."""


class Scored(Returned, frozen=True, kw_only=True, tag="scored"):
    """The score of the text that was just judged, beside the best so far."""

    round: int
    score: float
    best_score: float
    best_round: int


class Revised(Returned, frozen=True, kw_only=True, tag="revised"):
    """The reviser gave a text; it is judged in the next round."""

    round: int
    text: str
    changed: bool


class Evicted(Returned, frozen=True, kw_only=True, tag="evicted"):
    """A round left the history."""

    round: int
    sha256: str
    """Hex, of its revised text as UTF-8."""
    size_bytes: int


class Warned(Returned, frozen=True, kw_only=True, tag="warning"):
    """Something is not as it should be; the run goes on."""

    round: int
    message: str


class Failed(Returned, frozen=True, kw_only=True, tag="error"):
    """The run ends with an error, which is raised next."""

    error: str
    """Its type."""
    message: str
    result: Result
    """The best text so far, and its rounds."""


class Finished(Returned, frozen=True, kw_only=True, tag="finished"):
    """The run came to its end."""

    result: Result


Event: TypeAlias = Started | Critiqued | Scored | Revised | Evicted | Warned | Failed | Finished
