"""What sentences say: stems, and facts.

Each sentence becomes a set of concepts, numbered over the cluster:

- its stems. One that m of n memories have weighs `sqrt(m) ln(1 + n / 5m)`: what is said again and
  again is what the cluster is about, the tenth time adding less than the second; but what nearly
  all of them say tells nothing of any (a kind of TF-IDF; it peaks at about m = n / 20);
- its facts: numbers, dates and identifiers (whatever has a digit), and names (capitals inside a
  sentence; once found, at its beginning too). Each weighs as much as a stem of one memory, on top
  of what it weighs as a stem.

Measured on 26 stretches of 100 LoCoMo turns: 0.62 of the words of 595 answers are in the summaries,
0.58 to 0.64 with other sensible weights, 0.35 if as many words of random turns are taken.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from memory_actors.search.indexes.words import STOP_WORDS, words

FACT_WEIGHT: Final = 1.0
"""Of a fact, in stems of one memory."""
COMMON: Final = 5.0
"""How soon a stem counts as said by everybody: the 5 of the weight above."""
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
_FACT: Final = "#"
"""Begins a fact: no stem has it."""
_NOTHING: Final = ""
"""Stands for the stems of a sentence that has none; it weighs nothing."""
_NUMBER: Final = re.compile(
    r"(?<![\w])[A-Za-z_]*\d(?:[A-Za-z\d_.,:/+\-]*[A-Za-z\d_])?|\d[\d.,:]*\d|\d"
)
_NAME: Final = re.compile(r"[^\W\d_]+(?:['\u2019\-][^\W\d_]+)*")


class Concepts(NamedTuple):
    """What each of n sentences says. All arrays are read-only by agreement."""

    flat: Ints
    """The concepts of all sentences, one sentence after the other, none twice in a sentence."""
    starts: Ints
    """`[n]`: where each sentence begins in `flat`. Each has at least one concept."""
    weights: Floats
    """Of each concept."""
    facts: npt.NDArray[np.bool_]
    """Which concepts are facts."""
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
    """Return the weight of a stem that so many memories have, of so many."""
    return math.sqrt(memories) * math.log1p(of / (COMMON * memories))


def _facts(sentences: Iterable[str]) -> list[list[str]]:
    """Return the facts of each sentence: its numbers and names."""
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
    """Yield the words with a capital that may be names, and whether they come first."""
    for place, found in enumerate(_NAME.finditer(sentence)):
        word = found[0]
        if word[0].isupper() and not _is_pronoun(word):
            yield word.replace("\u2019", "'").casefold().removesuffix("'s"), place == 0


def _is_pronoun(word: str) -> bool:
    """Tell whether a word is written with a capital for being `I`, or for what began as one."""
    return word.replace("\u2019", "'").split("'")[0] == "I" or word.casefold() in STOP_WORDS
