"""The records of a run: a critique of a text, rounds, the state, the result, its events and limits.

The tag of an event is its `type` as JSON.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from eventlog.core.records import Returned
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import KIB, MIB
from memory_actors.base.records import JsonObject
from memory_actors.base.validation import check_share
from memory_actors.base.watching import is_async
from memory_actors.improve.bounded import Marker
from memory_actors.observing.monitor import SOFT_AGAIN, MemoryMonitor

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


# --- limits of a run: its texts, the memory of the process, and its end


CUT: Final = "… [cut]"
"""Stands where a critique was cut."""
INTERVAL_S: Final = 0.01
"""Between two readings of the process: one takes some 10 us, a round even of a fast pair a hundred
times that."""

Stop: TypeAlias = Callable[[State], bool] | float | None


_Size: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


class MemoryLimits(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Limits of a run. Sizes are UTF-8 bytes; 1 KB = 1024 B."""

    max_history_size: _Size = MIB
    """The limit for all rounds that are kept: their texts, their critiques, and the markers of
    those gone."""
    max_critique_length: Annotated[int, msgspec.Meta(ge=len(CUT.encode()))] = 10 * KIB
    """Of a critique: words and findings. Longer ones are cut."""
    max_text_length: _Size = 100 * KIB
    """Of a text. A longer one is refused, a longer revision too."""
    max_iterations: Annotated[int, msgspec.Meta(ge=0)] = 10
    """Revisions; each is judged, so there is one critique more."""
    soft_limit_bytes: _Size | None = None
    """Memory of the process from which on a warning comes."""
    hard_limit_bytes: _Size | None = None
    """Memory of the process beyond which a run ends with `MemoryLimitError`."""


def memory_limits(given: MemoryLimits | Mapping[str, Any] | None) -> MemoryLimits:
    """Return limits from limits, from a mapping of some of them, or the defaults.

    :raises InvalidInputError: neither of the two, an unknown name, or a value that is no whole
        number above 0 (of `max_iterations`: from 0), or too small to hold anything.
    """
    if given is not None and not isinstance(given, MemoryLimits | Mapping):
        raise InvalidInputError(
            f"memory_limits must be MemoryLimits or a mapping of some, not {given!r:.80}"
        )
    try:
        return msgspec.convert(msgspec.to_builtins(given or {}), MemoryLimits)
    except (msgspec.ValidationError, TypeError) as error:
        known = ", ".join(MemoryLimits.__struct_fields__)
        raise InvalidInputError(f"memory_limits: {error}. It takes {known}") from error


def within_limit(critique: Critique, bytes_max: int) -> Critique:
    """Return a critique whose texts take at most `bytes_max`: cut, if need be, with a marker.

    The words come first; then as many findings as fit, in their order.
    """
    if critique.size_bytes <= bytes_max:
        return critique
    text = cut(critique.text, bytes_max)
    room = bytes_max - utf8_bytes(text)
    kept: list[CritiqueFinding] = []
    for finding in critique.findings:
        room -= finding.size_bytes
        if room < 0:
            break
        kept.append(finding)
    dropped = len(critique.findings) - len(kept)
    if dropped and text == critique.text:  # a word about what did not fit, if there is room for it
        text_bytes_max = bytes_max - sum(finding.size_bytes for finding in kept)
        noted = f"{text} {CUT} {dropped} findings more".strip()
        fits = utf8_bytes(noted) <= text_bytes_max
        text = noted if fits else cut(text + CUT, text_bytes_max)
    return Critique(score=critique.score, text=text, findings=tuple(kept))


def cut(text: str, bytes_max: int) -> str:
    """Return a text, or its beginning and a marker; never part of a character."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= bytes_max:
        return text
    head = data[: max(0, bytes_max - len(CUT.encode()))]
    return head.decode(errors="ignore") + CUT


# --- the memory of the process


class Watch:
    """Looks at a monitor that others may use too: crossings and peak are this run's own.

    By default it creates its own monitor, with the limits of the run.

    :raises InvalidInputError: a monitor and limits are given, or the soft one is above the hard.
    """

    def __init__(self, limits: MemoryLimits, monitor: MemoryMonitor | None):
        soft, hard = limits.soft_limit_bytes, limits.hard_limit_bytes
        if monitor is not None and (soft is not None or hard is not None):
            raise InvalidInputError("give limits of the process to the monitor or to memory_limits")
        self._monitor = monitor or MemoryMonitor(soft, hard, interval_s=INTERVAL_S)
        self._warned = False
        self._peak_bytes = 0

    def look(self) -> str | None:
        """Return a warning if the soft limit was crossed since the last look.

        :raises MemoryLimitError: the process is over its hard limit.
        """
        now = self._monitor.statistics()
        self._peak_bytes = max(self._peak_bytes, now.current_bytes)
        self._monitor.admit()
        if (soft := now.soft_limit_bytes) is None:
            return None
        used, before = now.current_bytes, self._warned
        self._warned = used > SOFT_AGAIN * soft if before else used >= soft
        if before or not self._warned:
            return None
        return (
            f"the process holds {used / MIB:,.1f} MiB of memory (soft limit: {soft / MIB:,.1f} MiB)"
        )

    @property
    def peak_mb(self) -> float:
        """The most that a look has seen, in MB of 1024 KB."""
        self._peak_bytes = max(self._peak_bytes, self._monitor.current_bytes)
        return round(self._peak_bytes / MIB, 3)


# --- the end


def checked_stop(stop: Stop) -> Stop:
    """Return a target score, a plain function or None, or raise `InvalidInputError`."""
    if callable(stop) and is_async(stop):
        raise InvalidInputError("stop must be a plain function: nobody awaits its answer")
    return stop if stop is None or callable(stop) else check_share(stop, "stop")


def ended_because(
    stop: Stop, patience: int, max_iterations: int, state: State
) -> StoppedBecause | None:
    """Return why a run is over after a critique; None: it goes on."""
    if callable(stop):
        if stop(state):
            return "stop"
    elif state.critique.found_nothing:
        return "nothing_found"
    elif stop is not None and state.score >= stop:
        return "target_reached"
    elif state.round - state.best_round >= patience:
        return "no_rise"
    return "max_iterations" if state.round > max_iterations else None
