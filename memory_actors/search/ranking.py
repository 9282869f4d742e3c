"""Ranking: the best passages of indexes for a query, each with the chance that it answers.

Two stages: all rows by the signals that cost little (`candidates.py`), then the best few hundred by
all of them. Then a newer text goes before an older one that is about the same thing. Summaries of
compressed memories go through all of it beside the others, but are chosen apart, so that neither
takes the place of the other.

Signals. The score of a passage is their weighed sum; `mixtures.py` has the weights, and
`docs/internals/retrieval.md` what each signal is worth.

- late: MaxSim of the query's token states with the passage's (`indexes/late.py`), -1 to 1
- words: BM25 of the passage and the two before it in its session (`indexes/lexical.py`), 0 to 1
- meaning: centred cosine of the vectors (`indexes/rows.py`), -1 to 1
- date: how near its time is to one that the query names (`dates`), 0 to 1; 0 if it names none
- speaker: 1 if the query names one speaker, and it is theirs
- asks: how much of it is a question, 0 to 1: a question seldom answers one; more if a user asks
  among texts of other kinds; half for any turn of a user among memories that nobody said
- echo: of a question, how much of it the query says too, 0 to 1: what says no more is no answer;
  1 for any turn of a user that is the query; among memories that nobody said, also for like ones,
  unless the query asks
- reply: 1 for a reply of an assistant; if the query asks for one, 0, and 4 for turns of others; if
  it asks for a question of the user, 0, and 4 for turns that ask nothing; -4 for a reply if turns
  of others are in an index without replies, which is no chat
- next_turn: `late` of the turn behind it, as a reply tells what it was about; else its own
- bare: 1 if it is a name and no more, and the query has other words: it is about more than a name

Newer texts. If a query asks about the present, a newer text about the same thing goes before an
older one, even if the older one has more words of the query: "I'm back on coffee" before "I stopped
drinking coffee". The more alike both are, the more the newer one may gain, in the unit of scores.
If two differ in one thing only ("is a citizen of Spain", "is a citizen of Denmark"), the newer one
gains whatever the query asks. If it asks what was "before" or "previously", older texts gain
instead. Replies, questions and summaries gain nothing. Turns between people gain only if they are
nearly the same, or if the query names the present. In a chat with an assistant, a newer turn that
is at least half like an older one may gain as much as it needs.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.base.weights import SIGNALS, Weights
from memory_actors.kinds.passages import REPLYING, USER
from memory_actors.search.candidates import (
    Chains,
    EmbeddedQuery,
    FirstStage,
    Flags,
    Numbers,
    Rows,
    candidates,
    weighed_sum,
)
from memory_actors.search.indexes.parts import ASKING, Parts
from memory_actors.search.indexes.traits import NONE, QUESTION_MARKS, Columns
from memory_actors.search.mixtures import (
    Mixture,
    answered_weights,
    chance_line,
    learned,
    plain,
    plain_chance_line,
    weighed,
)
from memory_actors.search.query import asks_of_past, is_about_now, is_about_past

Labels = npt.NDArray[np.int64]

ECHOES_MAX: Final = 16  # questions compared with the query word by word: 20 us each
ECHO_MEANING_MIN: Final = 0.3  # cosine: a question that is farther from the query repeats nothing
ECHO_FROM: Final = 0.6  # share of a question that any question on the same subject has in common
TOOLS: Final = frozenset({"tool", "system"})
ASKED_ASIDE: Final = 3.0
"""A user's question among texts of other kinds counts so much more as one than a person's."""
SAID_ASIDE: Final = 0.5
"""The part of a question that any turn of a user is among memories that nobody said."""
ECHOES_FROM: Final = 0.5  # of the query: what follows an earlier one is found by its own words


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


def signals_of(first: FirstStage, places: Rows, question: EmbeddedQuery) -> Signals:
    """Return the signals of the passages in some places of the first stage."""
    parts, columns, text = first.parts, first.columns, question.query.text
    rows = first.rows_at(places)
    labels, owners = parts.dense.row_labels[rows], columns.owners[rows]
    late, embedded = None, question.embedded
    if embedded.tokens is not None and embedded.states is not None and len(parts.late):
        late = parts.late.score(parts.late.query(embedded.tokens, embedded.states), rows)
    summaries, words, asks = first.summaries[places], first.words[places], first.asks[places]
    meaning = first.meaning[places]
    users = parts.traits.are_of((USER,), columns.speakers[rows])
    unsaid = first.mixture.documents + first.mixture.facts
    echo = None if late is None else _echo(parts, rows, asks, meaning, users, unsaid, question)
    return Signals(
        labels,
        owners,
        summaries=summaries if summaries.any() else None,
        late=late,
        words=_own_words(parts, rows, words, echo, question),
        meaning=meaning,
        date=None if first.date is None else first.date[places],
        speaker=None if first.speaker is None else first.speaker[places],
        asks=_asks(asks, users, first.mixture.chat, unsaid),
        echo=echo,
        reply=None if first.reply is None else first.reply[places],
        next_turn=_next_turn(parts, rows, columns, late, echo),
        bare=_bare(parts, columns.bare[rows], labels, text),
    )


def _echo(
    parts: Parts,
    rows: Rows,
    asks: Numbers,
    meaning: Numbers,
    users: Flags,
    unsaid: float,
    question: EmbeddedQuery,
) -> Numbers | None:
    """Return how much of each question a query says too, of `ECHOES_MAX` that are like it.

    If the query is no question, other turns of the user count, too, by the share of memories that
    nobody said: there they are requests ("Set it like last time"). Else they count only if they
    repeat the query, since "Did I park on level 3?" asks about a statement.
    """
    alike = np.flatnonzero(((asks > 0) | users) & (meaning > ECHO_MEANING_MIN))
    if not len(alike) or question.embedded.tokens is None:
        return None
    alike = alike[np.argsort(-meaning[alike], kind="stable")[:ECHOES_MAX]]
    said = parts.late.said_by(question.embedded.tokens, rows[alike])
    echo = np.zeros(len(rows), np.float32)
    if not any(mark in question.query.text for mark in QUESTION_MARKS):
        asks = np.maximum(asks, users * np.float32(unsaid))
    close = asks[alike] * np.clip((said - ECHO_FROM) / (1 - ECHO_FROM), 0, 1)
    echo[alike] = np.where(said == 1, 1, close)
    return echo


def _asks(asks: Numbers, users: Flags, chat: float, unsaid: float) -> Numbers:
    """Return how much passages ask; a user's question counts more, the less a store is a chat.

    Among texts of other kinds it is a question to the memory. In a chat it tells of the user.
    Any turn of the user counts as part of a question among memories that nobody said.
    """
    asked = np.float32(1 + ASKED_ASIDE * (1 - chat)) * asks
    return np.where(users, np.maximum(asked, np.float32(SAID_ASIDE * unsaid)), asks)


def _own_words(
    parts: Parts, rows: Rows, words: Numbers, echo: Numbers | None, question: EmbeddedQuery
) -> Numbers:
    """Return how well words fit; of passages near an echo of the query only their own words.

    A passage is near if its window holds the echo. In a foreign query, where words count for the
    whole session, all passages of that session are near.
    """
    if echo is None or not parts.words.chains.is_linked or not (echo >= ECHOES_FROM).any():
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
    if late is None or not parts.words.chains.is_linked:
        return late
    owners, speakers, traits = columns.owners, columns.speakers, parts.traits
    behind = parts.words.following_rows(rows, owners)
    best = np.full(int(owners.max(initial=0)) + 1, -np.inf, np.float32)
    telling = late if echo is None else np.where(echo < ECHOES_FROM, late, np.float32(-np.inf))
    np.maximum.at(best, owners[rows], telling)
    found = np.where(behind >= 0, best[owners[behind]], -np.inf)
    replies, tools = traits.are_of(REPLYING, speakers[rows]), traits.are_of(TOOLS, speakers[behind])
    found[replies | tools] = -np.inf
    users = traits.are_of((USER,), speakers[rows])
    own = ~np.isfinite(found) | (users & (columns.asks[rows] < ASKING) & (found < late))
    return np.where(own, late, found).astype(np.float32)


def _bare(parts: Parts, are_names: Flags, labels: Labels, text: str) -> Numbers | None:
    """Mark the passages that are names and lack a word of the query."""
    names = np.flatnonzero(are_names)
    if not len(names):
        return None
    bare = np.zeros(len(labels), np.float32)
    bare[names] = np.logical_not(parts.words.has_all(text, labels[names].tolist()))
    return bare


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


NEWEST_OF: Final = 16  # of the best passages
ALIKE_MIN: Final = 0.3  # likeness of two that are about the same thing
SAME_MIN: Final = 0.7
ALIKE_GAIN: Final = 4.0
SAME_GAIN: Final = 2.0
SAID_ALIKE: Final = (0.35, 0.55)
"""Likeness of two turns of one user to an assistant: up to the first number they are about two
things, from the second on the newer one replaces the older one. `tests/support/changed_facts.py`:
36 of 44 changes in other words come before what they replace, and 6 of 12 remarks that change
nothing come before what they remark on, which then is second or third."""
SAID_GAIN: Final = 7.0
BRIEF_WORDS: Final = (10, 20)
"""The words of a text, stop words left out: up to so many it says one thing; from so many on,
several."""
LATER_US: Final = 1_000_000  # what was said in one breath does not replace its own parts
_LIFT: Final = 1e-3


def gains_of_newer(
    first: FirstStage, rows: Rows, order: Rows, scores: Numbers, question: EmbeddedQuery
) -> Numbers:
    """Return the gains of newer passages: as much as puts them before those that they replace."""
    columns, mixture, query = first.columns, first.mixture, question.query
    gained = np.zeros(len(scores), np.float32)
    best = order[:NEWEST_OF]
    may = ~columns.summaries[rows[best]] & (columns.asks[rows[best]] < ASKING)
    best = best[may & ~first.parts.traits.are_of(REPLYING, columns.speakers[rows[best]])]
    if len(best) < 2 or mixture.foreign == 1 or mixture.statement:
        return gained
    earlier = asks_of_past(query.text)
    times = columns.occurred_us[rows[best]] * (-1 if earlier else 1)
    oldest_first = np.argsort(times, kind="stable")
    by_age, times = best[oldest_first], times[oldest_first]
    if times[-1] - times[0] < LATER_US:
        return gained
    vectors = first.parts.dense.vectors(rows[by_age])
    usual = float(question.centre @ question.centre)  # the cosine of two texts about nothing alike
    alike = (vectors @ vectors.T - usual) / max(1 - usual, 1e-6)
    present = 1.0 if is_about_now(query.text) else 1 - mixture.people
    if is_about_past(query.text) and not earlier:
        present = 0.0
    gains = SAME_GAIN * np.clip((alike - SAME_MIN) / (1 - SAME_MIN), 0, 1)
    one_thing, several = BRIEF_WORDS
    words = first.parts.words.chains.links.lengths[rows[by_age]]
    brief = np.clip((several - words) / (several - one_thing), 0, 1)
    likeness = ALIKE_GAIN * np.clip((alike - ALIKE_MIN) / (1 - ALIKE_MIN), 0, 1)
    two, one = SAID_ALIKE
    replaces = SAID_GAIN * np.clip((alike - two) / (one - two), 0, 1)
    said = mixture.chat + mixture.notes
    about_same = (1 - said) * likeness + said * replaces
    gains += present * about_same * np.minimum.outer(brief, brief)
    gains *= 1 - mixture.foreign
    own, ages = scores[by_age].tolist(), times.tolist()
    raised = own.copy()
    for older, gain in enumerate(gains.tolist()):  # of so few, numpy takes three times as long
        for newer in range(older + 1, len(own)):
            is_later = ages[newer] >= ages[older] + LATER_US
            if is_later and raised[newer] < raised[older] < own[newer] + gain[newer]:
                raised[newer] = raised[older] + _LIFT
    gained[by_age] = np.subtract(raised, own)
    return gained
