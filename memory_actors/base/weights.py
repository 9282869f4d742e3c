"""The weight of each signal of the ranking, by what a store holds and what is asked.

Signals are those of `memory_actors/search/ranking.py`. The weights that a caller sees and may
change (`TURNS`) are for texts that are long or were said by somebody: one vector blurs a long text,
so it is found by its words and their states. Of short facts the vector says it all, and they are
asked in other words: there meaning leads (`FACTS`), the more so the fewer there are, for with few
memories nobody can tell which words are rare (`FEW`). A store weighs in between by what it holds.
And where the model can read little of the query, its own words lead (`FOREIGN`), those of the
passage before those around it. An embedder that gives no token states leaves vectors and words
(`PLAIN`).
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import msgspec

from memory_actors.base.errors import InvalidInputError

WEIGHT_MAX: Final = 1_000_000  # beyond it float32 has no digits left for the other signals


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each signal; 0 switches it off."""

    late: float = 1.0
    session: float = 0.8
    words: float = 0.6
    meaning: float = 0.2
    date: float = 0.6
    speaker: float = 0.08
    asks: float = -0.12
    bare: float = -0.6


def check_weights(weights: object) -> Weights:
    """Return weights.

    :raises InvalidInputError: they are not `Weights`, or one is no number of a size that counts.
    """
    if not isinstance(weights, Weights):
        raise InvalidInputError(f"weights must be Weights(late=…), not {type(weights).__name__}")
    for name in weights.__struct_fields__:
        value = getattr(weights, name)
        if not isinstance(value, int | float) or not -WEIGHT_MAX <= value <= WEIGHT_MAX:
            raise InvalidInputError(
                f"the weight {name} must be a number from -{WEIGHT_MAX:,} to {WEIGHT_MAX:,}"
            )
    return weights


def weights_of(given: Mapping[str, Any]) -> Weights:
    """Return weights from those that are given by the names of their signals; any size will do.

    :raises InvalidInputError: there is no signal of a name, or a weight is no number.
    """
    if unknown := given.keys() - set(Weights.__struct_fields__):
        known = ", ".join(Weights.__struct_fields__)
        raise InvalidInputError(f"unknown weight {min(unknown)!r:.80}: use some of {known}")
    try:
        return msgspec.convert(given, Weights)
    except msgspec.ValidationError as error:
        raise InvalidInputError(f"a weight must be a number: {error}") from error


TURNS: Final = Weights()
FACTS: Final = Weights(
    late=0.65, session=0.0, words=0.3, meaning=1.0, date=1.0, speaker=0.08, asks=-0.1
)
FEW: Final = Weights(late=0, session=0, words=0, meaning=1.6, date=1.0, speaker=0.08, asks=-0.1)
FOREIGN: Final = Weights(
    late=0.25, session=0.2, words=1.0, meaning=0.0, date=0.6, speaker=0.08, asks=-0.12
)
FIRST: Final = Weights(
    late=0.0, session=0.0, words=2.0, meaning=0.7, date=1.2, speaker=0.16, asks=-0.25, bare=0.0
)
"""Of the first stage."""
PLAIN: Final = Weights(
    late=0.0, session=0.0, words=1.0, meaning=2.0, date=1.2, speaker=0.16, asks=-0.25
)
"""For embedders that give no token states."""
FIRST_FOREIGN: Final = Weights(
    late=0.0, session=0.0, words=2.0, meaning=0.1, date=1.2, speaker=0.16, asks=-0.25, bare=0.0
)
AROUND: Final = 0.4  # of the words around a passage in a foreign query, beside its own
FEW_FACTS: Final = 15  # memories at which half of what is said of facts holds
LONG_TOKENS: Final = (12.0, 22.0)
"""Different tokens a text has in the mean: from where texts are long in part, and as a whole. Facts
have 4 to 12, turns of LoCoMo 26, sentences of articles 23; marks do not count."""


def between(some: Weights, others: Weights, share: float) -> Weights:
    """Return weights between two, by the share of the others."""
    if not share:
        return some
    mixed = {
        name: (1 - share) * getattr(some, name) + share * getattr(others, name)
        for name in some.__struct_fields__
    }
    return Weights(**mixed)


@lru_cache
def usual_weights(count: int, turns: float, foreign: float) -> Weights:
    """Return the weights for so many memories, the share of turns in them and what is asked."""
    known = count**2 / (count**2 + FEW_FACTS**2)
    facts = between(FEW, FACTS, known)
    return between(between(facts, TURNS, turns), FOREIGN, foreign)


@lru_cache
def as_weighed(usual: Weights, callers: Weights) -> Weights:
    """Return weights as the caller weighs them, whose own ones stand in the place of `TURNS`."""
    weighed = {
        name: getattr(usual, name) * getattr(callers, name) / getattr(TURNS, name)
        for name in usual.__struct_fields__
    }
    return Weights(**weighed)
