"""The weights of the signals for what a store holds and what is asked.

Signals are those of `ranking.py`. Their weights are learned, since stores differ: short facts are
found by their vectors; turns of people by their words; in a chat with an assistant the user's turns
lead, and the reply to a turn tells what it was about. A `Mixture` says how much of each kind a
store and a query are. The weight of a signal is the sum of its `LEARNED` rows, each times its share
of the mixture, so weights change smoothly as a store grows. `python -m bench learn` fits the rows
and writes `learned_weights.py`.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from memory_actors.base.weights import SIGNALS, Weights
from memory_actors.search.learned_weights import ANSWERED, CHANCE, LEARNED

OF_STATES: Final = ("late", "next_turn")
"""The signals that compare token states."""


class Mixture(NamedTuple):
    """How much a store and a query are of each kind, 0 to 1; the first five make up a store."""

    chat: float = 0.0
    """Statements of a user to an assistant that replies to each."""
    people: float = 0.0
    """Turns of people who have names."""
    notes: float = 0.0
    """Turns of a user to whom nobody replies."""
    documents: float = 0.0
    """Long texts that nobody said."""
    facts: float = 0.0
    """Short texts that nobody said."""
    few: float = 0.0
    """1 for an empty store, a half for 15 statements: nobody can tell which words are rare."""
    foreign: float = 0.0
    """Words of the query that the model cannot read."""
    statement: float = 0.0
    """1 if the query is no question, but a statement that should recall earlier ones."""


FEW_PASSAGES: Final = 15  # at which half of what is said of few memories holds
LONG_WORDS: Final = (6.0, 14.0)
"""Words of a text in the mean, stop words left out: from where texts are long in part, and as a
whole. Facts have 5 to 8, turns of LoCoMo 15, sentences of articles 17 to 23."""
PLAIN: Final = Weights(
    late=0.0, words=4.0, meaning=8.0, date=4.8, speaker=0.6, asks=-2.0, echo=0.0, reply=-0.8,
    next_turn=0.0, bare=-2.4,
)  # fmt: skip
"""For embedders that give no token states."""
OTHER_WORDS: Final = msgspec.structs.replace(PLAIN, words=1.0)
"""The same for a query in another language: the store has few of its words."""
WORDS_KNOWN: Final = (0.4, 0.75)
"""The share of a query's words that a store has. Up to the first number the query is in another
language, from the second on in the same one. Measured with questions about a thousand sentences:
0 to 0.6 in another language, 0.76 to 1 in the same."""
PLAIN_CHANCE: Final = (-2.9, 0.25)
"""Constant and slope of the logit that a passage answers, by `PLAIN`."""
PLAIN_FEW: Final = 0.9
"""Added to that constant for few memories. A larger number fits small stores better, but then a
kind with one row would come before kinds with many."""
FIRST: Final = Weights(
    late=0.0, words=2.0, meaning=0.7, date=1.2, speaker=0.16, asks=-0.25, echo=0.0, reply=0.0,
    next_turn=0.0, bare=0.0,
)  # fmt: skip
"""Of the first stage."""
FIRST_CHAT: Final = msgspec.structs.replace(FIRST, words=1.0, meaning=1.2, reply=-0.1)
FIRST_FOREIGN: Final = msgspec.structs.replace(FIRST, meaning=0.1)
AROUND: Final = 0.4  # of the words around a passage in a foreign query, beside its own


def between(some: Weights, others: Weights, share: float) -> Weights:
    """Return weights between two, by the share of the others."""
    if not share:
        return some
    mixed = {
        name: (1 - share) * getattr(some, name) + share * getattr(others, name) for name in SIGNALS
    }
    return Weights(**mixed)


def plain(known_share: float) -> Weights:
    """Return the weights where no token states are compared, by the share of known words."""
    start, end = WORDS_KNOWN
    return between(OTHER_WORDS, PLAIN, min(max((known_share - start) / (end - start), 0.0), 1.0))


@lru_cache
def learned(mixture: Mixture) -> Weights:
    """Return the learned weights of a mixture."""
    found = dict(zip(SIGNALS, _mixed(LEARNED, mixture), strict=True))
    found |= {name: found[name] * states_count(mixture) for name in OF_STATES}
    found["words"] = max(found["words"], 0.0)  # a word in common never speaks against a text
    return Weights(**found)


def states_count(mixture: Mixture) -> float:
    """Return how much signals of token states count, 0 to 1: not at all among a few facts.

    There most tokens are of phrases that all facts share, such as "user likes".
    """
    return 1 - mixture.facts * mixture.few


@lru_cache
def weighed(usual: Weights, callers: Weights) -> Weights:
    """Return weights, each times what a caller gives for it."""
    return Weights(**{name: getattr(usual, name) * getattr(callers, name) for name in SIGNALS})


@lru_cache
def chance_line(mixture: Mixture) -> tuple[float, float]:
    """Return constant and slope of the logit that a passage of some score answers."""
    constant, slope = _mixed(CHANCE, mixture)
    return constant, max(slope, 0.05)  # a better passage never has less of a chance


def plain_chance_line(mixture: Mixture) -> tuple[float, float]:
    """Return constant and slope of that logit for embedders that give no token states."""
    constant, slope = PLAIN_CHANCE
    return constant + mixture.few * PLAIN_FEW, slope


@lru_cache
def answered_weights(mixture: Mixture) -> tuple[float, ...]:
    """Return the weights of the signals that tell whether anything answers, the constant first."""
    return _mixed(ANSWERED, mixture)


def _mixed(rows: Sequence[Sequence[float]], mixture: Mixture) -> tuple[float, ...]:
    """Return the sum of rows of learned numbers, each times its share of a mixture."""
    return tuple(
        sum(share * one for share, one in zip((1.0, *mixture), column, strict=True))
        for column in zip(*rows, strict=True)
    )
