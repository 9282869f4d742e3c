"""The first stage of the ranking: all rows by the signals that cost little; the best few hundred.

If there are too many rows to score, vectors and words propose some each.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from memory_actors.base.weights import SIGNALS, Weights
from memory_actors.kinds.passages import REPLYING
from memory_actors.search.dates import closeness, named_spans
from memory_actors.search.embedding.protocol import Embedded, Vectors
from memory_actors.search.indexes.labels import in_order
from memory_actors.search.indexes.lexical import Windows
from memory_actors.search.indexes.parts import ASKING, Parts
from memory_actors.search.indexes.traits import NONE, Columns
from memory_actors.search.mixtures import (
    AROUND,
    FEW_PASSAGES,
    FIRST,
    FIRST_CHAT,
    FIRST_FOREIGN,
    LONG_WORDS,
    Mixture,
    between,
)
from memory_actors.search.query import Query, asks_for_questions, asks_for_replies

Numbers = npt.NDArray[np.float32]
Rows = npt.NDArray[np.intp]
Chains = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
C = TypeVar("C", bound=npt.NDArray[np.generic])

SECOND_STAGE: Final = 200  # of 10,000: scoring 600 lifts recall by 0.002, of 3,000 by nothing
COMPRESSED_CANDIDATES: Final = 24  # passages of summaries, 150 tokens each, beside them
PROPOSED: Final = 300  # by vectors and by words each, where there are too many rows to score
ASKED_FOR: Final = 4.0
"""A factor of the penalty of replies: where the query asks for a reply, turns of others lose it,
or replies gain it."""
SCAN_SHARE: Final = 0.2  # of all rows: who asks for more is served faster by scoring all


class EmbeddedQuery(NamedTuple):
    """A query, ready to be compared."""

    query: Query
    embedded: Embedded
    centre: Vectors
    foreign: float = 0.0
    """The share of it that the model cannot read, 0 to 1."""


class FirstStage(NamedTuple):
    """The cheap signals of all rows that may be found, or of those that are proposed."""

    parts: Parts
    columns: Columns
    mixture: Mixture
    rows: Rows | None
    """None stands for all."""
    summaries: Flags
    words: Numbers
    meaning: Numbers
    date: Numbers | None
    speaker: Numbers | None
    asks: Numbers
    reply: Numbers | None

    @property
    def taken(self) -> Rows | slice:
        """The rows of these columns."""
        return slice(0, self.parts.size) if self.rows is None else self.rows

    def rows_at(self, places: Rows) -> Rows:
        """Return the rows in some places of these columns."""
        return places if self.rows is None else self.rows[places]


def candidates(
    searched: Sequence[tuple[Parts, Rows | None]], question: EmbeddedQuery
) -> list[tuple[FirstStage, Rows]]:
    """Return the first stage of each index, and the places of its best rows in it.

    The best rows are chosen from all indexes together: memories, and summaries beside them. An
    index that comes with rows is searched in these alone.
    """
    firsts = [_first(parts, rows, question) for parts, rows in searched]
    if not firsts:
        return []
    if asks_for_questions(question.query.text):
        firsts = [_for_questions(first) for first in firsts]
    elif asks_for_replies(question.query.text):
        firsts = _for_replies(firsts)
    counts = [len(first.words) for first in firsts]
    scores = _joined(
        [
            weighed_sum(count, first, _first_weights(first.mixture))
            for count, first in zip(counts, firsts, strict=True)
        ]
    )
    summary = _joined([first.summaries for first in firsts])
    count = max(SECOND_STAGE, 2 * question.query.pool)
    if summary.any():
        chosen = _best(np.where(summary, -np.inf, scores), count)
        if question.query.compressed:
            chosen |= _best(np.where(summary, scores, -np.inf), COMPRESSED_CANDIDATES)
    else:
        chosen = _best(scores, count)
    spans = pairwise(accumulate(counts, initial=0))
    places = [np.flatnonzero(chosen[start:end]) for start, end in spans]
    return list(zip(firsts, places, strict=True))


def _first(parts: Parts, rows: Rows | None, question: EmbeddedQuery) -> FirstStage:
    traits, query = parts.traits, question.query
    columns = traits.view(parts.size)
    close = None if rows is not None else _close(parts, question)
    windows = parts.words.windows(query.text)
    if close is None:
        words = _words(parts, windows, rows, question)
    else:
        rows, words = _proposed(parts, windows, close, question)
    taken = slice(0, parts.size) if rows is None else rows
    replies = traits.are_of(REPLYING, columns.speakers[taken])
    speaker = traits.named(query.text, parts.held().speakers)
    theirs = None if speaker is None else columns.speakers[taken] == speaker
    spans = named_spans(query.text, query.asked_us, lambda: traits.years(parts.size))
    return FirstStage(
        parts,
        columns,
        _mixture(parts, question),
        rows,
        summaries=columns.summaries[taken],
        words=words,
        meaning=_meaning(parts, rows, question),
        date=closeness(spans, columns.occurred_us[taken]) if spans else None,
        speaker=None if theirs is None else theirs.astype(np.float32),
        asks=columns.asks[taken],
        reply=replies.astype(np.float32) if replies.any() else None,
    )


def _for_questions(first: FirstStage) -> FirstStage:
    """Let turns that ask nothing lose, as turns of others do where replies are asked for."""
    stating = first.columns.said[first.taken] & (first.asks < ASKING)
    return first._replace(asks=np.zeros_like(first.asks), reply=np.float32(ASKED_FOR) * stating)


def _for_replies(firsts: list[FirstStage]) -> list[FirstStage]:
    """Let turns of others lose, or let replies gain if another index has only turns.

    The weight of `reply` is too small in an index without replies, which is not taken for a chat.
    """
    said = [first.columns.said[first.taken] for first in firsts]
    pairs = list(zip(firsts, said, strict=True))
    are_apart = any(turns.any() for first, turns in pairs if first.reply is None)
    found = []
    for first, turns in pairs:
        if first.reply is not None:
            signal = -first.reply if are_apart else turns & (first.reply == 0)
            first = first._replace(reply=np.float32(ASKED_FOR) * signal)
        found.append(first)
    return found


def _mixture(parts: Parts, question: EmbeddedQuery) -> Mixture:
    """Return how much an index and a query are of each kind that weights are learned for."""
    held = parts.held()
    start, end = LONG_WORDS
    long = min(max((held.words - start) / (end - start), 0.0), 1.0)
    return Mixture(
        chat=held.chat,
        people=held.people,
        notes=held.said - held.chat - held.people,
        documents=(1 - held.said) * long,
        facts=(1 - held.said) * (1 - long),
        few=FEW_PASSAGES**2 / (FEW_PASSAGES**2 + held.statements**2),
        foreign=question.foreign,
        statement=float(not question.query.is_question),
    )


def _words(parts: Parts, windows: Windows, rows: Rows | None, question: EmbeddedQuery) -> Numbers:
    """Return how well the words of rows, or of all, fit; of a foreign query its own ones more.

    The words around them, right before or elsewhere in the session, then decide between rows.
    """
    if rows is not None and not question.foreign:
        return windows.of(rows)
    around = windows.of_all()[: parts.size]
    if not question.foreign:
        return around
    alone = parts.words.windows(question.query.text, before=0).of_all()[: parts.size]
    best = _session(parts.traits.view(parts.size).chains, alone)
    own = alone + np.float32(AROUND) * (around + best)
    fitting = np.asarray(around + np.float32(question.foreign) * (own - around), np.float32)
    return fitting if rows is None else fitting[rows]


def _proposed_count(question: EmbeddedQuery) -> int:
    return max(PROPOSED, 2 * question.query.pool)


def _close(parts: Parts, question: EmbeddedQuery) -> Rows | None:
    """Return the rows that vectors put among the best, and all summaries, in order.

    Returns None if no index proposes rows: then all are scored.
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


def _proposed(
    parts: Parts, windows: Windows, close: Rows, question: EmbeddedQuery
) -> tuple[Rows, Numbers]:
    """Return the close rows and the best rows by words, in order, with their word scores."""
    count = _proposed_count(question)
    if not question.foreign:
        rows, words = windows.best(count, close)
        known = int(np.searchsorted(rows, parts.size))
        return rows[:known], words[:known]
    words = _words(parts, windows, None, question)
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


@lru_cache
def _first_weights(mixture: Mixture) -> Weights:
    return between(between(FIRST, FIRST_CHAT, mixture.chat), FIRST_FOREIGN, mixture.foreign)


def _joined(columns: Sequence[C]) -> C:
    return columns[0] if len(columns) == 1 else cast("C", np.concatenate(columns))


def _best(scores: Numbers, count: int) -> Flags:
    """Mark the best `count` scores above -inf, and those that equal the last."""
    behind = -scores  # the other way round many equal ones take long
    last = np.partition(behind, count - 1)[count - 1] if len(behind) > count else np.inf
    return np.asarray(behind <= last if last < np.inf else behind < np.inf, np.bool_)


def _session(chains: Chains, scores: Numbers) -> Numbers:
    """Return the best score within each passage's session."""
    if not len(scores):
        return scores
    best = np.full(chains.max() + 2, -np.inf, np.float32)  # and a place for NONE
    np.maximum.at(best, chains, scores)
    return np.where(chains != NONE, best[chains], scores)


def weighed_sum(count: int, signals: object, weights: Weights) -> Numbers:
    """Return the scores of so many passages: the sum of those signals that are there, weighed."""
    total: Numbers | None = None
    for name in SIGNALS:
        weight = getattr(weights, name)
        column = getattr(signals, name, None) if weight else None
        if column is not None:
            part = np.float32(weight) * column
            total = part if total is None else np.add(total, part, out=total)
    return np.zeros(count, np.float32) if total is None else total
