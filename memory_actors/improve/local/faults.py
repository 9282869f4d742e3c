"""What a text has that could be better: one list of places for each kind of fault.

The critic counts them and the reviser mends them, so that both speak of the same places.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Final

from memory_actors.compaction.summarizers.coverage import concepts
from memory_actors.compaction.summarizers.sentences import count_words
from memory_actors.improve.local import phrases
from memory_actors.improve.local.prose import Better, Prose, Span
from memory_actors.improve.local.terms import Terms

REPEAT_WORDS_MIN: Final = 3
"""A shorter sentence may well stand twice: "Yes." """
SENTENCE_WORDS_MAX: Final = 30
"""Of a sentence that is easily read: guides to plain English say 20 to 30."""

_TOKEN: Final = re.compile(r"[^\W\d_]+(?:\d+|[^\W\d_])*")
_BARE: Final = re.compile(r"[\W_]+")


def misspelt(prose: Prose, terms: Terms) -> list[Better]:
    """Return the words that misspell a known term."""
    return [
        Better(found.start(), found.end(), found[0], meant, f"write {meant!r}")
        for found in _TOKEN.finditer(prose.text)
        if prose.may_change(found.start(), found.end())
        and (meant := terms.meant(found[0])) is not None
    ]


def repeated(prose: Prose) -> list[Span]:
    """Return the sentences that stand, but for marks and capitals, further ahead already.

    A heading is none: it may say what the text below it begins with.
    """
    seen: set[str] = set()
    spans = []
    for span in prose.sentences:
        bare = _BARE.sub(" ", span.text).strip().casefold()
        if span.words < REPEAT_WORDS_MIN or not prose.may_go(span):
            continue
        if bare in seen:
            spans.append(span)
        seen.add(bare)
    return spans


def wordy(prose: Prose) -> list[Better]:
    """Return the phrases that can be shorter, and the small words that stand twice."""
    starts = {span.start for span in prose.sentences}
    found = [*phrases.wordy(prose.text), *phrases.doubled(prose.text, starts)]
    return [one for one in found if prose.may_change(one.start, one.end)]


def long_sentences(prose: Prose) -> list[Span]:
    """Return the sentences of more than 30 words."""
    return [span for span in prose.sentences if span.words > SENTENCE_WORDS_MAX]


def passive(prose: Prose) -> list[Span]:
    """Return the sentences in the passive voice."""
    return [span for span in prose.sentences if phrases.is_passive(span.text)]


# --- where a long sentence may be parted

_PRONOUN: Final = "it|they|we|he|she|I|you|this|these|there"
_JOINT: Final = re.compile(rf";[ \t]+(?=(?:{_PRONOUN}|the)\b)|,[ \t]+and[ \t]+(?=(?:{_PRONOUN})\b)")
_HANGS: Final = re.compile(
    r"\b(?:because|if|unless|although|though|while|whether|when|whenever|that|which|who|where|as|since"
    r"|both|either|neither|not only)\b",
    re.IGNORECASE,
)
_PART_WORDS_MIN: Final = 5
JOINTS_TRIED: Final = 20
"""Of one sentence: each is weighed against the whole of it, and a sentence may be a whole text."""
_BRACKETS: Final = ("()", "[]", "\u201c\u201d", "\u00ab\u00bb")


def joint(sentence: str) -> tuple[int, int] | None:
    """Return where a sentence can be parted in two: the stretch that a full stop replaces.

    At a semicolon, or at `, and`, before a pronoun; where both parts have five words or more, no
    bracket or quotation is open, and before `and` nothing hangs on a word such as `because`.
    """
    for found in islice(_JOINT.finditer(sentence), JOINTS_TRIED):
        before, behind = sentence[: found.start()], sentence[found.end() :]
        long_enough = min(count_words(before), count_words(behind)) >= _PART_WORDS_MIN
        free = found[0].startswith(";") or not _HANGS.search(before)
        if long_enough and free and _is_balanced(before) and ":" not in before:
            return found.span()
    return None


def _is_balanced(text: str) -> bool:
    pairs = all(text.count(a) == text.count(b) for a, b in _BRACKETS)
    return pairs and text.count('"') % 2 == 0


# --- what a text can do without


def least_central(prose: Prose, words_over: int) -> Iterator[Span]:
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


def _by_worth(spans: Sequence[Span]) -> list[int]:
    """Return the places of all sentences but the first, the least worth for its length first."""
    if len(spans) < 2:
        return []
    said = concepts([span.text for span in spans], range(len(spans)))
    worth = said.per_sentence(said.weights) / [max(1, span.words) ** 0.5 for span in spans]
    return sorted(range(1, len(spans)), key=lambda place: (round(float(worth[place]), 9), -place))
