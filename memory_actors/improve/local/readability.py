"""How easily a text reads. The only importer of pyphen.

Flesch's reading ease (1948): 206.835 - 1.015 words per sentence - 84.6 syllables per word. 60 to 70
is plain English, below 30 a scientific paper. Syllables are counted by the hyphenation patterns of
LibreOffice, which part a word less often than a voice does: at least one for each run of vowels but
a silent `e` makes up for that.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import pyphen

WORDS_KEPT: Final = 4_096
"""Words whose syllables are remembered: the working vocabulary of a long text."""
_VOWELS: Final = re.compile(r"[aeiouy]+")
_SILENT: Final = re.compile(r"(?<=[^aeiouyl])e(?:s|d)?$")


def reading_ease(words: Sequence[str], sentences: int) -> float:
    """Return Flesch's reading ease; 100 of nothing."""
    if not words or not sentences:
        return 100.0
    syllables = sum(syllable_count(word.casefold()) for word in words)
    return 206.835 - 1.015 * len(words) / sentences - 84.6 * syllables / len(words)


@lru_cache(maxsize=WORDS_KEPT)
def syllable_count(word: str) -> int:
    """Return how many syllables an English word has, about."""
    parted = len(_patterns().positions(word)) + 1
    runs = len(_VOWELS.findall(_SILENT.sub("", word)))
    return max(1, parted, runs)


@lru_cache(maxsize=1)
def _patterns() -> pyphen.Pyphen:
    return pyphen.Pyphen(lang="en_US")
