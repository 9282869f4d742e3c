"""The choice among ranked memories: newer facts go first, equals are folded, alike ones give way.

Superseded facts. One that holds no more is often the better match: "I live in Hamburg" answers
"where do I live?" word by word, and "I moved to Vienna for the new job" does not. If such a fact is
found, the newer one that contradicts it takes its score, if its own is lower, and goes before it;
also one that was not among the best, for it answers the same. This does not apply if the newer fact
is outside the query's filters or times. If the query asks about the time before it (names a time
that it came after, or says "used to", "previous", "before"), the older fact goes first.

Equals. Two hits say the same if their words do, one after another: whatever their spaces, Unicode
forms, capitals, articles and the marks around words. And if nobody else says them, as far as that
is known: of two speakers each has said it. Vectors cannot tell: to the default model "is not
vegetarian" is closer to "is vegetarian" (0.97) than "the user is a vegetarian" is (0.94), and a
flight at 7:00 is closer still to one at 9:00 (0.99). Two entities, or two episodes, may be told in
the same words and are two; what a message or a fact says of one is not told again beside it. Values
and documents are never folded: their texts do not have their keys.

Alike ones. If diversity is asked for, a memory that is like a better one gives way to others (MMR).
"""

from collections.abc import Callable, Iterable
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from eventlog.core.records import to_datetime
from memory_actors.base.records import Hit, Memory
from memory_actors.base.validation import CONTENT_BYTES_MAX
from memory_actors.kinds import long_term, passages
from memory_actors.kinds.kind import Found, Kind
from memory_actors.kinds.long_term import LongTerm, MemoryRow
from memory_actors.kinds.passages import composed, normalised, spoken
from memory_actors.search.indexes.parts import Parts
from memory_actors.search.query import Query, Rows, Test, asked_until_us, asks_of_past

Numbers = npt.NDArray[np.float32]
NEAR_DUPLICATES_MAX = 100  # named in a hit
SPEAKERS_MAX = 1_000  # whose gists are kept
ALIKE = 0.8  # cosine of two texts about the same thing, most often; more is no more alike
_LEAST_SPREAD = 1e-6
_NOTHING = frozenset({"", "a", "an", "the"})
_MARKS = ".,;:!()[]{}\"'`*…“”‘’«»。、！"  # noqa: RUF001 - they are meant. "?" is left: it asks.

Newer = Callable[[MemoryRow], list[MemoryRow]]
"""Returns the memories that a row ranks behind."""


class Searchable(NamedTuple):
    """A kind with an index, the state that the answer is about, and what of it may be found."""

    kind: Kind
    state: Any
    searched: Parts
    rows: Rows | None
    """The rows that may be found; None for all."""
    passes: Test
    """Says of a row of the state whether it may be found."""


class Choice(NamedTuple):
    """A memory that may be a result, with its score."""

    found: Found
    score: float
    raw: float
    """Before it was brought to [0, 1]."""
    signals: dict[str, float] | None
    part: Searchable
    label: int


# --- superseded facts


def superseding(row: Any, state: LongTerm, as_of_us: int | None) -> dict[str, Any]:
    """Return the fields of a hit that say what supersedes a row of any kind, if anything does."""
    if not getattr(row, "superseded", ()):
        return {}
    newer = long_term.newer_ones(row, state.rows, as_of_us)
    if not newer:
        return {}
    held_until = to_datetime(newer[-1].occurred_at_us)
    return {"superseded_by": newer[0].memory_id, "held_until": held_until}


def newest_first(ordered: Iterable[Choice], state: LongTerm, query: Query) -> list[Choice]:
    """Return scored memories, best first, each superseded one behind its successor.

    If the query asks about an earlier time, it is before those that came after that time.
    """
    ordered = list(ordered)
    superseded = [one for one in ordered if getattr(one.found.row, "superseded", ())]
    if not superseded:
        return ordered
    times_us = [one.found.row.occurred_at_us for one in superseded]
    until_us, past = asked_until_us(query.text, query.asked_us, times_us), asks_of_past(query.text)

    def newer(row: MemoryRow) -> list[MemoryRow]:
        return long_term.newer_ones(row, state.rows, query.as_of_us)

    def is_later(row: MemoryRow) -> bool:
        after = until_us is not None and row.occurred_at_us >= until_us
        return after or (past and not newer(row))

    found = {one.found.row.memory_id: one for one in ordered}
    _take_scores(found, superseded, lambda row: [n for n in newer(row) if not is_later(n)])
    for one in superseded:
        _take_later_scores(found, one, filter(is_later, newer(one.found.row)))
    related = {
        row.memory_id: row for one in superseded for row in (one.found.row, *newer(one.found.row))
    }
    by_time = sorted(related.values(), key=long_term.age, reverse=True)
    places = {row.memory_id: place for place, row in enumerate(sorted(by_time, key=is_later), 1)}
    return sorted(
        found.values(), key=lambda one: (-one.score, places.get(one.found.row.memory_id, 0))
    )


def _take_later_scores(found: dict[str, Choice], older: Choice, later: Iterable[MemoryRow]) -> None:
    """Raise an older memory to the scores of those that came after the time that is asked about."""
    own = found[older.found.row.memory_id]
    known = [found[row.memory_id] for row in later if row.memory_id in found]
    best = max((own, *known), key=lambda one: one.score)
    found[own.found.row.memory_id] = own._replace(score=best.score, raw=best.raw)


def _take_scores(found: dict[str, Choice], superseded: Iterable[Choice], newer: Newer) -> None:
    """Raise newer memories to the scores of those they replaced, from the oldest on."""
    waiting = [(long_term.age(one.found.row), one.found.row.memory_id) for one in superseded]
    heapify(waiting)
    while waiting:
        older = found[heappop(waiting)[1]]
        for row in filter(older.part.passes, newer(older.found.row)):
            known = found.get(row.memory_id)
            if known is not None and known.score >= older.score:
                continue
            if known is None:
                label = passages.label(row.version)
                known = older._replace(found=older.found._replace(row=row), label=label)
            found[row.memory_id] = known._replace(score=older.score, raw=older.raw)
            if row.superseded:
                heappush(waiting, (long_term.age(row), row.memory_id))


# --- equals


class _First(NamedTuple):
    memory_id: str
    memory_type: str


class Folding:
    """Tells which of some texts say what one before them says.

    Equal texts end in the same word: a text is compared with those that share its last word.
    """

    def __init__(self) -> None:
        self._alone: dict[str, Memory | None] = {}
        """By last word, a memory that was compared with none; None: all that end so were."""
        self._said: dict[str, _First] = {}
        self._bare: dict[str, _First] = {}
        """The text without its speaker, where that is known."""
        self._alike: dict[str, list[str]] = {}

    def is_new(self, memory: Memory) -> bool:
        """Say whether none before it says the same, and take note of it."""
        if memory.key is not None:
            return True
        word = last_word(memory.content)
        if word not in self._alone:
            self._alone[word] = memory
            return True
        self._compare_all(word)
        return self._compared(memory)

    def _compare_all(self, word: str) -> None:
        """See that every text that ends in a word was compared with the others."""
        alone, self._alone[word] = self._alone.get(word), None
        if alone is not None:
            self._compared(alone)

    def _compared(self, memory: Memory) -> bool:
        bare = gist(memory.content)
        said = spoken(memory.content, memory.role)  # its speaker in front
        said = bare if said is memory.content else f"{_gist_of_speaker(f'{memory.role}:')} {bare}"
        own = _First(memory.memory_id, memory.memory_type)
        if memory.role is None:
            first = self._said.get(said, self._bare.get(said))
        else:
            first = self._said.get(said, self._said.get(bare))
            self._bare.setdefault(bare, own)
        if first is None:
            self._said[said] = own
            return True
        if memory.data is not None and first.memory_type == own.memory_type:
            return True
        alike = self._alike.setdefault(first.memory_id, [])
        if len(alike) < NEAR_DUPLICATES_MAX:
            alike.append(memory.memory_id)
        return False

    def leave_out(self, text: str) -> None:
        """Count a text as said, so that nothing that says the same is new, whoever says it."""
        self._compare_all(last_word(text))
        self._said[gist(text)] = _First("", "")

    def with_duplicates(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return hits with the ids of those that were folded into them."""
        replace, alike = msgspec.structs.replace, self._alike
        return [
            replace(hit, near_duplicates=(*hit.near_duplicates, *alike[hit.memory_id]))
            if hit.memory_id in alike
            else hit
            for hit in hits
        ]


def gist(text: str) -> str:
    """Return the normal form that equal texts share."""
    if len(text) > CONTENT_BYTES_MAX:  # a file or a picture: taking it apart takes too long
        return text
    bare = [
        kept
        for word in composed(text).casefold().split()
        if (kept := word if word.isalnum() else word.strip(_MARKS)) not in _NOTHING
    ]
    return " ".join(bare) or normalised(text)


def last_word(text: str) -> str:
    """Return the last word of a text's gist; "" for one that is nothing but articles and marks."""
    rest = composed(text).casefold()
    while words := rest.rsplit(None, 1):
        if (word := words[-1].strip(_MARKS)) not in _NOTHING:
            return word
        rest = words[0] if len(words) > 1 else ""
    return ""


_gist_of_speaker = lru_cache(SPEAKERS_MAX)(gist)


# --- alike ones


def diverse(scores: Numbers, vectors: Numbers, diversity: float, count: int) -> list[int]:
    """Choose one place after another, by its score less its likeness to those chosen before it.

    `vectors` are of length 1, one a row. Scores and likenesses are both brought to [0, 1] over what
    there is to choose from: as they are, the scores of one query lie close together, and the
    vectors of short texts, too. With a diversity of one half, a candidate that equals a chosen one
    gives way to a candidate that is like none.
    """
    if not len(scores):
        return []
    scores = _spread(scores, float(scores.min()), float(scores.max()))
    least = float((vectors @ vectors[int(np.argmax(scores))]).min())
    likeness = np.zeros(len(scores), np.float32)
    left = np.ones(len(scores), np.bool_)
    chosen: list[int] = []
    while left.any() and len(chosen) < count:
        gain = np.where(left, (1 - diversity) * scores - diversity * likeness, -np.inf)
        place = int(np.argmax(gain))
        left[place] = False
        chosen.append(place)
        alike = _spread(vectors @ vectors[place], least, ALIKE)
        likeness = np.maximum(likeness, alike * alike)  # to be a little alike costs little
    return chosen


def _spread(numbers: Numbers, least: float, most: float) -> Numbers:
    """Return numbers brought to [0, 1]: `least` and less to 0, `most` to 1."""
    spread = (numbers - least) / max(most - least, _LEAST_SPREAD)
    return np.asarray(np.clip(spread, 0, 1), np.float32)
