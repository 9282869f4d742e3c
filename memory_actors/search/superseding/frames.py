"""Two clauses of one form: the same but for what changes, or the same verb and otherwise now."""

import re
from collections.abc import Iterator
from typing import Final

from memory_actors.search.superseding.clauses import Clause, Token, content, is_be
from memory_actors.search.superseding.lexicon import (
    DISLIKING,
    HAVING,
    LIKING,
    MANY,
    MONTHS,
    PAST,
    TASTES,
    WEEKDAYS,
    word_set,
)
from memory_actors.search.superseding.values import changes

_STANDING: Final = word_set("expires expire ends end starts start begins begin opens closes")


def reframed(before: Clause, after: Clause) -> str:
    """Say how a clause is the same but for numbers, days or months; "" if it is not."""
    if [w.stem for w in before.noun] != [w.stem for w in after.noun] or not is_present(after):
        return ""
    one, other = _without_articles(before), _without_articles(after)
    if len(one) != len(other) or not is_present(before):
        return ""
    if (before.negated, before.ended) != (after.negated, after.ended) or after.ended:
        return ""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a.stem != b.stem]
    if not pairs or not all(_class_of(a) == _class_of(b) != "" for a, b in pairs):
        return ""
    if not all(_may_change(after, other, b) for _, b in pairs):
        return ""
    return f"the same but for {pairs[0][0].raw} -> {pairs[0][1].raw}"


def needed_to_reframe(after: Clause) -> Iterator[frozenset[str]]:
    """Yield the stems, beside those of the noun, of what a clause of the same frame has, too."""
    words = _without_articles(after)
    if is_present(after) and not after.ended and any(map(_class_of, words)):
        yield frozenset(word.stem for word in words if not _class_of(word))


def _without_articles(clause: Clause) -> list[Token]:
    return [word for word in clause.words if word.low not in ("the", "my", "our")]


def is_event(clause: Clause) -> bool:
    """Say whether a clause tells what happened."""
    verb = clause.words[0].low
    return verb in PAST or (verb.endswith("ed") and not verb.endswith("eed"))


def is_present(clause: Clause) -> bool:
    """Say whether a clause is about what is so, and neither an event nor a taste."""
    verb = clause.words[0].low
    return not (is_event(clause) or verb in TASTES or verb.endswith("ing"))


_LEVEL: Final = re.compile(r"[a-z]\d", re.ASCII)
"""A level of a language: B1."""


def _class_of(word: Token) -> str:
    """Return what a word can be exchanged for."""
    if word.low in WEEKDAYS:
        return "day"
    if word.low in MONTHS:
        return "month"
    if _LEVEL.fullmatch(word.low):
        return "level"
    return "number" if changes(word) else ""


def _may_change(clause: Clause, words: list[Token], word: Token) -> bool:
    """Say whether another number or day here means that it has changed, and is no second one."""
    place = next(n for n, one in enumerate(words) if one is word)
    before = words[place - 1].low if place else ""
    if before in ("a", "an") or (words[0].low in ("has", "have") and words[1].low in ("a", "an")):
        return False
    if clause.noun and clause.noun[-1].low in MANY and not clause.now:
        return False
    standing = is_be(words[0]) or words[0].low in _STANDING
    if _class_of(word) == "day" or ":" in word.low or before == "at":
        return clause.now or (bool(clause.noun) and standing)
    return _class_of(word) != "number" or standing or _counts(words, place)


def _counts(words: list[Token], place: int) -> bool:
    """Say whether a number counts what follows it, and is not the label of what is before it."""
    following = words[place + 1].low if place + 1 < len(words) else ""
    last = place + 1 == len(words)
    return place <= 1 or following.isalpha() or (last and is_be(words[place - 1]))


_SHARED: Final = word_set("by at with from in")
"""Prepositions that say what is said of the verb: "commutes by car", "by bike"."""


def otherwise_now(before: Clause, after: Clause) -> str:
    """Say what somebody does otherwise now: the same verb, of the same or in the same way.

    "drinks coffee with milk", "drinks coffee black now"; not "plays chess", "plays the viola now".
    """
    one, other = before.words, after.words
    same = one[0].stem == other[0].stem and [w.stem for w in before.noun] == [
        w.stem for w in after.noun
    ]
    standing = not is_be(one[0]) and one[0].low not in HAVING | LIKING | DISLIKING
    if not (after.now and same and standing and len(one) > 1 and len(other) > 1):
        return ""
    if before.negated or before.ended or after.negated or after.ended or before.now:
        return ""
    kept, fresh = content(one[1:]), content(other[1:])
    alike = bool(kept & fresh) or (one[1].low == other[1].low and one[1].low in _SHARED)
    daily = bool(after.noun) and one[1].low == other[1].low == "to"
    if not (alike or daily) or kept <= fresh or fresh <= kept or is_event(before):
        return ""
    return f"{' '.join(w.raw for w in one)} -> {' '.join(w.raw for w in other)}"


def needed_to_do_otherwise(after: Clause) -> Iterator[frozenset[str]]:
    """Yield the stem of the verb, if a clause says what somebody does otherwise now."""
    if after.now and len(after.words) > 1 and not (after.negated or after.ended):
        yield frozenset((after.words[0].stem,))
