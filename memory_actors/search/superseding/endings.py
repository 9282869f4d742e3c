"""A clause that denies another one, or says that it has ended."""

import re
from collections.abc import Iterator
from typing import Final

from memory_actors.search.superseding.clauses import Clause, Token, content, is_be
from memory_actors.search.superseding.frames import is_event
from memory_actors.search.superseding.lexicon import DISLIKING, HAVING, LIKING, word_set

_STOPPED: Final = re.compile(
    r"(?:has |have )?(?P<how>stopped|quit|ceased|abandoned|gave up|given up|decided against"
    r"|cancell?ed|lost interest in|outgrew|grew out of|got over|dropped out of) (?P<v>.+)"
)
_GONE: Final = re.compile(
    r"(?:has |have )?(?:(?:sold|got rid of|gave away|given away|returned|lost|scrapped) (?P<v>.+)"
    r"|gave (?P<v2>.+) away)"
)
_EMPTY: Final = word_set("have want like work use take do plan decid live")
_SAME: Final = {"subscript": "subscrib", "membership": "member"}
_RENAMED: Final = frozenset((*_SAME, *_SAME.values()))
_PAPERS: Final = word_set("subscrib member plan contract order book")


def ended(before: Clause, after: Clause) -> str:
    """Say how a clause denies the other one; "" if it does not."""
    said = _about(before.words) | content(before.noun)
    if is_event(before):
        return ""  # what happened has happened
    denied = _denied(before, after)
    if denied and denied - _EMPTY and denied <= said and not before.ended and not before.negated:
        return "no longer: " + " ".join(word.raw for word in after.words)
    if _taste(before) * _taste(after) < 0 and _objects(before) == _objects(after) != frozenset():
        return "the opposite: " + " ".join(word.raw for word in after.words)
    if before.noun or after.noun or before.negated == after.negated or before.ended:
        return ""
    resumed = before.negated and (after.again or after.now)
    same = _about(after.words) == _about(before.words) and bool(_about(after.words) - _EMPTY)
    if same and (before.words[0].stem == after.words[0].stem or resumed or is_be(after.words[0])):
        return "the opposite: " + " ".join(word.raw for word in after.words)
    return ""


_ANYTHING: Final = (Token("has", "has", "has"), Token("member", "member", "member"))
"""Words of a clause that whatever may be denied is denied of."""


def needed_to_end(after: Clause) -> Iterator[frozenset[str]]:
    """Yield the stems that a clause has, if this one denies it."""
    anything = after._replace(noun=(), words=_ANYTHING)
    for about in (_denied(anything, after), _objects(after) if _taste(after) else frozenset()):
        if about - _EMPTY:
            yield about - _RENAMED
    about = _about(after.words)
    if not after.noun and about - _EMPTY:
        yield about - _RENAMED


def _taste(clause: Clause) -> int:
    """Return 1 for what somebody likes, -1 for what they do not, 0 for anything else."""
    verb = clause.words[0].low
    taste = (verb in LIKING) - (verb in DISLIKING)
    return -taste if clause.negated or clause.ended else taste


def _objects(clause: Clause) -> frozenset[str]:
    return content(clause.words[1:])


_MEMBER: Final = word_set("member belong belongs attends attend sings plays volunteers part")


def _denied(before: Clause, after: Clause) -> frozenset[str]:
    """Return what a clause says is no longer so; nothing if it says no such thing."""
    if after.ended:
        return _about(after.words) | content(after.noun)
    if before.noun or after.noun or (after.negated and after.words[0].low != "decided"):
        return frozenset()
    if matched := _STOPPED.fullmatch(after.said):
        if matched["v"].split()[0] in ("at", "by", "in", "for", "to", "off"):
            return frozenset()
        about = _about(after.words[len(matched["how"].split()) :])
        return (about - _PAPERS or about) if matched["how"].startswith("cancel") else about
    if after.negated and after.words[0].low == "decided":
        return _about(after.words[1:])
    left = after.words[0].low in ("left", "quit")
    if left and _MEMBER & {word.low for word in before.words}:
        return _about(after.words[1:])
    if (matched := _GONE.fullmatch(after.said)) and before.words[0].low in HAVING:
        start = after.said[: matched.start("v" if matched["v"] else "v2")].count(" ")
        return _about(after.words[start:])
    return frozenset()


def _about(words: tuple[Token, ...]) -> frozenset[str]:
    return frozenset(_SAME.get(stem, stem) for stem in content(words))
