"""Ranking: what makes a memory an answer to a query.

The score of a passage is a sum of signals, each times its weight (`base/weights.py`):

- late: MaxSim of the query's token states with the passage's (`indexes/late.py`), -1 to 1
- words: BM25 of the passage and the two before it in its session (`indexes/lexical.py`), 0 to 1
- meaning: centred cosine of the vectors (`indexes/rows.py`), -1 to 1
- date: how near its time is to one that the query names (`dates`), 0 to 1; 0 if it names none
- speaker: 1 if the query names one speaker, and it is theirs
- asks: how much of it is a question, 0 to 1: a question seldom answers one; more if a user asks
  among texts of other kinds
- echo: of a question, how much of it the query says too, 0 to 1: what says no more is no answer;
  1 for any turn of a user that is the query
- reply: 1 for a reply of an assistant, -4 if the query asks for what one said
- next_turn: `late` of the turn behind it, as a reply tells what it was about; else its own
- bare: 1 if it is a name and no more, and the query has other words: it is about more than a name

Two stages: all rows by the signals that cost little, then the best few hundred by all of them.
Then a newer text goes before an older one that is about the same thing (`_newest_first`).
Summaries of compressed memories go through all of it beside the others, but are chosen apart, so
that neither takes the place of the other.
`docs/internals/retrieval.md` says what each signal is worth.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any, Final, NamedTuple, TypeVar, cast

import numpy as np
import numpy.typing as npt

from memory_actors.base.weights import (
    AROUND,
    FEW_PASSAGES,
    FIRST,
    FIRST_CHAT,
    FIRST_FOREIGN,
    LONG_WORDS,
    PLAIN,
    SIGNALS,
    Mixture,
    Weights,
    answered_weights,
    between,
    chance_line,
    learned,
    plain_chance_line,
    weighed,
)
from memory_actors.kinds.phrasing import REPLYING, USER
from memory_actors.search.dates import closeness, named_spans
from memory_actors.search.embedding.protocol import Embedded, Vectors
from memory_actors.search.indexes.bm25 import Windows
from memory_actors.search.indexes.labels import in_order
from memory_actors.search.indexes.parts import ASKING, Parts
from memory_actors.search.indexes.traits import NONE, Columns
from memory_actors.search.query import Query, asks_for_replies, is_about_past

Numbers = npt.NDArray[np.float32]
Labels = npt.NDArray[np.int64]
Rows = npt.NDArray[np.intp]
Chains = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
C = TypeVar("C", bound=npt.NDArray[Any])


SECOND_STAGE: Final = 200  # of 10,000: scoring 600 lifts recall by 0.002, of 3,000 by nothing
COMPRESSED_CANDIDATES: Final = 24  # passages of summaries, 150 tokens each, beside them
PROPOSED: Final = 300  # by vectors and by words each, where there are too many rows to score
ECHOES_MAX: Final = 16  # questions compared with the query word by word: 20 us each
ECHO_MEANING_MIN: Final = 0.3  # cosine: a question that is farther from the query repeats nothing
ECHO_FROM: Final = 0.6  # share of a question that any question on the same subject has in common
ASKED_FOR: Final = 4.0
"""A reply that is asked for leads by so much of what it loses where it is not."""
TOOLS: Final = frozenset({"tool", "system"})
ASKED_ASIDE: Final = 3.0
"""A user's question among texts of other kinds counts so much more as one than a person's."""
ECHOES_FROM: Final = 0.5  # of the query: what follows an earlier one is found by its own words
SCAN_SHARE: Final = 0.2  # of all rows: who asks for more is served faster by scoring all


class EmbeddedQuery(NamedTuple):
    """A query, ready to be compared."""

    query: Query
    embedded: Embedded
    centre: Vectors
    foreign: float = 0.0
    """The share of it that the model cannot read, 0 to 1."""


class Signals(NamedTuple):
    """Each signal of some passages of one index, float32 [n], or None if it is 0 for all."""

    labels: Labels
    owners: Chains
    """The number of the memory of each."""
    summaries: Flags | None
    """True for summaries of compressed memories; it is None if there are no summaries."""
    late: Numbers | None
    words: Numbers
    meaning: Numbers
    date: Numbers | None
    speaker: Numbers | None
    asks: Numbers
    echo: Numbers | None
    reply: Numbers | None
    next_turn: Numbers | None
    bare: Numbers | None


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
    firsts = [_first(parts, rows, question) for parts, rows in searched]
    chosen = _best_of_all(firsts, question)
    return [_second(first, places, question) for first, places in zip(firsts, chosen, strict=True)]


ANSWER_TOP: Final = 3


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


def _weighed(count: int, signals: Any, weights: Weights) -> Numbers:
    """Return the scores of so many passages: the sum of those signals that are there, weighed."""
    total: Numbers | None = None
    for name in SIGNALS:
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


def _first(parts: Parts, rows: Rows | None, question: EmbeddedQuery) -> _First:
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
    speaker = traits.named(query.text)
    theirs = None if speaker is None else columns.speakers[taken] == speaker
    said = None if replies is None else replies.astype(np.float32)
    if said is not None and asks_for_replies(query.text):
        said *= np.float32(-ASKED_FOR)
    spans = named_spans(query.text, query.asked_us, traits.years())
    return _First(
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
        reply=said,
    )


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
    alone = parts.words.score_all(question.query.text, before=0)[1][: parts.size]
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


def _best_of_all(firsts: Sequence[_First], question: EmbeddedQuery) -> list[Rows]:
    """Return the places of the best of all indexes together, by index: memories and summaries."""
    if not firsts:
        return []
    counts = [len(first.words) for first in firsts]
    scores = _joined(
        [
            _weighed(count, first, _first_weights(first.mixture))
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
    starts = accumulate(counts, initial=0)
    return [np.flatnonzero(chosen[start:end]) for start, end in pairwise(starts)]


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


# --- the second stage


def _second(first: _First, places: Rows, question: EmbeddedQuery) -> Ranked:
    """Return the passages in some places of the first stage, by all signals."""
    parts, columns, text = first.parts, first.columns, question.query.text
    rows = places if first.rows is None else first.rows[places]
    labels, owners = parts.dense.row_labels[rows], columns.owners[rows]
    late = _late(parts, labels, question)
    summaries, words, asks = first.summaries[places], first.words[places], first.asks[places]
    echo = None
    if late is not None:
        echo = _echo(parts, labels, asks, first.meaning[places], columns.speakers[rows], question)
    signals = Signals(
        labels,
        owners,
        summaries=summaries if summaries.any() else None,
        late=late,
        words=_of_their_own(parts, rows, words, echo, question),
        meaning=first.meaning[places],
        date=None if first.date is None else first.date[places],
        speaker=None if first.speaker is None else first.speaker[places],
        asks=_asks(first, rows, asks),
        echo=echo,
        reply=None if first.reply is None else first.reply[places],
        next_turn=_next_turn(parts, rows, columns, late, echo),
        bare=_bare(parts, columns.bare[rows], labels, text),
    )
    usual = PLAIN if late is None else learned(first.mixture)
    weights = weighed(usual, question.query.weights)
    scores = _weighed(len(rows), signals, weights)
    order = np.lexsort((labels, -scores))
    gains = _newest_first(first, rows, order, scores, question)
    scores = scores + gains
    order = np.lexsort((labels, -scores))
    chance = plain_chance_line if late is None else chance_line
    constant, slope = chance(first.mixture)
    shown = np.asarray(1 / (1 + np.exp(-(constant + slope * scores))), np.float32)
    return Ranked(signals, scores, gains, shown, order, weights, first.mixture)


def _late(parts: Parts, labels: Labels, question: EmbeddedQuery) -> Numbers | None:
    """Return the late interaction of passages, if there is any."""
    tokens, states = question.embedded.tokens, question.embedded.states
    if tokens is None or states is None or not len(parts.late):
        return None
    return parts.late.score(parts.late.query(tokens, states), labels)


def _echo(
    parts: Parts,
    labels: Labels,
    asks: Numbers,
    meaning: Numbers,
    speakers: Chains,
    question: EmbeddedQuery,
) -> Numbers | None:
    """Return how much of each question a query says too, of `ECHOES_MAX` that are like it.

    A turn of the user that is no question counts only if it repeats the query.
    """
    users = parts.traits.are_of((USER,), speakers)
    asked = asks > 0
    may = asked if users is None else asked | users
    alike = np.flatnonzero(may & (meaning > ECHO_MEANING_MIN))
    if not len(alike) or question.embedded.tokens is None:
        return None
    alike = alike[np.argsort(-meaning[alike], kind="stable")[:ECHOES_MAX]]
    said = parts.late.said_by(question.embedded.tokens, labels[alike])
    echo = np.zeros(len(labels), np.float32)
    close = asks[alike] * np.clip((said - ECHO_FROM) / (1 - ECHO_FROM), 0, 1)
    echo[alike] = np.where(said == 1, 1, close)
    return echo


def _asks(first: _First, rows: Rows, asks: Numbers) -> Numbers:
    """Return how much passages ask; what a user asks elsewhere than in a chat counts for more.

    Among texts of other kinds it is a question to the memory. In a chat it tells of the user.
    """
    users = first.parts.traits.are_of((USER,), first.columns.speakers[rows])
    if users is None or first.mixture.chat == 1:
        return asks
    return np.where(users, np.float32(1 + ASKED_ASIDE * (1 - first.mixture.chat)) * asks, asks)


def _of_their_own(
    parts: Parts, rows: Rows, words: Numbers, echo: Numbers | None, question: EmbeddedQuery
) -> Numbers:
    """Return how well words fit; near an echo of the query the passages' own words alone.

    Near is what has it in its window; in a foreign query, whose words count in all of a session,
    also the rest of that.
    """
    if echo is None or not parts.words.is_linked or not (echo >= ECHOES_FROM).any():
        return words
    echoes = rows[echo >= ECHOES_FROM]
    near = np.isin(rows, parts.words.rows_behind(echoes))
    if question.foreign:
        chains = parts.traits.view(parts.size).chains
        near |= (chains[rows] != NONE) & np.isin(chains[rows], chains[echoes])
    own = words.copy()
    own[near] = parts.words.windows(question.query.text, before=0).of(rows[near])
    return own


def _next_turn(
    parts: Parts, rows: Rows, columns: Columns, late: Numbers | None, echo: Numbers | None
) -> Numbers | None:
    """Return the best `late` of the turn behind each, if it is a candidate; else its own.

    A user's next turn says nothing about a reply, nor does the call of a tool, nor an echo of the
    query. And a reply such as "Noted." takes nothing from what a user has stated.
    """
    if late is None or not parts.words.is_linked:
        return late
    owners, speakers, traits = columns.owners, columns.speakers, parts.traits
    behind = parts.words.following_rows(rows, owners)
    best = np.full(int(owners.max(initial=0)) + 1, -np.inf, np.float32)
    telling = late if echo is None else np.where(echo < ECHOES_FROM, late, np.float32(-np.inf))
    np.maximum.at(best, owners[rows], telling)
    found = np.where(behind >= 0, best[owners[behind]], -np.inf)
    replies, tools = traits.are_of(REPLYING, speakers[rows]), traits.are_of(TOOLS, speakers[behind])
    for telling_nothing in (replies, tools):
        if telling_nothing is not None:
            found[telling_nothing] = -np.inf
    users = traits.are_of((USER,), speakers[rows])
    own = ~np.isfinite(found)
    if users is not None:
        own |= users & (columns.asks[rows] < ASKING) & (found < late)
    return np.where(own, late, found).astype(np.float32)


def _bare(parts: Parts, are_names: Flags, labels: Labels, text: str) -> Numbers | None:
    """Mark the passages that are names and lack a word of the query."""
    names = np.flatnonzero(are_names)
    if not len(names):
        return None
    bare = np.zeros(len(labels), np.float32)
    bare[names] = np.logical_not(parts.words.has_all(text, labels[names].tolist()))
    return bare


# --- the newer of two that are about the same thing
#
# Where the present is asked, a newer text about the same thing goes before an older one whose words
# may fit better: "I'm back on coffee" before "I stopped drinking coffee". The more alike both are,
# the more the newer one may gain, in the unit of scores. If two are nearly the same but for one
# thing ("is a citizen of Spain", "is a citizen of Denmark"), the newer one gains at any time.
# Replies, questions and summaries gain nothing; turns between people only where nearly the same.

NEWEST_OF: Final = 16  # of the best passages
ALIKE_MIN: Final = 0.3  # cosine of two that are about the same thing
SAME_MIN: Final = 0.7
ALIKE_GAIN: Final = 4.0
SAME_GAIN: Final = 2.0
BRIEF_WORDS: Final = (10, 20)
"""The words of a text, stop words left out: up to so many it says one thing; from so many on,
several."""
LATER_US: Final = 1_000_000  # what was said in one breath does not replace its own parts
_LIFT: Final = 1e-3


def _newest_first(
    first: _First, rows: Rows, order: Rows, scores: Numbers, question: EmbeddedQuery
) -> Numbers:
    """Return the gains of newer passages: as much as puts them before those that they replace."""
    columns, mixture, query = first.columns, first.mixture, question.query
    gained = np.zeros(len(scores), np.float32)
    best = order[:NEWEST_OF]
    may = ~columns.summaries[rows[best]] & (columns.asks[rows[best]] < ASKING)
    if first.reply is not None:
        may &= ~cast("Flags", first.parts.traits.are_of(REPLYING, columns.speakers[rows[best]]))
    best = best[may]
    if len(best) < 2 or mixture.foreign == 1 or mixture.statement:
        return gained
    times = columns.occurred_us[rows[best]]
    by_age = best[np.argsort(times, kind="stable")]
    times = columns.occurred_us[rows[by_age]]
    if times[-1] - times[0] < LATER_US:
        return gained
    vectors = first.parts.dense.vectors(rows[by_age])
    alike = vectors @ vectors.T
    present = 0.0 if is_about_past(query.text) else 1 - mixture.people
    gains = SAME_GAIN * np.clip((alike - SAME_MIN) / (1 - SAME_MIN), 0, 1)
    one_thing, several = BRIEF_WORDS
    lengths = first.parts.words.lengths(first.parts.size)[rows[by_age]]
    brief = np.clip((several - lengths) / (several - one_thing), 0, 1)
    likeness = np.clip((alike - ALIKE_MIN) / (1 - ALIKE_MIN), 0, 1)
    gains += present * ALIKE_GAIN * likeness * np.minimum.outer(brief, brief)
    gains *= 1 - mixture.foreign
    own = scores[by_age]
    raised = own.copy()
    for older in range(len(by_age)):
        newer = times >= times[older] + LATER_US
        newer &= (raised < raised[older]) & (raised[older] - own < gains[older])
        raised[newer] = raised[older] + _LIFT
    gained[by_age] = raised - own
    return gained
