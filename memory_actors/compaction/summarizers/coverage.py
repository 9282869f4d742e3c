"""Which sentences to keep: coverage of what is said, within a budget.

Theory. The worth of a set of sentences is the weight of the concepts that it says at least once,
and how near it comes to each memory's vector (facility location). Both are monotone and submodular:
a sentence adds less, the more is said already. So picking greedily, at each step the sentence that
adds most for its length, covers the cluster (centrality) without repeating itself (diversity), and
stops close to the best that the budget allows. (Lin and Bilmes, "A Class of Submodular Functions
for Document Summarization", 2011; concepts after Gillick and Favre, "A Scalable Global Model for
Summarization", 2009.)

Rules beside that:
- A sentence must be news: a fact not said yet, or a quarter of its stems. Near duplicates fall, and
  of those that are the same word for word all but the first.
- A decision or an outcome adds a quarter more. A question adds half: the answer is worth keeping.
- A few words cost as much as six: a cheer is short, but says nothing on its own.
- What has come to say less for its length than a third of what most do would only fill up, unless
  it brings a fact: as long as there are facts to say and room to say them, they are said.
- Of equals the choice is scattered over time, or it would all be from the beginning.
- A sentence comes near with its share in what its memory says, or else a greeting would be the
  cheapest way to speak for a memory.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from memory_actors.compaction.summarizers.concepts import Concepts, Floats, Ints, concepts
from memory_actors.compaction.summarizers.sampling import evenly, scattered
from memory_actors.search.dot_products import float_dots
from memory_actors.search.embedding.protocol import Vectors

NEWS_SHARE_MIN: Final = 0.25
OUTCOME_FACTOR: Final = 1.25
QUESTION_FACTOR: Final = 0.5
SHORT_WORDS: Final = 6
RATE_SHARE_MIN: Final = 0.35
LENGTH_POWER: Final = 0.7
"""1: worth per word; 0: worth alone, and long sentences win."""
VECTOR_SHARE: Final = 0.1
"""What coming near to all vectors is worth, as a share of saying all concepts."""
ANCHORS_MAX: Final = 200
"""Memories, evenly over time, whose vectors stand for all."""
_QUESTION_MARKS: Final = ("?", "\uff1f", "\u061f")


class Layout(NamedTuple):
    """Where n sentences stand, and what they take of a budget.

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
    """What makes n sentences worth keeping."""

    said: Concepts
    factors: Floats
    """`[n]`: what a sentence's gain is multiplied by."""
    nearness: Vectors
    """`[n, anchors]`: how near each comes to each anchor, at least 0; no anchors, no vectors."""


def worth(sentences: Sequence[str], memories: Ints, vectors: Vectors | None) -> Worth:
    """Return what sentences are worth; `memories` tells whose each is, and so which vector."""
    said = concepts(sentences, memories.tolist())
    asks = np.array([sentence.endswith(_QUESTION_MARKS) for sentence in sentences])
    factors = np.where(asks, QUESTION_FACTOR, np.where(said.outcomes, OUTCOME_FACTOR, 1.0))
    factors[_repeats(sentences)] = 0.0
    if vectors is None:
        return Worth(said, factors, np.zeros((len(sentences), 0), np.float32))
    return Worth(said, factors, _nearness(said, memories, vectors))


def share_said(worth: Worth, chosen: Sequence[int]) -> float:
    """Return how much of what n sentences say some of them say, by weight: from 0 to 1."""
    said = np.unique(np.concatenate([worth.said.of(one) for one in chosen]))
    share: float = worth.said.weights[said].sum() / max(worth.said.weights.sum(), 1e-9)
    return share


def _repeats(sentences: Sequence[str]) -> list[int]:
    """Return the sentences that stand word for word further ahead: the first tells since when."""
    first: dict[str, int] = {}
    return [n for n, sentence in enumerate(sentences) if first.setdefault(sentence, n) != n]


def _nearness(said: Concepts, memories: Ints, vectors: Vectors) -> Vectors:
    """Return by how much each comes nearer to each anchor than an average memory, times its share.

    Without the average the first sentence would get all there is: in a cluster all are near.
    """
    heard = said.per_sentence(said.weights)
    of_memory = np.bincount(memories, heard, minlength=len(vectors))[memories]
    share = (heard / np.maximum(of_memory, 1e-9)).astype(np.float32)
    anchors = vectors[evenly(len(vectors), ANCHORS_MAX)]
    cosines = float_dots(vectors, anchors)
    nearer: Vectors = share[:, None] * np.maximum(cosines - cosines.mean(axis=0), 0.0)[memories]
    return nearer


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
    """The state of one greedy choice."""

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
        costs, facts = self._costs(), self._new_facts()
        lengths = (costs[:, 0] + self._shortness) ** LENGTH_POWER
        possible = (costs <= self._left).all(axis=1) & (facts | self._has_new_stems())
        told, neared = self._gains()
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

    def _new_facts(self) -> npt.NDArray[np.bool_]:
        said = self._worth.said
        new: npt.NDArray[np.bool_] = said.per_sentence(said.facts * self._unsaid) > 0
        return new

    def _has_new_stems(self) -> npt.NDArray[np.bool_]:
        stems = self._worth.said.per_sentence(self._stems * self._unsaid)
        new: npt.NDArray[np.bool_] = stems >= NEWS_SHARE_MIN * self._stem_counts
        return new

    def _gains(self) -> tuple[Floats, Floats]:
        """Return what each sentence would add in concepts, and in nearness to the vectors."""
        said = self._worth.said
        told = said.per_sentence(said.weights * self._unsaid)
        nearer = np.maximum(self._worth.nearness - self._near, 0.0).sum(axis=1)
        return self._worth.factors * told, self._worth.factors * self._near_weight * nearer
