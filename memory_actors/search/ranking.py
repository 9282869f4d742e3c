"""Ranking: the best passages of indexes for a query, each with the chance that it answers.

Two stages: all rows by the signals that cost little (`candidates.py`), then the best few hundred by
all of them (`signals.py`). Then a newer text goes before an older one that is about the same thing
(`newer.py`). Summaries of compressed memories go through all of it beside the others, but are
chosen apart, so that neither takes the place of the other.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from memory_actors.base.weights import SIGNALS, Weights
from memory_actors.search.candidates import (
    EmbeddedQuery,
    FirstStage,
    Numbers,
    Rows,
    candidates,
    weighed_sum,
)
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.mixtures import (
    Mixture,
    answered_weights,
    chance_line,
    learned,
    plain,
    plain_chance_line,
    weighed,
)
from memory_actors.search.newer import gains_of_newer
from memory_actors.search.signals import Signals, signals_of

ANSWER_TOP: Final = 3


class Ranked(NamedTuple):
    """Passages of one index with their scores."""

    signals: Signals
    scores: Numbers
    """The sums of weighed signals."""
    gains: Numbers
    """The part of the score that passages gain by being newer than others about the same thing."""
    shown: Numbers
    """In [0, 1]: the chance that each answers."""
    order: Rows
    """The places of the passages in all of these, best first."""
    weights: Weights
    mixture: Mixture

    def places(self, *, summaries: bool) -> list[int]:
        """Return the places of the passages of summaries, or those of memories, best first."""
        are_summaries, places = self.signals.summaries, self.order
        if are_summaries is not None:
            places = places[are_summaries[places] == summaries]
        elif summaries:
            return []
        found: list[int] = places.tolist()
        return found

    def explained(self, place: int) -> dict[str, float]:
        """Return the share of each signal in the score of a passage."""
        columns = {name: getattr(self.signals, name) for name in SIGNALS}
        found = {
            name: getattr(self.weights, name) * (0.0 if column is None else float(column[place]))
            for name, column in columns.items()
        }
        return found | ({"newer": float(self.gains[place])} if self.gains[place] else {})


def rank(searched: Sequence[tuple[Parts, Rows | None]], question: EmbeddedQuery) -> list[Ranked]:
    """Return the best passages of indexes; of the rows given with each only, if any.

    Takes about a millisecond at 10,000 passages.
    """
    return [_ranked(first, places, question) for first, places in candidates(searched, question)]


def _ranked(first: FirstStage, places: Rows, question: EmbeddedQuery) -> Ranked:
    """Return the passages in some places of the first stage, by all signals."""
    signals = signals_of(first, places, question)
    rows = first.rows_at(places)
    if signals.late is None:
        usual = plain(first.parts.words.known_share(question.query.text))
    else:
        usual = learned(first.mixture)
    weights = weighed(usual, question.query.weights)
    scores = weighed_sum(len(places), signals, weights)
    order = np.lexsort((signals.labels, -scores))
    gains = gains_of_newer(first, rows, order, scores, question)
    scores = scores + gains
    order = np.lexsort((signals.labels, -scores))
    chance = plain_chance_line if signals.late is None else chance_line
    constant, slope = chance(first.mixture)
    shown = np.asarray(1 / (1 + np.exp(-(constant + slope * scores))), np.float32)
    return Ranked(signals, scores, gains, shown, order, weights, first.mixture)


def answer_signals(ranked: Sequence[Ranked]) -> tuple[Numbers, Mixture] | None:
    """Return the signals that tell whether anything answers, and the mixture; None without hits.

    A constant, the best score of all and how far it is before the fourth, and of the best three the
    largest late interaction, share of words and cosine.
    """
    found = [one for one in ranked if len(one.order)]
    if not found:
        return None
    best = max(found, key=lambda one: float(one.scores[one.order[0]]))
    top, signals = best.order[:ANSWER_TOP], best.signals
    behind = best.order[ANSWER_TOP : 2 * ANSWER_TOP]
    first = float(best.scores[top[0]])
    gap = first - (float(best.scores[behind[0]]) if len(behind) else first - 1)
    late = signals.meaning if signals.late is None else signals.late
    columns = (late, signals.words, signals.meaning)
    values = [1.0, first, gap, *(float(column[top].max()) for column in columns)]
    return np.array(values, np.float32), best.mixture


def answered(ranked: Sequence[Ranked]) -> float:
    """Return the chance that the best passages answer at all."""
    found = answer_signals(ranked)
    if found is None:
        return 0.0
    if all(one.signals.late is None for one in ranked):
        return max(float(one.shown.max(initial=0.0)) for one in ranked)
    logit = float(found[0] @ np.array(answered_weights(found[1]), np.float32))
    return float(1 / (1 + np.exp(-logit)))
