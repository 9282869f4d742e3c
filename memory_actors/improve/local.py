"""A critic and a reviser that need no model, no network and no data but what comes with them.

The same text gets the same critique and the same revision, always. They read English; of other
languages they judge repetition, length and known terms. The only importer of pyphen.

The critic measures seven kinds of fault, each a rate, and gives one score of them.

Theory. Each kind gives a rate from 0 (none) to 1 (as bad as it counts). The score is 1 less the
weighted rates, so that whatever is mended raises it. The weights are judgement: what costs every
reader time (repetition, hard reading) weighs the most, what may be meant (the passive) the least.

Flesch's reading ease (1948) is 206.835 - 1.015 words per sentence - 84.6 syllables per word. 60 to
70 is plain English, below 30 a scientific paper. Syllables are counted by the hyphenation patterns
of LibreOffice, which part a word less often than a voice does: at least one for each run of vowels
but a silent `e` makes up for that. (textstat counts better, but fetches a dictionary at first use.)
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final

import anyio.to_thread
import pyphen

from memory_actors.compaction.summarizers.coverage import concepts
from memory_actors.compaction.summarizers.sentences import count_words
from memory_actors.improve import faults
from memory_actors.improve.faults import (
    Edit,
    Knowing,
    Prose,
    Sentence,
    edited,
    quote,
    without,
    words_of,
)
from memory_actors.improve.records import QUOTE_CHARACTERS, Critique, CritiqueFinding

WEIGHTS: Final[Mapping[str, float]] = {
    "repetition": 0.25,
    "readability": 0.2,
    "known term": 0.15,
    "long sentence": 0.15,
    "wordiness": 0.1,
    "length": 0.1,
    "passive voice": 0.05,
}
"""They add up to 1."""
EASE_PLAIN: Final = 60.0
"""Flesch's reading ease of plain English: from here on down it counts, fully at 0."""
PASSIVE_SHARE: Final = 0.2
"""Of all sentences: so many in the passive are nobody's fault."""
PER_SENTENCE: Final = 0.5
"""Misspelt terms or wordy phrases for each sentence that count fully."""
WORDS_KEPT: Final = 4_096
"""Words whose syllables are remembered: the working vocabulary of a long text."""
_VOWELS: Final = re.compile(r"[aeiouy]+")
_SILENT: Final = re.compile(r"(?<=[^aeiouyl])e(?:s|d)?$")
SHOWN_MAX: Final = 20
"""Findings of one kind: then there are enough to do."""


class LocalCritic(Knowing):
    """Judges a text by what `WEIGHTS` names.

    `terms` are the names that should be spelt as given, `right` words that look like one but are
    none, `words_max` how long the text should be at most. Works in a thread.

    :raises InvalidInputError: `words_max` is not above 0, or too many terms.
    """

    async def __call__(self, text: str, /) -> Critique:
        """Return what could be better."""
        return await anyio.to_thread.run_sync(self.judge, text, abandon_on_cancel=True)

    def judge(self, text: str) -> Critique:
        """Return what could be better, at once."""
        rates: dict[str, float] = {}
        findings: list[CritiqueFinding] = []
        for kind, rate, found in self._kinds(Prose(text)):
            rates[kind] = min(1.0, max(0.0, rate))
            findings += found[:SHOWN_MAX]
        score = 1.0 - sum(WEIGHTS[kind] * rate for kind, rate in rates.items())
        worst = sorted(WEIGHTS, key=lambda kind: -WEIGHTS[kind] * rates[kind])
        said = [f"{kind} {rates[kind]:.0%}" for kind in worst if rates[kind] > 0]
        return Critique(score=round(score, 6), text=", ".join(said), findings=tuple(findings))

    def _kinds(self, prose: Prose) -> Iterator[tuple[str, float, list[CritiqueFinding]]]:
        """Yield each kind of fault, its rate, and where it is."""
        words = max(1, sum(span.words for span in prose.sentences))
        count = max(1, len(prose.sentences))
        repeats, long = faults.repeated(prose), faults.long_sentences(prose)
        wordy, misspelt = faults.wordy(prose), faults.misspelt(prose, self._terms)
        passive = faults.passive(prose)
        repeated_words = 2 * sum(span.words for span in repeats)
        said_before = _at("repetition", "stands further ahead already", repeats)
        yield "repetition", repeated_words / words, said_before
        yield _readability(prose)
        yield "known term", len(misspelt) / (PER_SENTENCE * count), _instead("known term", misspelt)
        over = f"has more than {faults.SENTENCE_WORDS_MAX} words"
        yield "long sentence", len(long) / count, _at("long sentence", over, long)
        yield "wordiness", len(wordy) / (PER_SENTENCE * count), _instead("wordiness", wordy)
        yield self._length(words)
        beyond = max(0.0, len(passive) / count - PASSIVE_SHARE) / (1 - PASSIVE_SHARE)
        said = passive if beyond else []
        yield "passive voice", beyond, _at("passive voice", "does not say who did it", said)

    def _length(self, words: int) -> tuple[str, float, list[CritiqueFinding]]:
        most = self._words_max
        if most is None or words <= most:
            return "length", 0.0, []
        message = f"has {words:,} words, {words - most:,} too many"
        return "length", (words - most) / most, [CritiqueFinding(kind="length", message=message)]


def _readability(prose: Prose) -> tuple[str, float, list[CritiqueFinding]]:
    words = [word for span in prose.sentences for word in words_of(span.text)]
    ease = reading_ease(words, len(prose.sentences))
    if ease >= EASE_PLAIN or not _is_latin(prose.text):
        return "readability", 0.0, []
    message = f"Flesch reading ease {ease:.0f}; plain English has {EASE_PLAIN:.0f} or more"
    return (
        "readability",
        (EASE_PLAIN - ease) / EASE_PLAIN,
        [CritiqueFinding(kind="readability", message=message)],
    )


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


def _is_latin(text: str) -> bool:
    """Tell whether most letters are of the alphabet that syllables are counted in."""
    if text.isascii():
        return True
    letters = [one for one in text if one.isalpha()]
    return 2 * sum(one.isascii() for one in letters) > len(letters)


def _at(kind: str, message: str, places: Sequence[Sentence]) -> list[CritiqueFinding]:
    return [_finding(kind, message, place.text) for place in places]


def _instead(kind: str, edits: Sequence[Edit]) -> list[CritiqueFinding]:
    return [_finding(kind, edit.advice, edit.said) for edit in edits]


def _finding(kind: str, message: str, place: str) -> CritiqueFinding:
    return CritiqueFinding(kind=kind, message=message, quote=quote(place, QUOTE_CHARACTERS))


# --- A reviser that makes safe edits: none needs to understand what the text says
#
# Each round mends all faults of one kind, the first of these that the critique names and that can
# be mended: misspelt terms, repeated sentences, wordy phrases, over-long sentences, too many words.
# One kind a round, so that the score tells what each was good for. It never touches code,
# addresses, tables, or what stands in quotation marks. Passive voice and hard words it cannot mend:
# a text with nothing but those comes back as it was.


_PARTED: Final = ". "


class LocalReviser(Knowing):
    """Mends what a critique names, without a model. Takes what `LocalCritic` takes.

    :raises InvalidInputError: `words_max` is not above 0, or too many terms.
    """

    async def __call__(self, text: str, critique: Critique, /) -> str:
        """Return the text, revised."""
        return await anyio.to_thread.run_sync(self.revise, text, critique, abandon_on_cancel=True)

    def revise(self, text: str, critique: Critique) -> str:
        """Return the text, revised, at once."""
        prose, named = Prose(text), {finding.kind for finding in critique.findings}
        ways: dict[str, Callable[[], list[Edit]]] = {
            "known term": lambda: faults.misspelt(prose, self._terms),
            "repetition": lambda: [without(text, span) for span in faults.repeated(prose)],
            "wordiness": lambda: faults.wordy(prose),
            "long sentence": lambda: _parted(prose),
            "length": lambda: self._fewer(prose),
        }
        for kind, edits in ways.items():
            revised = edited(text, edits()) if kind in named else text
            if revised.strip() and revised != text:
                return revised
        return text

    def _fewer(self, prose: Prose) -> list[Edit]:
        if self._words_max is None:
            return []
        over = sum(span.words for span in prose.sentences) - self._words_max
        return [without(prose.text, span) for span in _least_central(prose, over)]


def _parted(prose: Prose) -> list[Edit]:
    edits = []
    for span in faults.long_sentences(prose):
        found = _joint(span.text)
        if found is None:
            continue
        start, end = span.start + found[0], span.start + found[1]
        if prose.may_change(start, end + 1):
            edits.append(Edit(start, end + 1, _PARTED + prose.text[end].upper()))
    return edits


# --- where a long sentence may be parted

_PRONOUN: Final = "it|they|we|he|she|I|you|this|these|there"
_JOINT: Final = re.compile(rf";[ \t]+(?=(?:{_PRONOUN}|the)\b)|,[ \t]+and[ \t]+(?=(?:{_PRONOUN})\b)")
_HANGS: Final = re.compile(
    r"\b(?:because|if|unless|although|though|while|whether|when|whenever|that|which|who|where|as|since"
    r"|both|either|neither|not only)\b",
    re.IGNORECASE,
)
_PART_WORDS_MIN: Final = 5
_JOINTS_TRIED: Final = 20
"""Of one sentence: each is weighed against the whole of it, and a sentence may be a whole text."""
_BRACKETS: Final = ("()", "[]", "\u201c\u201d", "\u00ab\u00bb")


def _joint(sentence: str) -> tuple[int, int] | None:
    """Return where a sentence can be parted in two: the stretch that a full stop replaces.

    At a semicolon, or at `, and`, before a pronoun; where both parts have five words or more, no
    bracket or quotation is open, and before `and` nothing hangs on a word such as `because`.
    """
    for found in islice(_JOINT.finditer(sentence), _JOINTS_TRIED):
        before, behind = sentence[: found.start()], sentence[found.end() :]
        long_enough = min(count_words(before), count_words(behind)) >= _PART_WORDS_MIN
        free = found[0].startswith(";") or not _HANGS.search(before)
        closed = before.count('"') % 2 == 0 and all(
            before.count(a) == before.count(b) for a, b in _BRACKETS
        )
        if long_enough and free and closed and ":" not in before:
            return found.span()
    return None


# --- sentences that a text can do without


def _least_central(prose: Prose, words_over: int) -> Iterator[Sentence]:
    """Yield sentences that say least of what the text is about, until so many words have gone.

    Never the first: it says what the text is. At most a tenth of them, for each changes what the
    others are worth.
    """
    spans = [span for span in prose.sentences if prose.may_go(span)]
    left, count_max = words_over, max(1, len(spans) // 10)
    for place in _by_worth(spans)[:count_max]:
        if left <= 0:
            return
        left -= spans[place].words
        yield spans[place]


def _by_worth(spans: Sequence[Sentence]) -> list[int]:
    """Return the places of all sentences but the first, the least worth for its length first."""
    if len(spans) < 2:
        return []
    said = concepts([span.text for span in spans], range(len(spans)))
    worth = said.per_sentence(said.weights) / [max(1, span.words) ** 0.5 for span in spans]
    return sorted(range(1, len(spans)), key=lambda place: (round(float(worth[place]), 9), -place))
