"""Rules: a newer fact says otherwise of the same attribute of the same thing. No model; English.

A change that is missed leaves an old fact in its place, a change that is none hides a fact that
holds. The rules therefore use no general likeness and no threshold to tune: a pair counts if one of
these forms says so, in this order.

- Claims: both say what an attribute with one value is (where somebody lives, whom they work for,
  what something of theirs is, what it costs), of the same somebody, and the values exclude each
  other. "no longer", "left", "broke up" say that a value is none any more.
- Frames: word by word the same, but for numbers, days or months, in the present: "runs 20 km a
  week" and "runs 35 km a week". "Ran 7 km" is an event: another run says nothing of it.
- Endings: the newer fact denies the older one ("does not like"), or says that it has stopped, been
  given up, sold.
- Exchanges: "switched from Triodos to Monzo", "tea instead of coffee" name what held before.

The last form is weak: of all the facts that it fits, only the nearest is meant. "Switched to an
iPhone" is weak too, since it names no attribute: it means the nearest claim of that form.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import Final, NamedTuple

from memory_actors.search.superseding.attributes import claims
from memory_actors.search.superseding.clauses import Clause, clauses
from memory_actors.search.superseding.forms import (
    THEY,
    ended,
    exchanged,
    needed,
    reframed,
)
from memory_actors.search.superseding.protocol import NEAR_MAX, Reach, Statement, Verdict
from memory_actors.search.superseding.values import Claim, differ

READINGS_MAX: Final = 512
"""Texts whose reading is kept, some 3 KB each: near each other, facts are read again and again."""


class Evidence(NamedTuple):
    """Why a newer fact says otherwise."""

    form: str
    weak: bool = False
    """It counts for the nearest fact alone."""


class Reading(NamedTuple):
    """The parts that can be read of a fact."""

    clauses: list[Clause]
    claims: list[Claim]


@lru_cache(READINGS_MAX)
def read(text: str) -> Reading:
    """Read the clauses and claims of a fact."""
    found = clauses(text)
    return Reading(found, [claim for clause in found for claim in claims(clause)])


def evidence(older: Reading, newer: Reading) -> Evidence | None:
    """Return why the newer fact contradicts the older one, or None if it does not."""
    if _says(older) == _says(newer):
        return None
    for new, old in product(newer.claims, older.claims):
        if _excludes(old, new, newer):
            return Evidence(f"{new.attribute}: {_shown(old)} -> {_shown(new)}")
    for after, before in product(newer.clauses, older.clauses):
        if after.who != before.who or before.besides or after.besides:
            continue
        if after.who == THEY:
            continue
        form = reframed(before, after) or ended(before, after)
        if form:
            return Evidence(form)
    for after, before in product(newer.clauses, older.clauses):
        if after.who == before.who and (form := exchanged(before, after, older.claims)):
            return Evidence(form, weak=True)
    return None


def _says(reading: Reading) -> list[tuple[object, ...]]:
    return [(one.who, one.noun, one.said, one.negated, one.ended) for one in reading.clauses]


def _shown(claim: Claim) -> str:
    return ("" if claim.holds else "not ") + (claim.value.text or "any")


# --- claims

_STATES: Final = frozenset({"partner", "employer", "diet"})
"""Attributes that say how things stand also where they have no value."""


def _excludes(old: Claim, new: Claim, newer: Reading) -> bool:
    if old.who != new.who:
        return False
    if old.attribute != new.attribute:
        eats = old.attribute == "diet" and new.attribute == "animal food"
        return eats and old.holds and new.holds
    if old.attribute == "partner":
        return _other_partner(old, new)
    if old.attribute in ("residence", "vehicle") and old.holds and new.holds:
        # Another place of the same kind; who moves leaves what contains it, too.
        one, other = old.value, new.value
        if one.content <= other.content or other.content <= one.content:
            return False
        return one.kind == other.kind or (new.changed and "dwelling" not in (one.kind, other.kind))
    if not _same_noun(old, new, newer) or ((old.many or new.many) and not new.changed):
        return False
    if old.holds and new.holds:
        return differ(old.value, new.value)
    said = bool(old.value.content & new.value.content)
    if old.holds:
        return said or not new.value.words
    return new.holds and (said or old.attribute in _STATES or new.changed)


def _other_partner(old: Claim, new: Claim) -> bool:
    same = bool(old.value.content & new.value.content)
    if old.holds and new.holds:
        return not same or (
            "rung 0" not in (old.value.kind, new.value.kind) and (old.value.kind < new.value.kind)
        )
    return new.holds if not old.holds else same or not new.value.content


def _same_noun(old: Claim, new: Claim, newer: Reading) -> bool:
    """Say whether two nouns name the same thing: "my tutor" may be "my German tutor"."""
    if old.stems == new.stems:
        return True
    names = {word.stem for clause in newer.clauses for word in clause.words}
    names |= {one for clause in newer.clauses for one in clause.who}
    mentioned = any(word.stem in names for word in old.value.words if word.is_name)
    within = old.stems <= new.stems or new.stems <= old.stems
    return within and (new.changed or mentioned)


# --- the decider

UNNAMED_MAX: Final = 4
"""Facts that one without a known attribute is compared with: what it changes is nearly the same."""
SIMILARITY_MIN: Final = 0.1
"""The limit for claims that name the same attribute: "I am dating Lukas" and "I am seeing Amir"
have 0.16."""
UNNAMED_SIMILARITY_MIN: Final = 0.45
"""The limit for a fact without a known attribute: it is nearly the same as what it changes."""
WEAK_SIMILARITY_MIN: Final = 0.45
"""The limit for facts that are matched only by nearness: a Pixel 6 and "switched to an iPhone" have
0.57."""


class ByRules:
    """Compares the forms of two facts."""

    def reach(self, text: str) -> Reach:
        """Return the facts near a text that are worth reading, by the claims in it."""
        said = read(text)
        words = needed(said.clauses, said.claims)
        if said.claims:
            return Reach(NEAR_MAX, words, SIMILARITY_MIN)
        return Reach(UNNAMED_MAX, words, UNNAMED_SIMILARITY_MIN)

    async def superseded(self, newer: Statement, older: Sequence[Statement]) -> Sequence[Verdict]:
        """Return the older facts, nearest first, that the newer one contradicts."""
        said = read(newer.text)
        verdicts: list[Verdict] = []
        for one in older:
            found = evidence(read(one.text), said)
            if found is None or one.similarity < SIMILARITY_MIN:
                continue
            if found.weak and (verdicts or one.similarity < WEAK_SIMILARITY_MIN):
                continue
            verdicts.append(Verdict(one.memory_id, found.form))
        return verdicts
