"""Coverage: the sentences that say most of what a cluster says, within a budget.

The worth of a set of sentences is the weight of the concepts that it says at least once, and how
near it comes to each memory's vector. Both are monotone and submodular, so a greedy choice of the
sentence that adds most for its length comes close to the best. (Lin and Bilmes, "A Class of
Submodular Functions for Document Summarization", 2011; concepts after Gillick and Favre, 2009.)

Rules beside that:
- A sentence must be news: a fact not said yet, or a quarter of its stems.
- A decision or an outcome adds a quarter more. A question adds half: the answer is worth keeping.
- A few words cost as much as six: a cheer is short, but says nothing on its own.
- A sentence that adds, for its length, less than a third of what most do would only fill up the
  summary, unless it brings a fact.
- Of equals the choice is scattered over time, or it would all be from the beginning.
- A sentence comes near with its share in what its memory says, or else a greeting would be the
  cheapest way to speak for a memory.

Concepts are stems and facts. A stem that m of n memories have weighs `sqrt(m) ln(1 + n / 5m)`: what
is said again and again is what the cluster is about, but what nearly all say tells nothing of any.
Facts (numbers, dates, identifiers, names) weigh as much as a stem of one memory, on top of that.

On 26 stretches of 100 LoCoMo turns 0.62 of the words of 595 answers are in the summaries, 0.58 to
0.64 with other sensible weights, 0.35 in as many words of random turns.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from memory_actors.search.dot_products import float_dots
from memory_actors.search.embedding.protocol import Vectors
from memory_actors.search.indexes.words import STOP_WORDS, words

# --- some of many, spread over all of them: for summarisers that cannot read a cluster whole


GOLDEN: Final = 0.6180339887498949
"""Multiples of it, less their whole part, are spread most evenly and keep to no beat."""


def evenly(count: int, at_most: int) -> list[int]:
    """Return at most so many of `range(count)`, in order: one of each of as many equal stretches.

    Each is from another place in its stretch: every tenth of two people's turns is one person's.
    """
    return [
        start + int((place * GOLDEN) % 1.0 * (end - start))
        for place, (start, end) in enumerate(_stretches(count, at_most))
    ]


def typical(vectors: Vectors | None, count: int, at_most: int) -> list[int]:
    """Return at most so many of `range(count)`, in order: the most central of each stretch.

    Central is what is nearest to the mean vector; without vectors, `evenly` chooses.
    """
    if vectors is None:
        return evenly(count, at_most)
    centrality = float_dots(vectors, vectors.mean(axis=0)[None])[:, 0]
    return [
        start + int(np.argmax(centrality[start:end])) for start, end in _stretches(count, at_most)
    ]


def _stretches(count: int, at_most: int) -> Iterator[tuple[int, int]]:
    """Yield the bounds of at most so many parts of `range(count)`, as equal as can be."""
    parts = min(count, at_most)
    return pairwise(part * count // parts for part in range(parts + 1))


def scattered(count: int) -> list[int]:
    """Return `range(count)` in such an order that any beginning of it is spread over all of it.

    It is that of the numbers' bits read backwards: the start, the middle, the quarters, and so on.
    """
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda number: int(f"{number:0{bits}b}"[::-1], 2))


# --- the sentences that say most

NEWS_SHARE_MIN: Final = 0.25
OUTCOME_FACTOR: Final = 1.25
QUESTION_FACTOR: Final = 0.5
SHORT_WORDS: Final = 6
RATE_SHARE_MIN: Final = 0.35
LENGTH_POWER: Final = 0.7
"""1: worth per word; 0: worth alone, and long sentences win."""
VECTOR_SHARE: Final = 0.1
"""The worth of coming near to all vectors, as a share of saying all concepts."""
ANCHORS_MAX: Final = 200
"""Memories, evenly over time, whose vectors stand for all."""
FACT_WEIGHT: Final = 1.0
"""Weight of a fact, in stems of one memory."""
COMMON: Final = 5.0
"""The 5 of the weight above: the less, the sooner a stem counts as said by everybody."""
READ_CHARACTERS_MAX: Final = 1_000
"""Of a sentence: what stands behind is kept if it is chosen, but does not speak for it."""

Floats: TypeAlias = npt.NDArray[np.float64]
Ints: TypeAlias = npt.NDArray[np.int64]

_OUTCOMES: Final = frozenset(
    words(
        """
        agreed approved accepted announced bought broke cancelled cause chose chosen closed
        completed concluded confirmed deadline decided decision delivered deployed diagnosed engaged
        failed finished fixed got hired joined launched learned lost married merged moved outcome
        passed planned prefers promised promoted quit refused rejected released removed replaced
        resolved result reverted root scheduled shipped signed solved started stopped switched won
        """
    )
)
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")
_FACT: Final = "#"
"""Begins a fact: no stem has it."""
_NOTHING: Final = ""
"""Stands for the stems of a sentence that has none; it weighs nothing."""
_NUMBER: Final = re.compile(
    r"(?<![\w])[A-Za-z_]*\d(?:[A-Za-z\d_.,:/+\-]*[A-Za-z\d_])?|\d[\d.,:]*\d|\d"
)
_NAME: Final = re.compile(r"[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*")


# --- concepts


class Concepts(NamedTuple):
    """The concepts of each of n sentences. All arrays are read-only by agreement."""

    flat: Ints
    """The concepts of all sentences, one sentence after the other, none twice in a sentence."""
    starts: Ints
    """`[n]`: where each sentence begins in `flat`. Each has at least one concept."""
    weights: Floats
    """Of each concept."""
    facts: npt.NDArray[np.bool_]
    """True for concepts that are facts."""
    outcomes: npt.NDArray[np.bool_]
    """`[n]`: which sentences tell a decision or an outcome (English)."""

    def per_sentence(self, of_concepts: Floats) -> Floats:
        """Return the sum of a figure over the concepts of each sentence."""
        sums: Floats = np.add.reduceat(of_concepts[self.flat], self.starts)
        return sums

    def of(self, sentence: int) -> Ints:
        """Return the concepts of one sentence."""
        end = self.starts[sentence + 1] if sentence + 1 < len(self.starts) else None
        return self.flat[self.starts[sentence] : end]


def concepts(sentences: Sequence[str], memories: Sequence[int]) -> Concepts:
    """Return what sentences say; `memories` tells which memory each is of."""
    read = [sentence[:READ_CHARACTERS_MAX] for sentence in sentences]
    stems = [sorted(set(words(sentence))) or [_NOTHING] for sentence in read]
    numbers: dict[str, int] = {}
    rows = [
        [numbers.setdefault(concept, len(numbers)) for concept in (*said, *facts)]
        for said, facts in zip(stems, _facts(read), strict=True)
    ]
    return Concepts(
        flat=np.array([number for row in rows for number in row]),
        starts=np.array([0, *accumulate(map(len, rows))][:-1]),
        weights=_weights(numbers, stems, memories),
        facts=np.array([concept.startswith(_FACT) for concept in numbers]),
        outcomes=np.array([not _OUTCOMES.isdisjoint(said) for said in stems]),
    )


def _weights(
    concepts: Iterable[str], stems: Sequence[list[str]], memories: Sequence[int]
) -> Floats:
    pairs = {(memory, stem) for memory, row in zip(memories, stems, strict=True) for stem in row}
    said_by = Counter(stem for _, stem in pairs)
    count = len(set(memories))
    fixed = {_NOTHING: 0.0}
    of_fact = FACT_WEIGHT * _stem_weight(1, count)
    return np.array(
        [
            of_fact if one.startswith(_FACT) else fixed.get(one, _stem_weight(said_by[one], count))
            for one in concepts
        ]
    )


def _stem_weight(memories: int, of: int) -> float:
    return math.sqrt(memories) * math.log1p(of / (COMMON * memories))


def _facts(sentences: Iterable[str]) -> list[list[str]]:
    capitals = [list(_capitals(sentence)) for sentence in sentences]
    names = {word for found in capitals for word, first in found if not first}
    return [
        sorted(
            {_FACT + number for number in _NUMBER.findall(sentence)}
            | {_FACT + word for word, _ in found if word in names}
        )
        for sentence, found in zip(sentences, capitals, strict=True)
    ]


def _capitals(sentence: str) -> Iterator[tuple[str, bool]]:
    for place, found in enumerate(_NAME.finditer(sentence)):
        word = found[0]
        # `I`, and what it began, has a capital without being a name.
        pronoun = word.replace("\u2019", "'").split("'")[0] == "I" or word.casefold() in STOP_WORDS
        if word[0].isupper() and not pronoun:
            yield word.replace("\u2019", "'").casefold().removesuffix("'s"), place == 0


# --- which to keep


class Layout(NamedTuple):
    """The places of n sentences, and their costs.

    A memory's first sentence brings the memory's label, a day's first sentence the day's mark.
    Costs are `[n, 2]`: words and bytes, the space behind included.
    """

    memories: Ints
    """`[n]`: which memory each sentence is of."""
    days: Ints
    """`[n]`: which day each sentence is of."""
    sentences: Ints
    labels: Ints
    marks: Ints


class Worth(NamedTuple):
    """The worth of n sentences."""

    said: Concepts
    factors: Floats
    """`[n]`: what a sentence's gain is multiplied by."""
    nearness: Vectors
    """`[n, anchors]`: how near each comes to each anchor, at least 0; no anchors, no vectors."""


def worth(sentences: Sequence[str], memories: Ints, vectors: Vectors | None) -> Worth:
    """Return the worth of sentences; `memories` tells whose each is, and so which vector."""
    said = concepts(sentences, memories.tolist())
    asks = np.array([sentence.endswith(_QUESTION_MARKS) for sentence in sentences])
    factors = np.where(asks, QUESTION_FACTOR, np.where(said.outcomes, OUTCOME_FACTOR, 1.0))
    first: dict[str, int] = {}  # which tells since when
    factors[[n for n, one in enumerate(sentences) if first.setdefault(one, n) != n]] = 0.0
    if vectors is None:
        return Worth(said, factors, np.zeros((len(sentences), 0), np.float32))
    # By how much each comes nearer to each anchor than an average memory, times its share. Without
    # the average the first sentence would get all there is: in a cluster all are near.
    heard = said.per_sentence(said.weights)
    of_memory = np.bincount(memories, heard, minlength=len(vectors))[memories]
    share = (heard / np.maximum(of_memory, 1e-9)).astype(np.float32)
    cosines = float_dots(vectors, vectors[evenly(len(vectors), ANCHORS_MAX)])
    nearer = np.maximum(cosines - cosines.mean(axis=0), 0.0)[memories]
    return Worth(said, factors, share[:, None] * nearer)


def share_said(worth: Worth, chosen: Sequence[int]) -> float:
    """Return how much of what n sentences say some of them say, by weight: from 0 to 1."""
    said = np.unique(np.concatenate([worth.said.of(one) for one in chosen]))
    share: float = worth.said.weights[said].sum() / max(worth.said.weights.sum(), 1e-9)
    return share


def choose(
    worth: Worth, layout: Layout, *, words_max: int, bytes_max: int, picks_max: int | None = None
) -> list[int]:
    """Return the sentences to keep, in order of their choice; [] if none fits or says anything."""
    picker = _Picker(worth, layout, words_max, bytes_max)
    while picks_max is None or len(picker.taken) < picks_max:
        sentence = picker.best()
        if sentence is None:
            break
        picker.take(sentence)
    return picker.taken


class _Picker:
    def __init__(self, worth: Worth, layout: Layout, words_max: int, bytes_max: int):
        self._worth = worth
        self._layout = layout
        self._left = np.array([words_max, bytes_max])
        self._order = np.array(scattered(len(layout.memories)))
        self._shortness = np.maximum(SHORT_WORDS - layout.sentences[:, 0], 0)
        self._unsaid = np.ones(len(worth.said.weights))
        self._stems = np.where(worth.said.facts, 0.0, 1.0)
        self._stem_counts = np.maximum(worth.said.per_sentence(self._stems), 1.0)
        self._near = np.zeros(worth.nearness.shape[1], np.float32)
        self._near_weight = VECTOR_SHARE * worth.said.weights.sum() / max(len(self._near), 1)
        self._memory_opened = np.zeros(layout.memories.max() + 1, bool)
        self._day_opened = np.zeros(layout.days.max() + 1, bool)
        self._rate_min: float | None = None
        self.taken: list[int] = []

    def best(self) -> int | None:
        """Return the sentence that adds most for its length, of those that fit and are news."""
        costs, said = self._costs(), self._worth.said
        facts = said.per_sentence(said.facts * self._unsaid) > 0
        stems = said.per_sentence(self._stems * self._unsaid)
        lengths = (costs[:, 0] + self._shortness) ** LENGTH_POWER
        possible = (costs <= self._left).all(axis=1) & (
            facts | (stems >= NEWS_SHARE_MIN * self._stem_counts)
        )
        factors = self._worth.factors
        told = factors * said.per_sentence(said.weights * self._unsaid)
        nearer = np.maximum(self._worth.nearness - self._near, 0.0).sum(axis=1)
        neared = factors * self._near_weight * nearer
        told = np.where(possible, told / lengths, 0.0)
        if self._rate_min is None:
            self._rate_min = (
                RATE_SHARE_MIN * float(np.median(told[told > 0])) if told.any() else 0.0
            )
        worthwhile = (told > self._rate_min) | (facts & (told > 0))
        rates = np.where(worthwhile, told + neared / lengths, 0.0)
        found = int(self._order[np.round(rates[self._order], 9).argmax()])
        return found if rates[found] > 0 else None

    def take(self, sentence: int) -> None:
        """Keep a sentence."""
        self._left = self._left - self._costs()[sentence]
        self._memory_opened[self._layout.memories[sentence]] = True
        self._day_opened[self._layout.days[sentence]] = True
        self._unsaid[self._worth.said.of(sentence)] = 0.0
        self._near = np.maximum(self._near, self._worth.nearness[sentence])
        self.taken.append(sentence)

    def _costs(self) -> Ints:
        layout = self._layout
        brings_label = ~self._memory_opened[layout.memories]
        brings_mark = ~self._day_opened[layout.days]
        labels, marks = brings_label[:, None] * layout.labels, brings_mark[:, None] * layout.marks
        return layout.sentences + labels + marks
