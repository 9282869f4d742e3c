"""Known terms, and the words that misspell them. The only importer of rapidfuzz.

A word is taken for a misspelt term when it begins with the same letter and is one edit away (a
letter more, less, another, or two in the wrong order), two where the term has eight letters or
more; or when only its capitals differ and the term has some inside (`postgresql`). What is too
short to tell, another known term, an inflection or a short form of one (`postgres`), or named as
right is left alone. That is a guess: a rare word may look like a term. Name such words in `right`.
"""

from collections.abc import Iterable
from typing import Final

from rapidfuzz.distance import OSA

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.validation import check_count
from memory_actors.improve.local.prose import words_of
from memory_actors.search.indexes.words import STOP_WORDS

TERMS_MAX: Final = 1_000
LETTERS_MIN: Final = 4
LONG_LETTERS: Final = 8
_ENDINGS: Final = ("", "s", "es", "'s", "\u2019s", "ed", "ing")


class Terms:
    """Terms, and words that look like one but are right.

    :raises InvalidInputError: more than 1,000 terms, or no collection of texts.
    """

    def __init__(self, terms: Iterable[str], right: Iterable[str] = ()):
        given = _texts(terms, "terms")
        if len(given) > TERMS_MAX:
            raise InvalidInputError(f"there are {len(given):,} terms (max: {TERMS_MAX:,})")
        words = {word for term in given for word in words_of(term)}
        long = sorted(word for word in words if len(word) >= LETTERS_MIN)
        self._by_letter: dict[str, list[str]] = {}
        for word in long:
            self._by_letter.setdefault(word[0].casefold(), []).append(word)
        self._exact = {word.casefold(): word for word in long}
        self._right = {one.casefold() for one in _texts(right, "right")} | STOP_WORDS

    def meant(self, word: str) -> str | None:
        """Return the term that a word misspells; None if it misspells none."""
        folded = word.casefold()
        if len(word) < LETTERS_MIN or folded in self._right or self._inflects(folded):
            return self._recased(word)
        near = [
            (distance, term)
            for term in self._by_letter.get(folded[0], ())
            if (distance := _distance(folded, term.casefold())) is not None
        ]
        return min(near)[1] if near else None

    def _inflects(self, folded: str) -> bool:
        return any(
            folded.removesuffix(ending) in self._exact
            for ending in _ENDINGS
            if folded.endswith(ending)
        )

    def _recased(self, word: str) -> str | None:
        """Return a term that is the same but for its capitals, if it has some inside."""
        term = self._exact.get(word.casefold())
        inside = term is not None and term[1:] != term[1:].lower()
        return term if inside and term != word and word.casefold() not in self._right else None


class Knowing:
    """The settings that the local critic and the local reviser share.

    :raises InvalidInputError: `words_max` is not above 0, or too many terms.
    """

    def __init__(
        self,
        terms: Iterable[str] = (),
        *,
        right: Iterable[str] = (),
        words_max: int | None = None,
    ):
        self._terms = Terms(terms, right)
        self._words_max = words_max
        if words_max is not None:
            check_count(words_max, "words_max", 1)


def _texts(given: object, what: str) -> list[str]:
    """Return the texts of a collection; one text alone would be one of letters."""
    texts = None if isinstance(given, str) or not isinstance(given, Iterable) else list(given)
    if texts is None or any(not isinstance(one, str) for one in texts):
        raise InvalidInputError(f"{what} must be a collection of texts, not {given!r:.80}")
    return texts


def _distance(word: str, term: str) -> int | None:
    """Return how many edits lie between two words; None if too many for their length."""
    edits_max = 2 if len(term) >= LONG_LETTERS else 1
    distance = OSA.distance(word, term, score_cutoff=edits_max)
    short_form = distance > 1 and term.startswith(word)
    return distance if 0 < distance <= edits_max and not short_form else None
