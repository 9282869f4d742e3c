"""How much one run may hold, and how long it may go on."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import KIB, MIB
from memory_actors.improve.protocol import Critique, CritiqueFinding, utf8_bytes

CUT: Final = "… [cut]"
"""Stands where a critique was cut."""


class MemoryLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits of a run. Sizes are UTF-8 bytes; 1 KB = 1024 B."""

    max_history_size: int = MIB
    """Of all rounds that are kept: their texts, their critiques, and the markers of those gone."""
    max_critique_length: int = 10 * KIB
    """Of a critique: words and findings. What is longer is cut."""
    max_text_length: int = 100 * KIB
    """Of a text. A longer one is refused, a longer revision too."""
    max_iterations: int = 10
    """Revisions; each is judged, so there is one critique more."""
    soft_limit_bytes: int | None = None
    """Memory of the process from which on a warning comes."""
    hard_limit_bytes: int | None = None
    """Memory of the process beyond which a run ends with `MemoryLimitError`."""


def memory_limits(given: MemoryLimits | Mapping[str, Any] | None) -> MemoryLimits:
    """Return limits from limits, from a mapping of some of them, or the defaults.

    :raises InvalidInputError: neither of the two, an unknown name, or a value that is no whole
        number above 0 (of `max_iterations`: from 0), or too small to hold anything.
    """
    if given is None:
        return MemoryLimits()
    limits = given if isinstance(given, MemoryLimits) else _converted(given)
    for name in MemoryLimits.__struct_fields__:
        _check(name, getattr(limits, name))
    return limits


def _converted(given: object) -> MemoryLimits:
    if not isinstance(given, Mapping):
        raise InvalidInputError(
            f"memory_limits must be MemoryLimits or a mapping of some, not {given!r:.80}"
        )
    known = MemoryLimits.__struct_fields__
    unknown = sorted(str(name) for name in given if name not in known)
    if unknown:
        raise InvalidInputError(
            f"memory_limits has no {', '.join(unknown)}: it takes {', '.join(known)}"
        )
    return MemoryLimits(**given)


def _check(name: str, value: object) -> None:
    if value is None and name.endswith("_bytes"):
        return
    least = {"max_iterations": 0, "max_critique_length": len(CUT.encode())}.get(name, 1)
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInputError(f"{name} must be a whole number from {least}, not {value!r:.80}")


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
    if dropped and text == critique.text:
        text = _noted(text, dropped, bytes_max - sum(finding.size_bytes for finding in kept))
    return Critique(score=critique.score, text=text, findings=tuple(kept))


def _noted(text: str, dropped: int, bytes_max: int) -> str:
    """Return a text with a word about the findings that did not fit, if there is room for it."""
    noted = f"{text} {CUT} {dropped} findings more".strip()
    return noted if utf8_bytes(noted) <= bytes_max else cut(text + CUT, bytes_max)


def cut(text: str, bytes_max: int) -> str:
    """Return a text, or its beginning and a marker; never part of a character."""
    data = text.encode(errors="surrogatepass")
    if len(data) <= bytes_max:
        return text
    head = data[: max(0, bytes_max - len(CUT.encode()))]
    return head.decode(errors="ignore") + CUT
