"""Signals: what makes a passage an answer to a query. Its score is their weighed sum.

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

`mixtures.py` has the weights, `docs/internals/retrieval.md` what each signal is worth.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.kinds.phrasing import REPLYING, USER
from memory_actors.search.candidates import Chains, EmbeddedQuery, FirstStage, Flags, Numbers, Rows
from memory_actors.search.indexes.parts import ASKING, Parts
from memory_actors.search.indexes.traits import NONE, Columns

Labels = npt.NDArray[np.int64]

ECHOES_MAX: Final = 16  # questions compared with the query word by word: 20 us each
ECHO_MEANING_MIN: Final = 0.3  # cosine: a question that is farther from the query repeats nothing
ECHO_FROM: Final = 0.6  # share of a question that any question on the same subject has in common
TOOLS: Final = frozenset({"tool", "system"})
ASKED_ASIDE: Final = 3.0
"""A user's question among texts of other kinds counts so much more as one than a person's."""
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
    late = _late(parts, labels, question)
    summaries, words, asks = first.summaries[places], first.words[places], first.asks[places]
    meaning = first.meaning[places]
    users = parts.traits.are_of((USER,), columns.speakers[rows])
    echo = None if late is None else _echo(parts, labels, asks, meaning, users, question)
    return Signals(
        labels,
        owners,
        summaries=summaries if summaries.any() else None,
        late=late,
        words=_own_words(parts, rows, words, echo, question),
        meaning=meaning,
        date=None if first.date is None else first.date[places],
        speaker=None if first.speaker is None else first.speaker[places],
        asks=_asks(asks, users, first.mixture.chat),
        echo=echo,
        reply=None if first.reply is None else first.reply[places],
        next_turn=_next_turn(parts, rows, columns, late, echo),
        bare=_bare(parts, columns.bare[rows], labels, text),
    )


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
    users: Flags | None,
    question: EmbeddedQuery,
) -> Numbers | None:
    """Return how much of each question a query says too, of `ECHOES_MAX` that are like it.

    A turn of the user that is no question counts only if it repeats the query.
    """
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


def _asks(asks: Numbers, users: Flags | None, chat: float) -> Numbers:
    """Return how much passages ask; a user's question counts more, the less a store is a chat.

    Among texts of other kinds it is a question to the memory. In a chat it tells of the user.
    """
    if users is None:
        return asks
    return np.where(users, np.float32(1 + ASKED_ASIDE * (1 - chat)) * asks, asks)


def _own_words(
    parts: Parts, rows: Rows, words: Numbers, echo: Numbers | None, question: EmbeddedQuery
) -> Numbers:
    """Return how well words fit; of passages near an echo of the query only their own words.

    A passage is near if its window holds the echo. In a foreign query, where words count for the
    whole session, all passages of that session are near.
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
