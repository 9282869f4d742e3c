"""Attributes of people and things, and the claims that a clause makes of them. English.

An attribute is a name that two clauses share where they speak of the same thing: "residence",
"employer", "is manager", "cost rent". Only attributes that have one value at a time are here: who
likes tea may like coffee, too, but who lives in Glasgow no longer lives in Bristol.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from memory_actors.search.patterns import pattern
from memory_actors.search.superseding.clauses import Clause, Token, content, is_be
from memory_actors.search.superseding.lexicon import (
    ANIMAL_FOOD,
    CHOICES,
    DETERMINERS,
    DIETS,
    MANY,
    MONEY,
    NEW,
    OFFICES,
    PROFESSIONS,
    word_set,
)
from memory_actors.search.superseding.values import (
    NOTHING,
    Claim,
    Value,
    claim_of,
    place_kind,
    rest,
    value,
)

if TYPE_CHECKING:
    import re

# --- where, with whom

_LIVES: Final = pattern(
    r"(?:(?:am|is|are) )?(?:lives?|living|resides?|residing|based|settled) (?:in|at|near) (?P<v>.+)"
)
_MOVED: Final = pattern(
    r"(?:(?:am|is|are|has|have) )?(?:moved|moves?|moving|relocated|relocating|emigrated)"
    r"(?: back| in| over)?(?: from .+?)? (?:to|into) (?P<v>.+)"
)


_HOMES: Final = (
    ["home"],
    ["home", "city"],
    ["home", "town"],
    ["city"],
    ["residence"],
    ["location"],
)


def residence(clause: Clause) -> Iterator[Claim]:
    """Read "lives in Bristol", "moved to Glasgow"."""
    lows = [word.low for word in clause.noun]
    if lows in _HOMES and is_be(clause.words[0]):
        place = value(clause.words[2 if clause.words[1:2] and clause.words[1].low == "in" else 1 :])
        kind = place_kind(place.words)
        if kind:
            yield claim_of(clause, "residence", Value(place.words, kind), changed=clause.now)
    if clause.noun:
        return
    moved = _MOVED.fullmatch(clause.said)
    matched = moved or _LIVES.fullmatch(clause.said)
    if matched:
        place = value(rest(clause, matched))
        kind = place_kind(place.words)
        if kind:
            yield claim_of(clause, "residence", Value(place.words, kind), changed=moved is not None)


# --- work

_WORKS: Final = pattern(
    r"(?:(?:am|is|are|got|has|have|was) )?(?:a )?"
    r"(?P<new>started|starts|joined|hired|new job|job|promoted|found|landed|accepted)?"
    r"(?: ?(?:work|works|working|employed|a new job|a job|new job|job|promoted))*"
    r"(?: (?:at|for|with|by) (?P<at>.+?))?(?: (?:as|to) (?P<as>.+?))?"
    r"(?: (?:at|for|with) (?P<v>.+))?"
)
_WORK_VERBS: Final = word_set("work works working employed job promoted hired")
_LEFT: Final = pattern(
    r"(?:(?:is|was|has|got|has been|have been) )?(?:left|quit|graduated from|resigned from"
    r"|laid off(?: from)?"
    r"|fired(?: from)?|made redundant(?: at| by)?|retired(?: from)?|lost (?:my|his|her|the) job"
    r"(?: at| with)?)(?P<v>(?: .+)?)"
)


def work(clause: Clause) -> Iterator[Claim]:
    """Read "works at Siemens as a tester", "was laid off"."""
    if clause.noun:
        return
    said = clause.said
    if said in ("is unemployed", "am unemployed", "is out of work"):
        yield claim_of(clause, "employer", NOTHING, holds=False)
    if matched := _LEFT.fullmatch(said):
        where = value(rest(clause, matched))
        if where.kind in ("name", "thing", "none"):
            yield claim_of(clause, "employer", where, holds=False)
        return
    matched = _WORKS.fullmatch(said)
    lows = [word.low for word in clause.words]
    if not matched or not (_WORK_VERBS & set(lows) or lows[0] in ("started", "joined")):
        return
    at = rest(clause, matched, "at") if matched["at"] else []
    at = at or (rest(clause, matched) if matched["v"] else [])
    role = rest(clause, matched, "as") if matched["as"] else []
    changed = matched["new"] is not None
    yield from job(clause, at, role, changed=changed)


def job(
    clause: Clause, at: Sequence[Token], role: Sequence[Token], *, changed: bool
) -> Iterator[Claim]:
    """Claim an employer, a position, or both."""
    where, what = value(at), value(role)
    if at and (where.kind == "name" or at[0].low in DETERMINERS):
        yield claim_of(clause, "employer", where, changed=changed)
    if role:
        at_once = Value(what.words, "profession")
        yield claim_of(clause, "position", at_once, changed=changed)


def profession(clause: Clause) -> Iterator[Claim]:
    """Read "is a nurse at the county hospital"."""
    words = clause.words
    if clause.noun or len(words) < 2 or not is_be(words[0]) or words[0].low in ("was", "were"):
        return
    ends = ("at", "for", "with", "of")
    cut = next((n for n, word in enumerate(words) if n and word.low in ends), len(words))
    lows = {word.low for word in words[1:cut]}
    if lows & OFFICES and words[1].low == "the" and clause.who != ("self",):
        holder = tuple(Token(name.title(), name, name) for name in clause.who)
        office = content([*words[1:cut], *words[cut + 1 :]])
        claim = claim_of(clause, f"is {words[cut - 1].low}", Value(holder, "name"))
        yield claim._replace(who=("self",), stems=office)
    if lows & (PROFESSIONS | OFFICES):
        yield from job(clause, words[cut + 1 :], words[1:cut], changed=False)


# --- partners

_TOGETHER: Final = pattern(
    r"(?:(?:am|is|are|got|has|have|been|started) )*(?P<how>dating|seeing|married|engaged"
    r"|in a relationship|together|remarried)(?: (?:to|with))?(?: (?P<v>[^.]+))?"
)
_APART: Final = pattern(
    r"(?:(?:am|is|are|got|has|have|been|just|was|were) )*(?:broke up|broken up|split up|split"
    r"|divorced|separated|widowed|single)(?: (?:from|with) )?(?P<v>.*)"
)
_RUNGS: Final = {"dating": 1, "seeing": 1, "relationship": 1, "engaged": 2, "married": 3}


def partner(clause: Clause) -> Iterator[Claim]:
    """Read "is dating Lukas", "broke up with Lukas", "is single"."""
    said = clause.said
    if clause.noun:
        return
    if matched := _APART.fullmatch(said):
        yield claim_of(clause, "partner", value(rest(clause, matched)), holds=False)
    elif (matched := _TOGETHER.fullmatch(said)) and (said not in ("seeing", "together")):
        with_whom = [w for w in (rest(clause, matched) if matched["v"] else []) if w.is_name]
        if with_whom:
            rung = next((str(n) for word, n in _RUNGS.items() if word in said), "0")
            yield claim_of(clause, "partner", Value(tuple(with_whom), f"rung {rung}"))


def diet(clause: Clause) -> Iterator[Claim]:
    """Read "is vegetarian", "eats fish again"."""
    lows = {word.low for word in clause.words}
    if clause.noun:
        return
    denies = clause.negated or clause.ended or bool(lows & {"stopped", "quit", "gave"})
    named = lows & DIETS
    if named and (is_be(clause.words[0]) or lows & {"went", "turned", "became"}):
        words = tuple(word for word in clause.words if word.low in DIETS)
        yield claim_of(clause, "diet", Value(words, "name"), holds=not denies)
    eats = clause.words[0].low in ("eat", "eats", "eating", "started", "stopped", "went", "is")
    if eats and lows & ANIMAL_FOOD and lows & {"eat", "eats", "eating"}:
        words = tuple(word for word in clause.words if word.low in ANIMAL_FOOD)
        if clause.again or clause.now or denies or "started" in lows:
            yield claim_of(clause, "animal food", Value(words, "name"), holds=not denies)


# --- one thing at a time

_ONE: Final = (
    ("vehicle", pattern(r"(?:am |is |are )?(?:drives?|driving) (?P<v>(?:a|an|the|my) .+)")),
    ("bank", pattern(r"(?:am |is |are )?(?:banks?|banking) (?:with|at) (?P<v>.+)")),
    ("studies", pattern(r"(?:am |is |are )?(?:study|studies|studying) (?P<v>.+)")),
    ("boss", pattern(r"(?:reports?|reporting) to (?P<v>.+)")),
)  # fmt: skip
_USES: Final = pattern(r"(?:use|uses|using) (?P<v>.+?) (?P<r>as|for) (?P<for>.+)")


def one_at_a_time(clause: Clause) -> Iterator[Claim]:
    """Read what people have one of at a time: "drives a Tesla", "banks with Monzo"."""
    if clause.noun:
        return
    for attribute, said in _ONE:
        if matched := said.fullmatch(clause.said):
            found = value(rest(clause, matched))
            if found.kind in ("where", "none"):
                continue
            yield claim_of(clause, attribute, Value(found.words, "thing"))
    if matched := _USES.fullmatch(clause.said):
        purpose = " ".join(sorted(content(rest(clause, matched, "for"))))
        yield claim_of(clause, f"uses for {purpose}", Value(tuple(rest(clause, matched)), "name"))


# --- prices

_COSTS: Final = pattern(r"(?:now )?costs? (?P<v>.+)")
_TAKES: Final = pattern(r"(?:take|takes|taking) (?P<v>\d\S* \w+) of (?P<for>.+)")
_PAYS: Final = pattern(r"(?:pay|pays|paying) (?P<v>.+?) (?:for|of|in|on) (?P<for>.+)")


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
    stems = content(what) - {"month", "year", "week", "day"}
    return claim_of(clause, f"cost {' '.join(sorted(stems))}", Value(_amount(amount), "number"))


def _amount(words: Sequence[Token]) -> tuple[Token, ...]:
    end = next((n for n, w in enumerate(words) if w.low in ("a", "an", "each", "per", "every")), 9)
    return tuple(words[:end])


# --- something of somebody's

_IS: Final = pattern(
    r"(?:(?:is|are|was|were|has|have|will) )?(?:be |been )?(?:"
    r"(?:called|named|renamed(?: to)?|moved(?: back| forward)? to|pushed(?: back)? to"
    r"|postponed (?:to|until)|delayed (?:to|until)|rescheduled (?:to|for)|shifted to|slipped to"
    r"|brought forward to|extended (?:to|until)|changed(?: from .+?)? to"
    r"|(?:went|gone) (?:up|down) to"
    r"|(?:rose|risen|raised|increased|grew|grown|dropped|fell|fallen|reduced|lowered|cut)"
    r"(?: from .+?)? to|became|becomes|set (?:to|at|for)) )?(?P<v>.+)"
)
_CHANGE: Final = pattern(r".*\b(?:to|until|became|becomes|renamed)\b .*")


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


_CHANGED: Final = pattern(
    r"(?:has |have )?(?:raised|increased|lowered|cut|reduced|changed|moved|pushed|postponed"
    r"|rescheduled|switched|updated|set|shifted|brought)(?: back| forward)?"
    r" (?:(?:the|my|our|his|her|their) )?(?P<n>.+?)(?: from .+?)? (?:to|until) (?P<v>.+)"
)


def changed_by(clause: Clause) -> Iterator[Claim]:
    """Read "they raised the rent to 980", "I switched broadband provider to Starlink"."""
    matched = _CHANGED.fullmatch(clause.said)
    noun = rest(clause, matched, "n") if matched else []
    if matched and (noun := [word for word in noun if word.low not in NEW]):
        said = clause._replace(who=("self",), noun=tuple(noun))
        yield _of_noun(said, value(rest(clause, matched)), changed=True)


# --- all of them

_READERS: Final[tuple[Callable[[Clause], Iterator[Claim]], ...]] = (
    residence, work, profession, partner, diet, one_at_a_time, price, noun,
    changed_by,
)  # fmt: skip


def claims(clause: Clause) -> list[Claim]:
    """Return the claims of a clause about attributes that have one value at a time."""
    if clause.besides:
        return []
    readers = (changed_by,) if clause.who == ("they",) else _READERS
    return [claim for reader in readers for claim in reader(clause)]
