"""Ranking: what makes a memory an answer to a query.

The score of a passage is a sum of signals, each times its weight (`weights.py`):

- late: MaxSim of the query's token states with the passage's (`indexes/late.py`), -1 to 1
- session: the best `late` of any candidate of the same session; alone, its own
- words: BM25 of the passage and the two before it in its session (`indexes/lexical.py`), 0 to 1
- meaning: centred cosine of the vectors (`indexes/rows.py`), -1 to 1
- date: how near its time is to one that the query names (`dates`), 0 to 1; 0 if it names none
- speaker: 1 if the query names one speaker, and it is theirs
- asks: 1 if it ends in a question mark: a question seldom answers one
- bare: 1 if it is a name and no more, and the query has other words: it is about more than a name

Two stages: all rows by the signals that cost little, then the best few hundred by all of them.
Summaries of compressed memories go through both beside the others, but are chosen apart, so that
neither takes the place of the other.
`docs/internals/retrieval.md` says what each signal is worth.
"""

from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from memory_actors.base.weights import (
    AROUND,
    FIRST,
    FIRST_FOREIGN,
    LONG_TOKENS,
    PLAIN,
    Weights,
    as_weighed,
    between,
    usual_weights,
)
from memory_actors.search.dates import closeness, named_spans
from memory_actors.search.embedding.protocol import Embedded, Vectors
from memory_actors.search.indexes.labels import in_order
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.indexes.traits import NONE, Columns
from memory_actors.search.query import Query

Numbers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Chains = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
C = TypeVar("C", bound=npt.NDArray[Any])


SECOND_STAGE: Final = 200  # of 10,000: scoring 600 lifts recall by 0.002, of 3,000 by nothing
COMPRESSED_CANDIDATES: Final = 24  # passages of summaries, 150 tokens each, beside them
PROPOSED: Final = 300  # by vectors and by words each, where there are too many rows to score
SCAN_SHARE: Final = 0.2  # of all rows: who asks for more is served faster by scoring all


class Chance(NamedTuple):
    """The chance that a passage answers, by logistic regression; what each thing adds to its logit.

    Fitted on all development sets of `python -m bench recall`, each of the same weight, and on
    questions that nothing in the store answers, a quarter as many. The score counts, and how far it
    is behind the best one: where something fits well, little else answers. Fitted without a set, it
    is off by 0.02 in the mean on the results of that set and all others (its expected calibration
    error); in a store that is all about one thing more answers than it says.
    """

    constant: float = -0.96
    score: float = 1.63
    score_of_turns: float = 1.02
    behind: float = -10.2
    turns: float = -2.86
    foreign: float = -0.12

    def at(self, scores: Numbers, best: float, turns: float, foreign: float) -> Numbers:
        """Return the chance of scores, beside the best one of all kinds."""
        logits = (
            self.constant
            + (self.score + self.score_of_turns * turns) * scores
            + self.behind * np.maximum(best - scores, 0)
            + self.turns * turns
            + self.foreign * foreign
        )
        return np.asarray(1 / (1 + np.exp(-logits)), np.float32)


CHANCE: Final = Chance()


class EmbeddedQuery(NamedTuple):
    """A query, ready to be compared."""

    query: Query
    embedded: Embedded
    centre: Vectors
    foreign: float = 0.0
    """The share of it that the model cannot read, 0 to 1."""


class Signals(NamedTuple):
    """Each signal of some passages of one index, float32 [n]; None for one that is 0 for all."""

    labels: Labels
    owners: Chains
    """The number of the memory of each."""
    summaries: Flags | None
    """True for summaries of compressed memories; None where none is one."""
    late: Numbers | None
    session: Numbers | None
    words: Numbers
    meaning: Numbers
    date: Numbers | None
    speaker: Numbers | None
    asks: Numbers
    bare: Numbers | None


class Ranked(NamedTuple):
    """Passages of one index with their scores."""

    signals: Signals
    scores: Numbers
    """The sums of weighed signals."""
    shown: Numbers
    """In [0, 1]: the chance that each answers."""
    order: Rows
    """The places of the passages in all of these, best first."""
    weights: Weights
    turns: float
    """How much of the index is long, or was said by somebody, 0 to 1."""

    @property
    def best(self) -> float | None:
        """The score of the best memory, summaries left out; None if there is none."""
        summaries = self.signals.summaries
        scores = self.scores if summaries is None else self.scores[~summaries]
        return float(scores.max()) if len(scores) else None

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
        """Return what each signal adds to the score of a passage."""
        columns = {name: getattr(self.signals, name) for name in self.weights.__struct_fields__}
        return {
            name: getattr(self.weights, name) * (0.0 if column is None else float(column[place]))
            for name, column in columns.items()
        }


def rank(searched: Sequence[tuple[Parts, Rows | None]], question: EmbeddedQuery) -> list[Ranked]:
    """Return the best passages of indexes; of the rows given with each only, if any.

    Takes about a millisecond at 10,000 passages.
    """
    firsts = [_first(parts, rows, question) for parts, rows in searched]
    chosen = _best_of_all(firsts, question)
    ranked = [
        _second(first, places, question) for first, places in zip(firsts, chosen, strict=True)
    ]
    # An index that was emptied says nothing: a replay has none in its place.
    best = max((found for one in ranked if (found := one.best) is not None), default=0.0)
    return [
        one._replace(shown=CHANCE.at(one.scores, best, one.turns, question.foreign))
        for one in ranked
    ]


def _weighed(count: int, signals: Any, weights: Weights) -> Numbers:
    """Return the scores of so many passages: the sum of those signals that are there, weighed."""
    total: Numbers | None = None
    for name in weights.__struct_fields__:
        weight = getattr(weights, name)
        column = getattr(signals, name, None) if weight else None
        if column is not None:
            part = np.float32(weight) * column
            total = part if total is None else np.add(total, part, out=total)
    return np.zeros(count, np.float32) if total is None else total


# --- the first stage


class _First(NamedTuple):
    """The cheap signals of all rows that may be found, or of those that are proposed."""

    parts: Parts
    columns: Columns
    rows: Rows | None
    """None stands for all."""
    summaries: Flags
    words: Numbers
    meaning: Numbers
    date: Numbers | None
    speaker: Numbers | None
    asks: Numbers


def _first(parts: Parts, rows: Rows | None, question: EmbeddedQuery) -> _First:
    traits, query = parts.traits, question.query
    columns = traits.view(parts.size)
    close = None if rows is not None else _close(parts, question)
    if close is None:
        words = _words(parts, rows, question)
    else:
        rows, words = _proposed(parts, close, question)
    taken = slice(0, parts.size) if rows is None else rows
    speaker = traits.named(query.text)
    theirs = None if speaker is None else columns.speakers[taken] == speaker
    spans = named_spans(query.text, query.asked_us, traits.years())
    return _First(
        parts,
        columns,
        rows,
        summaries=columns.summaries[taken],
        words=words,
        meaning=_meaning(parts, rows, question),
        date=closeness(spans, columns.occurred_us[taken]) if spans else None,
        speaker=None if theirs is None else theirs.astype(np.float32),
        asks=columns.asks[taken],
    )


def _words(parts: Parts, rows: Rows | None, question: EmbeddedQuery) -> Numbers:
    """Return how well the words of rows, or of all, fit; of a foreign query its own ones more.

    Those around it, right before it or elsewhere in its session, then decide between rows.
    """
    if rows is not None and not question.foreign:
        return parts.words.score(question.query.text, rows)
    around = parts.words.score_all(question.query.text)[1][: parts.size]
    if not question.foreign:
        return around
    alone = parts.words.score_all(question.query.text, before=0)[1][: parts.size]
    best = _session(parts.traits.view(parts.size).chains, alone)
    own = alone + np.float32(AROUND) * (around + best)
    fitting = np.asarray(around + np.float32(question.foreign) * (own - around), np.float32)
    return fitting if rows is None else fitting[rows]


def _proposed_count(question: EmbeddedQuery) -> int:
    return max(PROPOSED, 2 * question.query.pool)


def _close(parts: Parts, question: EmbeddedQuery) -> Rows | None:
    """Return the rows that vectors put among the best, and all summaries, in order.

    None where nothing proposes rows: then all are scored.
    """
    vector, centre = question.embedded.vector, question.centre
    close = parts.dense.proposed(vector, centre, _proposed_count(question))
    if close is None:
        return None
    close = close[: np.searchsorted(close, parts.size)]
    summaries = parts.traits.view(parts.size).summaries
    if not question.query.compressed or not summaries.any():
        return close
    return in_order(parts.size, close, np.flatnonzero(summaries))


def _proposed(parts: Parts, close: Rows, question: EmbeddedQuery) -> tuple[Rows, Numbers]:
    """Return those rows and the ones that words put among the best, in order, with their words."""
    count = _proposed_count(question)
    if not question.foreign:
        rows, words = parts.words.best(question.query.text, count, close)
        known = int(np.searchsorted(rows, parts.size))
        return rows[:known], words[:known]
    words = _words(parts, None, question)
    worded = np.flatnonzero(words > 0)
    if len(worded) > count:
        worded = worded[np.argpartition(-words[worded], count)[:count]]
    rows = in_order(parts.size, close, worded)
    return rows, words[rows]


def _meaning(parts: Parts, rows: Rows | None, question: EmbeddedQuery) -> Numbers:
    """Return how close rows are, or all; of many it is quicker to ask for all."""
    vector, centre = question.embedded.vector, question.centre
    if rows is not None and len(rows) < SCAN_SHARE * parts.size:
        return parts.dense.scores(vector, centre, rows)
    scores = parts.dense.scores(vector, centre)
    return scores[: parts.size] if rows is None else scores[rows]


def _best_of_all(firsts: Sequence[_First], question: EmbeddedQuery) -> list[Rows]:
    """Return the places of the best of all indexes together, by index: memories and summaries."""
    if not firsts:
        return []
    weights = between(FIRST, FIRST_FOREIGN, question.foreign)
    counts = [len(first.words) for first in firsts]
    scores = _joined([_weighed(n, first, weights) for n, first in zip(counts, firsts, strict=True)])
    summary = _joined([first.summaries for first in firsts])
    count = max(SECOND_STAGE, 2 * question.query.pool)
    if summary.any():
        chosen = _best(np.where(summary, -np.inf, scores), count)
        if question.query.compressed:
            chosen |= _best(np.where(summary, scores, -np.inf), COMPRESSED_CANDIDATES)
    else:
        chosen = _best(scores, count)
    starts = accumulate(counts, initial=0)
    return [np.flatnonzero(chosen[start:end]) for start, end in pairwise(starts)]


def _joined(columns: Sequence[C]) -> C:
    return columns[0] if len(columns) == 1 else cast("C", np.concatenate(columns))


def _best(scores: Numbers, count: int) -> Flags:
    """Return which are the best `count` above -inf, and those that score the same as the last."""
    behind = -scores  # the other way round many equal ones take long
    last = np.partition(behind, count - 1)[count - 1] if len(behind) > count else np.inf
    return np.asarray(behind <= last if last < np.inf else behind < np.inf, np.bool_)


# --- the second stage


def _second(first: _First, places: Rows, question: EmbeddedQuery) -> Ranked:
    """Return the passages in some places of the first stage, by all signals."""
    parts, columns = first.parts, first.columns
    rows = places if first.rows is None else first.rows[places]
    labels, turns = parts.dense.row_labels[rows], _turns_share(parts)
    late, session = _late(parts, labels, columns.chains[rows], question)
    summaries = first.summaries[places]
    signals = Signals(
        labels,
        columns.owners[rows],
        summaries=summaries if summaries.any() else None,
        late=late,
        session=session,
        words=first.words[places],
        meaning=first.meaning[places],
        date=None if first.date is None else first.date[places],
        speaker=None if first.speaker is None else first.speaker[places],
        asks=first.asks[places],
        bare=_bare(parts, columns.bare[rows], labels, question.query.text),
    )
    usual = PLAIN if late is None else usual_weights(len(parts.dense), turns, question.foreign)
    weights = as_weighed(usual, question.query.weights)
    scores = _weighed(len(rows), signals, weights)
    order = np.lexsort((labels, -scores))
    return Ranked(signals, scores, scores, order, weights, turns)


def _late(
    parts: Parts, labels: Labels, chains: Chains, question: EmbeddedQuery
) -> tuple[Numbers, Numbers] | tuple[None, None]:
    """Return the late interaction of passages, and the best of their sessions, if there is any."""
    tokens, states = question.embedded.tokens, question.embedded.states
    if tokens is None or states is None or not len(parts.late):
        return None, None
    late = parts.late.score(parts.late.query(tokens, states), labels)
    return late, _session(chains, late)


def _turns_share(parts: Parts) -> float:
    """Return how much of an index is long, or was said by somebody, 0 to 1."""
    start, end = LONG_TOKENS
    long = (parts.late.mean_tokens - start) / (end - start)
    return min(max(long, parts.traits.turns / max(len(parts.dense), 1), 0.0), 1.0)


def _bare(parts: Parts, are_names: Flags, labels: Labels, text: str) -> Numbers | None:
    """Return which passages are names and lack a word of the query."""
    names = np.flatnonzero(are_names)
    if not len(names):
        return None
    bare = np.zeros(len(labels), np.float32)
    bare[names] = np.logical_not(parts.words.has_all(text, labels[names].tolist()))
    return bare


def _session(chains: Chains, late: Numbers) -> Numbers:
    """Return the best late interaction within each passage's session."""
    if not len(late):
        return late
    best = np.full(chains.max() + 2, -np.inf, np.float32)  # and a place for NONE
    np.maximum.at(best, chains, late)
    return np.where(chains != NONE, best[chains], late)
