"""The words that an older fact must have, so that a newer one can say otherwise. English.

Reading a fact takes 70 us, and most of those near a new one have nothing in common with it that
could change. So the words that a form of `rules` finds in both are looked up in the keyword index,
and only the facts that have them are read. A word too few is a fact that is read in vain; a word
too many would be a change that is missed: so whatever the index may spell otherwise is left out.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final

from memory_actors.search.indexes.words import STOP_WORDS, stems
from memory_actors.search.superseding.claim import Claim
from memory_actors.search.superseding.clauses import Clause
from memory_actors.search.superseding.endings import needed_to_end
from memory_actors.search.superseding.exchanges import needed_to_exchange
from memory_actors.search.superseding.frames import needed_to_do_otherwise, needed_to_reframe

THEY: Final = ("they",)
"""A fact about "they": nobody can tell who they are."""
_SPELT_OTHERWISE: Final = frozenset(
    stems([*STOP_WORDS, "favourite", "favour", "colour", "neighbour"])
)
"""Not in the index, or in American spelling there."""

NAMES_MAX: Final = 256
"""Of whom facts speak: most of a user's are about a few."""

Words = frozenset[str]


def needed(clauses: Iterable[Clause], claims: Iterable[Claim]) -> tuple[Words, ...] | None:
    """Return the sets of stems one of which an older fact has whole, if it can be meant at all.

    None: any fact may be meant. An empty tuple: none.
    """
    sets = {_indexed(words) for words in (*map(_of_claim, claims), *_of_clauses(clauses))}
    return None if frozenset() in sets else tuple(sets)


def _of_claim(claim: Claim) -> Words:
    """Return the words of whom a claim is about, and of the thing that it names."""
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
        word for word in words if word.isascii() and word.isalpha() and word not in _SPELT_OTHERWISE
    )
