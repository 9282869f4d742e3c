"""A fact taken apart: its clauses, of whom or what each speaks, and what it says of them. English.

No grammar is needed, as facts are short and alike: somebody, or something of somebody, then a verb.
A text of another form gives no clauses.

    User's new manager is now Tom     who: self   noun: manager   predicate: is Tom     now
    I no longer eat meat              who: self   noun: -         predicate: eat meat   ended
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from memory_actors.kinds.passages import composed
from memory_actors.search.indexes.words import stems
from memory_actors.search.patterns import pattern
from memory_actors.search.superseding.lexicon import (
    BE,
    BESIDES,
    DETERMINERS,
    NEW,
    NOW,
    NUMBERS,
    PASSING,
    PRONOUNS,
    SELF,
    SINGLE,
    STOP,
    word_set,
)

CHARACTERS_MAX: Final = 400
"""A fact is a sentence or two; what is longer is a story, and says many things."""
CLAUSES_MAX: Final = 6
NOUN_TOKENS_MAX: Final = 6

_CONTRACTIONS: Final = (
    (pattern(r"\bcan't\b", re.IGNORECASE), "can not"),
    (pattern(r"\bwon't\b", re.IGNORECASE), "will not"),
    (pattern(r"n't\b", re.IGNORECASE), " not"),
    (pattern(r"\b(i)'m\b", re.IGNORECASE), r"\1 am"),
    (pattern(r"'re\b", re.IGNORECASE), " are"),
    (pattern(r"'ve\b", re.IGNORECASE), " have"),
    (pattern(r"'ll\b", re.IGNORECASE), " will"),
    (pattern(r"\b(he|she|it|that|there|here|who|what)'s\b", re.IGNORECASE), r"\1 is"),
)
_SAID_SO: Final = {
    "cannot": "can not", "any more": "anymore", "these days": "now", "at the moment": "now",
    "as of now": "now", "as of today": "now", "the user": "User",
    **{f"{title}.": title.title() for title in ("dr", "mr", "mrs", "ms", "prof", "st", "jr", "sr")},
}  # fmt: skip
_SAID: Final = pattern(
    rf"\b(?:{'|'.join(map(re.escape, _SAID_SO))})(?<=[\w.])(?!\w)", re.IGNORECASE
)
_TOKEN: Final = pattern(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://\S+"
    r"|[$\u20ac\u00a3\u00a5]|\d+(?:[.,:/]\d+)*%?"
    r"|[^\W\d_]\w*(?:[-'./&]\w+)*|&|[.,;:!?()]"
)
_SPLITS: Final = frozenset(".;!?():")
_JOINS: Final = word_set("but because so although while however since after")
_MAY_END: Final = _SPLITS | _JOINS | {",", "and"}
"""The words before which a clause may end."""
_AUX: Final = word_set("do does did will would can could should must")
_VERBS: Final = word_set(
    "am is are was were has have had lives live works work costs cost pays pay went goes rose "
    "fell changed moved started joined left quit retired weighs weigh drives drive banks uses "
    "use likes like prefers prefer eats eat drinks drink plays play owes owe earns earn expires "
    "expire ends begins starts leaves takes runs measures became becomes switched broke got "
    "married divorced separated stopped gave cancelled canceled sold bought lost studies "
    "reports subscribes smokes resides relocated will does do can could would should no never "
    "not dropped increased decreased decided plans plan wants want wakes goes wears speaks owns "
    "teaches manages hates loves enjoys deploys opens closes meets graduated transferred "
    "upgraded replaced traded swapped dislikes divorced remarried needs keeps sleeps swims swim "
    "cycles cycle walks raised slipped shifted upgraded swapped lowered reduced commutes collects "
    "supports volunteers buys makes serves trains rents hired promoted updated rescheduled "
    "postponed pushed found accepted landed"
)
_NOUNS: Final = word_set("drink plan change use work cost play like lead rent walk run cycle swim")
"""Verbs that are as often nouns: in front of another verb they are."""
_SPELT: Final = (
    ("avor", pattern(r"\b([Ff]av)or(?=[a-z]|\b)", re.ASCII), r"\1our"),
    ("olor", pattern(r"\b([Cc]ol)or(?=[a-z]|\b)", re.ASCII), r"\1our"),
    ("eighbor", pattern(r"\b([Nn]eighb)or(?=[a-z]|\b)", re.ASCII), r"\1our"),
    (": ", pattern(r"(?<=new )([\w -]{2,30}): (?=\S)", re.ASCII), r"\1 is "),
)
"""The part that a text must have, a pattern, and what stands for it."""


class Token(msgspec.Struct, frozen=True, gc=False):
    """A word in its original form and in its normal form."""

    raw: str
    low: str
    stem: str

    @property
    def is_name(self) -> bool:
        """True if it is written like a name."""
        return self.raw[0].isupper()


class Clause(NamedTuple):
    """One clause of a fact."""

    who: tuple[str, ...]
    """Of whom: ("self",), ("ada",), ("self", "mother")."""
    noun: tuple[Token, ...]
    """The thing of theirs that it is about, or None if it is about themselves."""
    words: tuple[Token, ...]
    """The words about that: from the verb on, without those about the time."""
    negated: bool
    ended: bool
    """It says that something is no longer so."""
    now: bool
    """It says that something was otherwise before."""
    again: bool
    besides: bool
    """It says that it holds beside something else."""
    single: bool
    """The noun is one of many, and named as the only one: "my current project"."""
    said: str
    """The words in small letters."""


def clauses(text: str) -> list[Clause]:
    """Return the clauses of a text."""
    if len(text) > CHARACTERS_MAX:
        return []
    found: list[Clause] = []
    for part in _parts(tokens(text)):
        clause = _clause(part, found[-1] if found else None)
        if clause is not None:
            found.append(clause)
    return found[:CLAUSES_MAX]


def tokens(text: str) -> list[Token]:
    """Return the words and marks of a text."""
    plain = composed(text).strip(" \"'")
    if "'" in plain:
        for pattern, instead in _CONTRACTIONS:
            plain = pattern.sub(instead, plain)
    folded = plain.casefold()
    if any(said in folded for said in _SAID_SO):  # rare, and looking for them all takes long
        plain = _SAID.sub(lambda found: _SAID_SO[found[0].casefold()], plain)
    for sign, spelt, instead in _SPELT:
        if sign in plain:
            plain = spelt.sub(instead, plain)
    raws = _TOKEN.findall(plain)
    lows = [raw.casefold() for raw in raws]
    return list(map(Token, raws, lows, stems([low.removesuffix("'s") for low in lows])))


def _parts(words: Sequence[Token]) -> Iterator[list[Token]]:
    part: list[Token] = []
    for place, word in enumerate(words):
        if word.low not in _MAY_END:
            part.append(word)
            continue
        following = words[place + 1] if place + 1 < len(words) else None
        if word.low in _SPLITS or word.low == "," or (part and _joins(word, following)):
            if part:
                yield part
            part = []
        elif part or word.low not in ("and", "so", "but"):
            part.append(word)
    if part:
        yield part


def _joins(word: Token, following: Token | None) -> bool:
    if following is None:
        return False
    if word.low == "since":
        return following.low in ("i", "we", "user", "he", "she", "they", "my")
    if word.low == "and":
        return following.low in _VERBS or following.low.removesuffix("'s") in ("my", "our", "user")
    return word.low in _JOINS


Subject = tuple[tuple[str, ...], tuple[Token, ...], int]
"""The person it is about, the noun of theirs, and the place of the verb."""

# --- one clause


def _clause(part: Sequence[Token], before: Clause | None) -> Clause | None:
    start = 0
    while start < len(part) and part[start].low in PASSING:
        start += 1
    if start == len(part):
        return None
    part, subject = _pair_as_one(part, start)
    subject = subject or _subject(part, start)
    if subject is None and before is not None and part[start].low in _VERBS:
        subject = (before.who, before.noun, start)  # "... and works for a charity"
    if subject is None:
        return None
    who, noun, verb = subject
    front = frozenset(word.low for word in part[:verb])
    return _predicate(who, noun, part[verb:], front)


def _pair_as_one(part: Sequence[Token], start: int) -> tuple[Sequence[Token], Subject | None]:
    """Read "Lukas and I broke up" as "I broke up with Lukas"."""
    if len(part) < start + 4 or part[start + 1].low != "and" or not part[start + 2].is_name:
        return part, None
    one, other = part[start], part[start + 2]
    if not _is_verb(part, start + 3):
        return part, None
    if other.low in SELF:
        one, other = other, one
    who = "self" if one.low in SELF else one.low
    joined = [*part[start + 3 :], Token("with", "with", "with"), other]
    return joined, ((who,), (), 0)


def _subject(part: Sequence[Token], start: int) -> Subject | None:
    """Return the subject: who it is about, the noun of theirs, and the place of the verb."""
    first = part[start]
    if first.low == "they":
        return (("they",), (), start + 1)
    if first.low in PRONOUNS:
        return None
    if first.low in ("i", "we", "user"):
        return (("self",), (), start + 1)
    if first.low in ("my", "our", "the", "user's"):
        return _possessed(part, start + 1, ("self",))
    if first.low.endswith("'s"):
        return _possessed(part, start + 1, (first.low[:-2],))
    return _named(part, start)


def _named(part: Sequence[Token], start: int) -> Subject | None:
    """Return a subject that is a name: some words in capitals, and then a verb."""
    end = start
    while end < len(part) and (part[end].is_name or part[end].low == "&") and end - start < 4:
        if part[end].low.endswith("'s"):
            owner = (*(word.low for word in part[start:end]), part[end].low[:-2])
            return _possessed(part, end + 1, owner)
        end += 1
    names = tuple(word.low for word in part[start:end])
    if not names or end == len(part) or not _is_verb(part, end):
        return None
    return (names, (), end)


def _possessed(part: Sequence[Token], start: int, who: tuple[str, ...]) -> Subject | None:
    """Return a subject that is something of somebody's."""
    for place in range(start, min(len(part), start + NOUN_TOKENS_MAX + 1)):
        if part[place].low.endswith("'s"):
            owner = tuple(word.low for word in part[start:place] if word.low not in NEW)
            return _possessed(part, place + 1, (*who, *owner, part[place].low[:-2]))
        following = part[place + 1].low if place + 1 < len(part) else ""
        if part[place].low in _NOUNS and following in _VERBS:
            continue
        if place > start and _is_verb(part, place):
            noun = tuple(word for word in part[start:place] if word.low not in PASSING | NEW)
            return (who, noun, place) if noun else None
    return None


def _is_verb(part: Sequence[Token], place: int) -> bool:
    low = part[place].low
    if low in _VERBS or low in PASSING or low in _AUX:
        return True
    if part[place].is_name or len(low) < 4 or not low.endswith("s") or low.endswith("ss"):
        return False
    following = part[place + 1].low if place + 1 < len(part) else ""
    return following in _AFTER_VERBS or following in NUMBERS or following[:1].isdigit()


_AFTER_VERBS: Final = word_set("in on at to for from with by a an the my only about up")
_DROPPED: Final = PASSING | {"not", "never", "longer"} | _AUX
"""The words of a predicate that the other fields of a clause tell."""


def _predicate(
    who: tuple[str, ...], noun: tuple[Token, ...], part: Sequence[Token], front: frozenset[str]
) -> Clause | None:
    lows = [word.low for word in part]
    ended = "anymore" in lows or ("no" in lows and "longer" in lows)
    negated = "not" in lows or "never" in lows
    kept = [
        word
        for word, following in zip(part, [*lows, ""][1:], strict=True)
        if (word.low not in _DROPPED or (word.low == "instead" and following == "of"))
        and (word.low != "no" or not ended)
    ]
    if not kept:
        return None
    return Clause(
        who=who,
        noun=noun,
        words=tuple(kept),
        negated=negated and not ended,
        ended=ended,
        now=not (NOW.isdisjoint(front) and NOW.isdisjoint(lows)) or "instead" in lows,
        again="again" in lows,
        besides=not BESIDES.isdisjoint(lows),
        single=bool(front & SINGLE),
        said=" ".join(word.low for word in kept),
    )


# --- what words are about

_SAYS_NOTHING: Final = STOP | DETERMINERS | PASSING | NEW | {".", ",", ""}


def content(words: Sequence[Token]) -> frozenset[str]:
    """Return the stems of the words that say something."""
    return frozenset([word.stem for word in words if word.low not in _SAYS_NOTHING])


def is_be(word: Token) -> bool:
    """Say whether a word is a form of "to be"."""
    return word.low in BE
