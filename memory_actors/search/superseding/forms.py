"""The forms in which one clause says otherwise than another, and the words that this needs.

A frame: two clauses are the same but for what changes, or have the same verb and say that it is
otherwise now. An ending denies the other clause, or says that it has ended. An exchange puts a new
value in the place of an older one: "from X to Y", "Y instead of X", "to Y".
"""

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from memory_actors.search.indexes.words import STOP_WORDS, stems
from memory_actors.search.patterns import pattern
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
from memory_actors.search.superseding.values import Claim, Value, changes, differ, value

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


_LEVEL: Final = pattern(r"[a-z]\d", re.ASCII)
"""A level of a language: B1."""


def _class_of(word: Token) -> str:
    """Return the class of words that may replace a word."""
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
    """Return the newer way in which somebody does the same, or "".

    The verb is the same, with the same object or in the same manner:
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


# --- endings

_STOPPED: Final = pattern(
    r"(?:has |have )?(?P<how>stopped|quit|ceased|abandoned|gave up|given up|decided against"
    r"|cancell?ed|lost interest in|outgrew|grew out of|got over|dropped out of) (?P<v>.+)"
)
_GONE: Final = pattern(
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
    """Return the words that a clause says are no longer true; empty if it says no such thing."""
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


# --- exchanges

_FROM: Final = pattern(
    r"(?:has |have )?(?:switched|changed|moved|went|transferred|upgraded|migrated) from (?P<v>.+?)"
    r" to (?P<to>.+)|(?:has |have )?(?:replaced|swapped|traded|traded in|exchanged) (?P<v2>.+?)"
    r" (?:with|for|by) (?P<to2>.+)"
)
_RATHER: Final = pattern(r"(?P<to>.+?) (?:instead of|rather than|over|and not) (?P<v>.+)")
_TO: Final = pattern(
    r"(?:(?:has|have|was|were|been) )*(?:switched|upgraded|changed|migrated|converted|updated)"
    r" to (?P<to>.+)"
)


def exchanged(before: Clause, after: Clause, claims: list[Claim]) -> str:
    """Return the replacement of the older clause's value; "" if there is none."""
    if before.negated or before.ended or not (is_present(before) or before.words[0].low in TASTES):
        return ""
    if named := _named(after):
        gone, fresh = named
        said = content(before.words) | content(before.noun)
        if fresh - gone <= said:
            return ""
        return f"instead of {' '.join(sorted(gone))}" if gone and gone <= said else ""
    matched = _TO.fullmatch(after.said)
    if matched and not (
        after.noun and [w.stem for w in after.noun] != [w.stem for w in before.noun]
    ):
        return _of_its_kind(before, after, matched, claims)
    return ""


def needed_to_exchange(after: Clause) -> Iterator[frozenset[str]]:
    """Yield the stems that a clause has, if this one says what took its place; none: any may."""
    if named := _named(after):
        yield named[0]
    elif _TO.fullmatch(after.said):
        yield frozenset(word.stem for word in after.noun)


def _named(after: Clause) -> tuple[frozenset[str], frozenset[str]] | None:
    """Return the old and the new value of a clause that names both."""
    matched = _FROM.fullmatch(after.said)
    if matched is None and (after.now or after.words[0].low in ("prefer", "prefers")):
        matched = _RATHER.fullmatch(after.said)
    if matched is None:
        return None
    groups = matched.groupdict()
    gone, fresh = groups["v"] or groups.get("v2"), groups["to"] or groups.get("to2")
    return content_of(gone or "", after), content_of(fresh or "", after)


def _shares_a_head(before: Clause, new: Value) -> bool:
    """Say whether a value is another one of the same: "the pro tier", "Ubuntu 24.04"."""
    words = [word for word in new.words if not changes(word)]
    return (
        bool(words)
        and words[-1].stem in content(before.words)
        and not (new.content <= content(before.words))
    )


def content_of(said: str, clause: Clause) -> frozenset[str]:
    """Return the stems of some words of a clause."""
    lows = set(said.split())
    return content([word for word in clause.words if word.low in lows])


def _of_its_kind(
    before: Clause, after: Clause, matched: "re.Match[str]", claims: list[Claim]
) -> str:
    """Return X of "switched to X" if the older fact names the same kind of thing."""
    start = after.said[: matched.start("to")].count(" ")
    new = value(after.words[start:])
    uses = before.words[0].low in ("use", "uses") and new.kind in ("thing", "name")
    if uses or _shares_a_head(before, new):
        return f"{' '.join(w.raw for w in before.words[1:])} -> {new.text}"
    if not claims:
        return ""
    claim = claims[0]
    fits = claim.holds and claim.attribute != "residence" and differ(claim.value, new)
    return f"{claim.attribute}: {claim.value.text} -> {new.text}" if fits and before else ""


# --- the words that an older fact must have, so that a newer one can say otherwise
#
# Reading a fact takes 70 us, and most of those near a new one have nothing in common with it that
# could change. The words that a form finds in both are therefore looked up in the keyword index,
# and only the facts that have them are read. A word too few is a fact that is read in vain; a word
# too many would be a change that is missed: so whatever the index may spell otherwise is left out.

THEY: Final = ("they",)
"""A fact about "they": nobody can tell who they are."""
_SPELT_OTHERWISE: Final = frozenset(
    stems([*STOP_WORDS, "favourite", "favour", "colour", "neighbour"])
)
"""Not in the index, or in American spelling there."""

UNIT_LETTERS: Final = 2  # km, pm, k: the index may join one to its number
NAMES_MAX: Final = 256
"""Of whom facts speak: most of a user's are about a few."""

Words = frozenset[str]


def needed(clauses: Iterable[Clause], claims: Iterable[Claim]) -> tuple[Words, ...] | None:
    """Return the sets of stems one of which an older fact has whole, if it can be meant at all.

    None: any fact may be meant. An empty tuple: none.
    """
    sets = {_indexed(words) for words in (*map(_of_claim, claims), *_of_clauses(clauses))}
    # A fact that has all words of a set has those of each part of it, too.
    return (
        None
        if frozenset() in sets
        else tuple(words for words in sets if not any(part < words for part in sets))
    )


def _of_claim(claim: Claim) -> Words:
    what: list[str] = []
    if claim.attribute.startswith("is "):
        what = stems([claim.attribute.removeprefix("is ")])
    elif claim.attribute.startswith(("cost ", "uses for ")):  # in stems already
        what = claim.attribute.removeprefix("cost ").removeprefix("uses for ").split()
    return _names(claim.who).union(what)


def _of_clauses(clauses: Iterable[Clause]) -> Iterator[Words]:
    for clause in clauses:
        who = _names(clause.who)
        for words in needed_to_exchange(clause):
            yield who | words
        if clause.besides or clause.who == THEY:
            continue
        noun = frozenset(word.stem for word in clause.noun)
        for words in (*needed_to_reframe(clause), *needed_to_do_otherwise(clause)):
            yield who | noun | words
        for words in needed_to_end(clause):
            yield who | words


@lru_cache(NAMES_MAX)
def _names(who: tuple[str, ...]) -> Words:
    return frozenset(stems([one for one in who if one != "self"]))


def _indexed(words: Words) -> Words:
    """Return the stems that are in the keyword index as they are here."""
    return frozenset(
        word
        for word in words
        if len(word) > UNIT_LETTERS and word.isascii() and word.isalpha()
        if word not in _SPELT_OTHERWISE
    )
