"""Claims and their values: how one is read out of a clause, and whether two values differ."""

from collections.abc import Sequence
from re import Match
from typing import Final, NamedTuple

from memory_actors.search.superseding.clauses import Clause, Token, content
from memory_actors.search.superseding.lexicon import (
    COUNTRIES,
    DETERMINERS,
    DWELLINGS,
    MONEY,
    MONTHS,
    NUMBERS,
    ORDINALS,
    PERIODS,
    PROFESSIONS,
    WEEKDAYS,
    word_set,
)

VALUE_TOKENS_MAX: Final = 12
_CUTS: Final = word_set("and for because since with as after until when than")
_POINTS: Final = word_set("in on at by until from around")
_PLACED: Final = word_set("in on at near under behind next inside outside")


class Value(NamedTuple):
    """The words of a value, and what kind of thing they are."""

    words: tuple[Token, ...]
    kind: str
    """number, date, day, place, region, dwelling, profession, name, thing, where, …"""

    @property
    def content(self) -> frozenset[str]:
        """The stems of what it says."""
        return content(self.words)

    @property
    def text(self) -> str:
        """The words."""
        return " ".join(word.raw for word in self.words)


def value(words: Sequence[Token]) -> Value:
    """Return a value; what says why or since when is cut off."""
    kept: list[Token] = []
    if len(words) > VALUE_TOKENS_MAX or (len(words) > 1 and words[0].low.endswith("ed")):
        return Value(tuple(words), "none")  # a story, or what was done: "operated by the state"
    for word in words:
        if kept and word.low in _CUTS:
            break
        kept.append(word)
    if len(kept) > 1 and kept[0].low in _POINTS and changes(kept[1]):
        kept = kept[1:]  # "at 9:30", "in March"
    return Value(tuple(kept), _kind(kept))


def is_number(word: Token) -> bool:
    """Say whether a word is a number."""
    return word.low[0].isdigit() or word.low in NUMBERS


def changes(word: Token) -> bool:
    """Say whether a word is what changes from one time to another: a number, a day, a month."""
    return is_number(word) or word.low in MONTHS or word.low in WEEKDAYS or word.low in ORDINALS


def _kind(words: Sequence[Token]) -> str:
    lows = [word.low for word in words]
    if not words:
        return "none"
    if any(low in MONTHS for low in lows):
        return "date"
    if any(low in WEEKDAYS for low in lows):
        return "day"
    if lows[0] in _PLACED:
        return "where"
    counted = is_number(words[0]) or lows[0] in MONEY
    if counted and not any(word.is_name for word in words):
        return "number"
    if any(low in PROFESSIONS for low in lows):
        return "profession"
    if any(
        word.is_name or "@" in word.low or "-" in word.low or any(one.isdigit() for one in word.low)
        for word in words
    ):
        return "name"
    return "thing" if lows[0] in DETERMINERS else "quality"


def place_kind(words: Sequence[Token]) -> str:
    """Return the kind of the named place: a dwelling, a region or a place in one; "" for none."""
    lows = [word.low for word in words]
    if any(low in DWELLINGS for low in lows):
        return "dwelling"
    names = [word for word in words if word.is_name]
    if not names:
        return ""
    return "region" if names[-1].low in COUNTRIES and len(names) <= 2 else "place"


_ALIKE: Final = ({"name", "thing"},)


def differ(older: Value, newer: Value) -> bool:
    """Say whether two values of one attribute exclude each other: of one kind, and none in other.

    "a bank" and "a bank in Leeds" do not: one says more.
    """
    if older.kind != newer.kind and {older.kind, newer.kind} not in _ALIKE:
        return False
    if older.kind in ("none", "quality"):
        return False
    if older.kind == "where" and older.words[0].low != newer.words[0].low:
        return False
    one, other = older.content, newer.content
    if older.kind in ("number", "date", "day"):
        return one != other and units(older.words) == units(newer.words)
    return bool(one and other) and not one <= other and not other <= one


def units(words: Sequence[Token]) -> frozenset[str]:
    """Return the stems of what is counted, without the numbers."""
    skipped = MONEY | PERIODS
    said = [word for word in words if not changes(word) and word.low not in skipped]
    return content(said)


# --- claims


class Claim(NamedTuple):
    """An attribute of somebody, and what it is."""

    who: tuple[str, ...]
    attribute: str
    value: Value
    holds: bool = True
    """False: it says that this is no longer so, or not so."""
    changed: bool = False
    """It says that it was otherwise before."""
    stems: frozenset[str] = frozenset()
    """The stems of the noun, if the attribute is one."""
    many: bool = False
    """There may be several of it: only what says that it has changed means the same one."""


NOTHING: Final = Value((), "none")


def rest(clause: Clause, matched: Match[str], group: str = "v") -> list[Token]:
    """Return the words of a group of a match in what a clause says."""
    start, end = matched.span(group)
    found, at = [], 0
    for word in clause.words:
        if start <= at < end:
            found.append(word)
        at += len(word.low) + 1
    return found


def claim_of(clause: Clause, attribute: str, words: Value, **more: bool) -> Claim:
    """Return the claim of a clause, whose `holds` and `changed` are the clause's by default."""
    holds = more.get("holds", not (clause.negated or clause.ended))
    changed = more.get("changed", False) or clause.now or clause.again
    return Claim(clause.who, attribute, words, holds, changed)
