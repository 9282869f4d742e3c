"""Attributes of things: a price, and somebody's own: "my manager is Tom". English."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from memory_actors.search.superseding.claim import Claim, claim_of, rest
from memory_actors.search.superseding.clauses import Clause, Token, content, is_be
from memory_actors.search.superseding.lexicon import (
    CHOICES,
    MANY,
    MONEY,
    NEW,
    word_set,
)
from memory_actors.search.superseding.people import job
from memory_actors.search.superseding.values import Value, value

# --- prices

_COSTS: Final = re.compile(r"(?:now )?costs? (?P<v>.+)")
_TAKES: Final = re.compile(r"(?:take|takes|taking) (?P<v>\d\S* \w+) of (?P<for>.+)")
_PAYS: Final = re.compile(r"(?:pay|pays|paying) (?P<v>.+?) (?:for|of|in|on) (?P<for>.+)")


def price(clause: Clause) -> Iterator[Claim]:
    """Read "costs 13 euros", "pays 11 euros for the music subscription"."""
    if clause.noun and (matched := _COSTS.fullmatch(clause.said)):
        yield _cost(clause, rest(clause, matched), clause.noun)
    elif not clause.noun and (matched := _PAYS.fullmatch(clause.said)):
        yield _cost(clause, rest(clause, matched), rest(clause, matched, "for"))
    elif not clause.noun and (matched := _TAKES.fullmatch(clause.said)):
        of_what = _amount(rest(clause, matched, "for"))
        dose = [Token("dose", "dose", "dose"), *of_what]
        claim = claim_of(clause, f"is {of_what[-1].low}", value(rest(clause, matched)))
        yield claim._replace(stems=content(dose))


def _cost(clause: Clause, amount: Sequence[Token], what: Sequence[Token]) -> Claim:
    return claim_of(clause, f"cost {_key(what)}", Value(_amount(amount), "number"))


def _amount(words: Sequence[Token]) -> tuple[Token, ...]:
    end = next((n for n, w in enumerate(words) if w.low in ("a", "an", "each", "per", "every")), 9)
    return tuple(words[:end])


def _key(words: Sequence[Token]) -> str:
    left_out = {"month", "year", "week", "day"}
    return " ".join(sorted(stem for stem in content(words) if stem not in left_out))


# --- something of somebody's

_IS: Final = re.compile(
    r"(?:(?:is|are|was|were|has|have|will) )?(?:be |been )?(?:"
    r"(?:called|named|renamed(?: to)?|moved(?: back| forward)? to|pushed(?: back)? to"
    r"|postponed (?:to|until)|delayed (?:to|until)|rescheduled (?:to|for)|shifted to|slipped to"
    r"|brought forward to|extended (?:to|until)|changed(?: from .+?)? to"
    r"|(?:went|gone) (?:up|down) to"
    r"|(?:rose|risen|raised|increased|grew|grown|dropped|fell|fallen|reduced|lowered|cut)"
    r"(?: from .+?)? to|became|becomes|set (?:to|at|for)) )?(?P<v>.+)"
)
_CHANGE: Final = re.compile(r".*\b(?:to|until|became|becomes|renamed)\b .*")


_POSITIONS: Final = word_set("job profession occupation position role")


def noun(clause: Clause) -> Iterator[Claim]:
    """Read "my manager is Tom", "the deadline was pushed to 15 October"."""
    if not clause.noun:
        return
    matched = _IS.fullmatch(clause.said)
    if not matched or not (is_be(clause.words[0]) or _changes_by(clause.said, matched)):
        return
    words = rest(clause, matched)
    changed = _changes_by(clause.said, matched)
    if clause.words[0].low in ("was", "were") and not changed:
        return
    found = value(words)
    if clause.noun[-1].low in _POSITIONS or [w.low for w in clause.noun[-2:]] == ["job", "title"]:
        yield from job(clause, [], words, changed=changed)
    else:
        yield _of_noun(clause, found, changed=changed)


def _of_noun(clause: Clause, found: Value, *, changed: bool) -> Claim:
    if any(word.low in MONEY for word in found.words):
        return _cost(clause, found.words, clause.noun)._replace(changed=changed or clause.now)
    noun = content([word for word in clause.noun if word.low not in NEW])
    if found.kind == "quality" and any(word.low in CHOICES for word in clause.noun):
        found = Value(found.words, "name")
    claim = claim_of(clause, f"is {clause.noun[-1].low}", found, changed=changed)
    many = clause.noun[-1].low in MANY and not clause.single
    return claim._replace(stems=noun, many=many)


def _changes_by(said: str, matched: "re.Match[str]") -> bool:
    return _CHANGE.fullmatch(said[: matched.start("v")]) is not None


_CHANGED: Final = re.compile(
    r"(?:has |have )?(?:raised|increased|lowered|cut|reduced|changed|moved|pushed|postponed"
    r"|rescheduled|switched|updated|set|shifted|brought)(?: back| forward)?"
    r" (?:(?:the|my|our|his|her|their) )?(?P<n>.+?)(?: from .+?)? (?:to|until) (?P<v>.+)"
)
_HAS_NEW: Final = re.compile(
    r"(?:has|have|got|bought) (?:a|an) new (?P<n>.+?) (?:is|called|named) (?P<v>.+)"
)


def changed_by(clause: Clause) -> Iterator[Claim]:
    """Read "they raised the rent to 980", "I switched broadband provider to Starlink"."""
    matched = _CHANGED.fullmatch(clause.said)
    has_new = None if matched or clause.noun else _HAS_NEW.fullmatch(clause.said)
    matched = matched or has_new
    if matched:
        noun = tuple(word for word in rest(clause, matched, "n") if word.low not in NEW)
        who = clause.who if has_new else ("self",)
        said = clause._replace(who=who, noun=noun)
        if noun:
            found = value(rest(clause, matched))
            yield _of_noun(said, found, changed=True)
