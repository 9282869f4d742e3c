"""The limits of a run: its texts, the memory of the process, and its end."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeAlias

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import KIB, MIB
from memory_actors.base.validation import check_share
from memory_actors.base.watching import is_async
from memory_actors.improve.records import (
    Critique,
    CritiqueFinding,
    State,
    StoppedBecause,
    utf8_bytes,
)
from memory_actors.observing.monitor import SOFT_AGAIN, MemoryMonitor

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
