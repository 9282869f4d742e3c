"""Ranking: what makes a memory an answer to a query.

    score = late + 0.8 session + 0.6 words + 0.2 meaning + 0.6 date + 0.08 speaker - 0.12 asks

- late: MaxSim of the query's token states with the passage's (`indexes/late.py`), -1 to 1
- session: the best `late` of any candidate of the same session; alone, its own
- words: BM25 of the passage and the two before it in its session (`indexes/lexical.py`), 0 to 1
- meaning: centred cosine of the vectors (`indexes/centring.py`), -1 to 1
- date: how near its time is to one that the query names (`dates`), 0 to 1; 0 if it names none
- speaker: 1 if the query names one speaker, and it is theirs
- asks: 1 if it ends in a question mark: a question seldom answers one

With few memories nobody can tell which words are rare, so the fewer there are, the more a score
leans on meaning: with n passages it is n^2 / (n^2 + 15^2) parts this and the rest 2.6 times the
meaning.

Nothing is scaled by query, so scores of two queries compare. A logistic curve brings them to [0,
1]: what has nothing to do with a query has 0.1, turns of the development conversations 0.34 in the
median, those that answer a question 0.78, the same text 0.98.

Two stages: all rows by the signals that cost little, then the best few hundred by all of them.
Summaries of compressed memories go through both beside the others, but are chosen apart, so that
neither takes the place of the other.
`docs/internals/retrieval.md` says what each signal is worth.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Final, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from memory_actors.dates import closeness, named_spans
from memory_actors.embedding.protocol import Embedded, Vectors
from memory_actors.embedding.tokens import unpack
from memory_actors.errors import InvalidInputError
from memory_actors.indexes.late import LateIndex, QueryTokens
from memory_actors.indexes.parts import Parts
from memory_actors.indexes.traits import NONE

Numbers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Chains = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]


WEIGHT_MAX: Final = 1_000_000  # beyond it float32 has no digits left for the other signals


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """What each signal counts for; 0 switches it off."""

    late: float = 1.0
    session: float = 0.8
    words: float = 0.6
    meaning: float = 0.2
    date: float = 0.6
    speaker: float = 0.08
    asks: float = -0.12


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


class Curve(NamedTuple):
    """A logistic curve from a score to [0, 1]."""

    middle: float
    steepness: float

    def at(self, scores: Numbers) -> Numbers:
        """Return what to show for scores."""
        shown = 1.0 / (1.0 + np.exp(self.steepness * (self.middle - scores)))
        return np.asarray(shown, np.float32)


FIRST: Final = Weights(
    late=0.0, session=0.0, words=2.0, meaning=0.7, date=1.2, speaker=0.16, asks=-0.25
)
"""Of the first stage, and of all where the embedder gives no token states."""
CURVE: Final = Curve(middle=1.0, steepness=2.5)
FEW: Final = 15  # passages at which a score is half meaning
MEANING_ALONE: Final = 2.6  # what meaning counts for where it is all there is: the same range
SECOND_STAGE: Final = 200  # of 10,000: scoring 600 lifts recall by 0.002, of 3,000 by nothing
PROPOSED: Final = 300  # by vectors and by words each, where there are too many rows to score
EXACT_MIN: Final = 2_000  # rows whose meaning is compared exactly: it takes 0.05 ms
SCAN_SHARE: Final = 0.2  # of all rows: who asks for more is served faster by scoring all


class Question(NamedTuple):
    """A query, ready to be compared."""

    text: str
    embedded: Embedded
    centre: Vectors
    weights: Weights
    reference_us: int
    """What "last week" is relative to."""
    many: int
    """How many results are wanted, at least."""
    summaries: int = 0
    """How many passages of summaries are scored by all signals, beside those of memories."""


class Signals(NamedTuple):
    """Each signal of some passages of one index, float32 [n] each."""

    rows: Rows
    labels: Labels
    chains: Chains
    """The session of each, NONE for none."""
    summaries: Flags
    """Whether it is of a summary of compressed memories."""
    late: Numbers
    session: Numbers
    words: Numbers
    meaning: Numbers
    date: Numbers
    speaker: Numbers
    asks: Numbers

    def weighed(self, weights: Weights) -> Numbers:
        """Return the scores."""
        total = np.zeros(len(self.labels), np.float32)
        for name in weights.__struct_fields__:
            weight = getattr(weights, name)
            if weight:
                total += np.float32(weight) * getattr(self, name)
        return total

    def at(self, places: Rows) -> "Signals":
        """Return those of some places."""
        return Signals._make(column[places] for column in self)


class Ranked(NamedTuple):
    """Passages of one index with their scores, best first."""

    signals: Signals
    scores: Numbers
    """As weighed."""
    shown: Numbers
    """In [0, 1]."""
    weights: Weights

    def places(self, *, summaries: bool) -> list[int]:
        """Return where the passages of summaries are, or those of memories, best first."""
        places: list[int] = np.flatnonzero(self.signals.summaries == summaries).tolist()
        return places

    def explained(self, place: int) -> dict[str, float]:
        """Return what each signal adds to the score of a passage."""
        names = self.weights.__struct_fields__
        return {
            name: getattr(self.weights, name) * float(getattr(self.signals, name)[place])
            for name in names
        }


def rank(searched: Sequence[tuple[Parts, Rows | None]], question: Question) -> list[Ranked]:
    """Return the best passages of indexes; of the rows given with each only, if any.

    Takes about a millisecond at 10,000 passages.
    """
    firsts = [_first(parts, rows, question) for parts, rows in searched]
    chosen = _best_of_all(firsts, question)
    return [
        _second(parts, signals.at(places), question)
        for (parts, _), signals, places in zip(searched, firsts, chosen, strict=True)
    ]


# --- the first stage


def _first(parts: Parts, rows: Rows | None, question: Question) -> Signals:
    """Return the cheap signals of all rows that may be found."""
    traits, text = parts.traits, question.text
    words = parts.words.score_all(text)[1][: parts.size]
    columns = traits.view(parts.size)  # of many rows no column is taken that does not count
    if rows is None:
        rows = _proposed(parts, words, columns.summaries, question)
    taken = slice(0, parts.size) if rows is None else rows
    rows = np.arange(parts.size) if rows is None else rows
    none = np.zeros(len(rows), np.float32)
    speaker = traits.named(text)
    spans = named_spans(text, question.reference_us, traits.years())
    return Signals(
        rows=rows,
        labels=parts.dense.view().labels[taken],
        chains=columns.chains[taken],
        summaries=columns.summaries[taken],
        late=none,
        session=none,
        words=words[taken],
        meaning=_meaning(parts, rows, question),
        date=closeness(spans, columns.occurred_us[taken]) if spans else none,
        speaker=none if speaker is None else _equal(columns.speakers[taken], speaker),
        asks=columns.asks[taken],
    )


def _equal(numbers: Chains, number: int) -> Numbers:
    return np.asarray(numbers == number, np.float32)


def _proposed(parts: Parts, words: Numbers, summaries: Flags, question: Question) -> Rows | None:
    """Return the rows that vectors or words put among the best, and all summaries, in order.

    None where nothing proposes rows: then all are scored.
    """
    count = max(PROPOSED, 2 * question.many)
    close = parts.dense.proposed(question.embedded.vector, question.centre, count)
    if close is None:
        return None
    worded = np.flatnonzero(words)
    if len(worded) > count:
        worded = worded[np.argpartition(-words[worded], count)[:count]]
    chosen = summaries.copy() if question.summaries else np.zeros(parts.size, np.bool_)
    chosen[close[close < parts.size]] = True
    chosen[worded] = True
    return np.flatnonzero(chosen)


def _meaning(parts: Parts, rows: Rows, question: Question) -> Numbers:
    """Return how close rows are: exactly, or of many to 0.002."""
    if len(rows) < max(EXACT_MIN, SCAN_SHARE * parts.size):
        return _exactly(parts, rows, question)
    estimates = parts.dense.estimates(question.embedded.vector, question.centre)
    return estimates[: parts.size] if len(rows) == parts.size else estimates[rows]


def _exactly(parts: Parts, rows: Rows, question: Question) -> Numbers:
    return parts.dense.scores(question.embedded.vector, question.centre, rows)


def _best_of_all(firsts: Sequence[Signals], question: Question) -> list[Rows]:
    """Return the places of the best of all indexes together, by index: memories and summaries."""
    if not firsts:
        return []
    scores = np.concatenate([signals.weighed(FIRST) for signals in firsts])
    summary = np.concatenate([signals.summaries for signals in firsts])
    chosen = _best(scores, ~summary, max(SECOND_STAGE, 2 * question.many))
    if question.summaries:
        chosen |= _best(scores, summary, question.summaries)
    starts = np.cumsum([0, *(len(signals.rows) for signals in firsts)])
    return [np.flatnonzero(chosen[start:end]) for start, end in pairwise(starts)]


def _best(scores: Numbers, among: Flags, count: int) -> Flags:
    """Return which are the best `count` of some, and those that score the same as the last."""
    living = among & (scores > -np.inf)
    if np.count_nonzero(living) <= count:
        return living
    some = scores[living]
    last = np.partition(some, len(some) - count)[len(some) - count]
    return np.asarray(living & (scores >= last), np.bool_)


# --- the second stage


def _second(parts: Parts, signals: Signals, question: Question) -> Ranked:
    query = _tokens(parts.late, question)
    weights = _leaning(FIRST if query is None else question.weights, len(parts.dense))
    if query is not None:
        late = parts.late.score(query, signals.labels.tolist())
        signals = signals._replace(late=late, session=_session(signals.chains, late))
    else:
        signals = signals._replace(meaning=_exactly(parts, signals.rows, question))
    scores = signals.weighed(weights)
    order = np.lexsort((signals.labels, -scores))
    scores = scores[order]
    return Ranked(signals.at(order), scores, CURVE.at(scores), weights)


def _leaning(weights: Weights, count: int) -> Weights:
    """Return weights that lean on meaning, the more so the fewer passages there are."""
    trust = count**2 / (count**2 + FEW**2)
    scaled = {name: trust * getattr(weights, name) for name in weights.__struct_fields__}
    if weights.meaning:
        scaled["meaning"] += (1 - trust) * MEANING_ALONE
    return Weights(**scaled)


def _tokens(index: LateIndex, question: Question) -> QueryTokens | None:
    """Return the query's tokens as an index weighs them; None if one of both has none."""
    if question.embedded.tokens is None or not len(index):
        return None
    packed = unpack(question.embedded.tokens)
    return index.query(packed.token_ids.astype(np.int64), packed.states)


def _session(chains: Chains, late: Numbers) -> Numbers:
    """Return the best late interaction within each passage's session."""
    order = np.argsort(chains, kind="stable")
    ordered, starts = np.unique(chains[order], return_index=True)
    best = np.maximum.reduceat(late[order], starts) if len(late) else late
    return np.where(chains != NONE, best[np.searchsorted(ordered, chains)], late)
