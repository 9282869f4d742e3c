"""Whether a newer fact says otherwise of the same attribute of the same thing. No model; English.

A change that is missed leaves an old fact in its place, a change that is none hides a fact that
holds. So there is no general likeness here, and no threshold to tune: a pair counts if one of these
forms says so, in this order.

- Claims: both say what an attribute with one value is (where somebody lives, whom they work for,
  what something of theirs is, what it costs), of the same somebody, and the values exclude each
  other. "no longer", "left", "broke up" say that a value is none any more.
- Frames: word by word the same, but for numbers, days or months, in the present: "runs 20 km a
  week" and "runs 35 km a week". "Ran 7 km" is an event: another run says nothing of it.
- Endings: what the older one says is denied ("does not like"), or has stopped, been given up, sold.
- Exchanges: "switched from Triodos to Monzo", "tea instead of coffee" name what held before.

The last form is weak: of all that it fits, only the nearest is meant. So is "switched to an
iPhone", which names no attribute at all: what is meant is the nearest claim of that form.
"""

import re
from itertools import product
from typing import Final, NamedTuple

from memory_actors.superseding.claims import Claim, claims
from memory_actors.superseding.clauses import Clause, Token, clauses, content, is_be
from memory_actors.superseding.lexicon import (
    MANY,
    MONTHS,
    NUMBERS,
    ORDINALS,
    WEEKDAYS,
    word_set,
)
from memory_actors.superseding.values import differ, value


class Evidence(NamedTuple):
    """Why a newer fact says otherwise."""

    form: str
    weak: bool = False
    """It counts for the nearest fact alone."""


class Reading(NamedTuple):
    """What can be read of a fact."""

    clauses: list[Clause]
    claims: list[Claim]

    @property
    def says_anything(self) -> bool:
        """Whether it may be compared at all."""
        return bool(self.clauses)


def read(text: str) -> Reading:
    """Return what can be read of a fact."""
    found = clauses(text)
    return Reading(found, [claim for clause in found for claim in claims(clause)])


def evidence(older: Reading, newer: Reading) -> Evidence | None:
    """Return why the newer fact says otherwise than the older one; None if it does not."""
    for new, old in product(newer.claims, older.claims):
        if _excludes(old, new, newer):
            return Evidence(f"{new.attribute}: {_shown(old)} -> {_shown(new)}")
    for after, before in product(newer.clauses, older.clauses):
        if after.who != before.who or before.besides or after.besides:
            continue
        form = _reframed(before, after) or _ended(before, after)
        if form:
            return Evidence(form)
    for after, before in product(newer.clauses, older.clauses):
        if after.who == before.who and (form := _exchanged(before, after, older)):
            return Evidence(form, weak=True)
    return None


def _shown(claim: Claim) -> str:
    return ("" if claim.holds else "not ") + (claim.value.text or "any")


# --- claims

_STATES: Final = frozenset({"partner", "employer", "diet"})
"""Attributes that say how things stand also where they have no value."""


def _excludes(old: Claim, new: Claim, newer: Reading) -> bool:
    if old.who != new.who:
        return False
    if old.attribute != new.attribute:
        return _eats(old, new)
    if old.attribute == "partner":
        return _other_partner(old, new)
    if old.attribute in ("residence", "vehicle") and old.holds and new.holds:
        return _moved(old, new)
    if not _same_noun(old, new, newer):
        return False
    if old.holds and new.holds:
        return differ(old.value, new.value)
    said = bool(old.value.content & new.value.content)
    if old.holds:
        return said or not new.value.words
    return new.holds and (said or old.attribute in _STATES or new.changed)


def _eats(old: Claim, new: Claim) -> bool:
    """Say whether somebody with a diet eats what it forbids."""
    diet, food = old.attribute == "diet", new.attribute == "animal food"
    return diet and food and old.holds and new.holds


def _other_partner(old: Claim, new: Claim) -> bool:
    same = bool(old.value.content & new.value.content)
    if old.holds and new.holds:
        return not same or (
            "rung 0" not in (old.value.kind, new.value.kind) and (old.value.kind < new.value.kind)
        )
    return new.holds if not old.holds else same or not new.value.content


def _moved(old: Claim, new: Claim) -> bool:
    """Say whether a place is another one of its kind; who moves leaves what contains it, too."""
    one, other = old.value, new.value
    if one.content <= other.content or other.content <= one.content:
        return False
    return one.kind == other.kind or (new.changed and "dwelling" not in (one.kind, other.kind))


def _same_noun(old: Claim, new: Claim, newer: Reading) -> bool:
    """Say whether two nouns name the same thing: "my tutor" may be "my German tutor"."""
    if old.stems == new.stems:
        return True
    names = {word.stem for clause in newer.clauses for word in clause.words}
    names |= {one for clause in newer.clauses for one in clause.who}
    mentioned = any(word.stem in names for word in old.value.words if word.is_name)
    within = old.stems <= new.stems or new.stems <= old.stems
    return within and (new.changed or mentioned)


# --- frames

_PAST: Final = word_set(
    "was were had did ran went got took came gave made met ate drank slept spent won lost wrote "
    "flew drove swam saw heard told said bought sold paid read put cut hit set let left sent "
    "built caught rode sang stood thought threw woke wore began broke chose fell felt found "
    "forgot held kept knew led lent rose taught understood beat cost"
)
_TASTES: Final = word_set(
    "like likes love loves enjoy enjoys hate hates dislike dislikes know knows remember "
    "remembers speak speaks visit visits want wants need needs think thinks watch watches see "
    "sees attend attends avoid avoids recommend recommends"
)
_STANDING: Final = word_set("expires expire ends end starts start begins begin opens closes")


def _reframed(before: Clause, after: Clause) -> str:
    """Say how a clause is the same but for numbers, days or months; "" if it is not."""
    if [w.stem for w in before.noun] != [w.stem for w in after.noun] or not _is_present(after):
        return ""
    one, other = _without_articles(before), _without_articles(after)
    if len(one) != len(other) or not _is_present(before):
        return ""
    if (before.negated, before.ended) != (after.negated, after.ended) or after.ended:
        return ""
    pairs = [(a, b) for a, b in zip(one, other, strict=True) if a.stem != b.stem]
    if not pairs or not all(_class_of(a) == _class_of(b) != "" for a, b in pairs):
        return ""
    if not all(_may_change(after, other, b) for _, b in pairs):
        return ""
    return f"the same but for {pairs[0][0].raw} -> {pairs[0][1].raw}"


def _without_articles(clause: Clause) -> list[Token]:
    return [word for word in clause.words if word.low not in ("the", "my", "our")]


def _is_present(clause: Clause) -> bool:
    verb = clause.words[0].low
    return not (verb in _PAST or verb in _TASTES or verb.endswith(("ed", "ing")))


def _class_of(word: Token) -> str:
    """Return what a word can be exchanged for."""
    if word.low in WEEKDAYS:
        return "day"
    if word.low in MONTHS:
        return "month"
    if word.low in ORDINALS or word.low in NUMBERS or word.low[0].isdigit():
        return "time" if ":" in word.low else "number"
    return ""


def _may_change(clause: Clause, words: list[Token], word: Token) -> bool:
    """Say whether another number or day here means that it has changed, and is no second one."""
    place = next(n for n, one in enumerate(words) if one is word)
    before = words[place - 1].low if place else ""
    if before in ("a", "an") or (words[0].low in ("has", "have") and words[1].low in ("a", "an")):
        return False
    if clause.noun and clause.noun[-1].low in MANY and not clause.now:
        return False
    standing = is_be(words[0]) or words[0].low in _STANDING
    if _class_of(word) in ("day", "time") or before == "at":
        return clause.now or (bool(clause.noun) and standing)
    return _class_of(word) != "number" or standing or _counts(words, place)


def _counts(words: list[Token], place: int) -> bool:
    """Say whether a number counts what follows it, and is not the label of what is before it."""
    following = words[place + 1].low if place + 1 < len(words) else ""
    last = place + 1 == len(words)
    return place <= 1 or following.isalpha() or (last and is_be(words[place - 1]))


# --- endings

_STOPPED: Final = re.compile(
    r"(?:has |have )?(?P<how>stopped|quit|ceased|abandoned|gave up|given up|decided against"
    r"|cancell?ed|lost interest in|outgrew|grew out of|got over|dropped out of) (?P<v>.+)"
)
_GONE: Final = re.compile(
    r"(?:has |have )?(?:sold|got rid of|gave away|given away|returned|lost|scrapped) (?P<v>.+)"
)
_HAVING: Final = word_set("has have own owns drive drives ride rides keep keeps use uses")
_EMPTY: Final = word_set("have want like work use take do plan decid live")
_SAME: Final = {"subscript": "subscrib", "membership": "member"}
_PAPERS: Final = word_set("subscrib member plan contract order book")


def _ended(before: Clause, after: Clause) -> str:
    """Say how a clause denies the other one; "" if it does not."""
    said = _about(before.words) | content(before.noun)
    denied = _denied(before, after)
    if denied and denied - _EMPTY and denied <= said and not before.ended and not before.negated:
        return "no longer: " + " ".join(word.raw for word in after.words)
    if before.noun or after.noun or before.negated == after.negated or before.ended:
        return ""
    resumed = before.negated and (after.again or after.now)
    same = _about(after.words) == _about(before.words) and bool(_about(after.words) - _EMPTY)
    if same and (before.words[0].stem == after.words[0].stem or resumed or is_be(after.words[0])):
        return "the opposite: " + " ".join(word.raw for word in after.words)
    return ""


def _denied(before: Clause, after: Clause) -> frozenset[str]:
    """Return what a clause says is no longer so; nothing if it says no such thing."""
    if after.ended:
        return _about(after.words) | content(after.noun)
    if before.noun or after.noun:
        return frozenset()
    if matched := _STOPPED.fullmatch(after.said):
        if matched["v"].split()[0] in ("at", "by", "in", "for", "to", "off"):
            return frozenset()
        about = _about(after.words[len(matched["how"].split()) :])
        return (about - _PAPERS or about) if matched["how"].startswith("cancel") else about
    if after.negated and after.words[0].low == "decided":
        return _about(after.words[1:])
    if (matched := _GONE.fullmatch(after.said)) and before.words[0].low in _HAVING:
        start = after.said[: matched.start("v")].count(" ")
        return _about(after.words[start:])
    return frozenset()


def _about(words: tuple[Token, ...]) -> frozenset[str]:
    return frozenset(_SAME.get(stem, stem) for stem in content(words))


# --- exchanges

_FROM: Final = re.compile(
    r"(?:has |have )?(?:switched|changed|moved|went|transferred|upgraded|migrated) from (?P<v>.+?)"
    r" to (?P<to>.+)|(?:has |have )?(?:replaced|swapped|traded|traded in|exchanged) (?P<v2>.+?)"
    r" (?:with|for|by) (?P<to2>.+)"
)
_RATHER: Final = re.compile(r"(?P<to>.+?) (?:instead of|rather than|over|and not) (?P<v>.+)")
_TO: Final = re.compile(
    r"(?:has |have )?(?:switched|upgraded|changed|migrated|converted) to (?P<to>.+)"
)


def _exchanged(before: Clause, after: Clause, older: Reading) -> str:
    """Say what took the place of what the older clause says; "" for nothing."""
    if before.negated or before.ended or not _is_present_or_taste(before):
        return ""
    matched = _FROM.fullmatch(after.said)
    rather = None if matched or not (after.now or " over " in after.said) else _RATHER
    matched = matched or (rather.fullmatch(after.said) if rather else None)
    if matched:
        gone = content_of(matched["v"] or matched.groupdict().get("v2") or "", after)
        said = content(before.words) | content(before.noun)
        return f"instead of {' '.join(sorted(gone))}" if gone and gone <= said else ""
    if (matched := _TO.fullmatch(after.said)) and not after.noun:
        return _of_its_kind(before, after, matched, older)
    return ""


def _is_present_or_taste(clause: Clause) -> bool:
    return _is_present(clause) or clause.words[0].low in _TASTES


def content_of(said: str, clause: Clause) -> frozenset[str]:
    """Return the stems of some words of a clause."""
    lows = set(said.split())
    return content([word for word in clause.words if word.low in lows])


def _of_its_kind(before: Clause, after: Clause, matched: "re.Match[str]", older: Reading) -> str:
    """Say what was switched to, if the older fact says what something of that form is."""
    if not older.claims:
        return ""
    start = after.said[: matched.start("to")].count(" ")
    new = value(after.words[start:])
    claim = older.claims[0]
    fits = claim.holds and claim.attribute != "residence" and differ(claim.value, new)
    return f"{claim.attribute}: {claim.value.text} -> {new.text}" if fits and before else ""
