"""A reviser that makes safe edits: none needs to understand what the text says.

Each round mends all faults of one kind, the first of these that the critique names and that can be
mended: misspelt terms, repeated sentences, wordy phrases, over-long sentences, too many words. One
kind a round, so that the score tells what each was good for. It never touches code, addresses,
tables, or what stands in quotation marks. Passive voice and hard words it cannot mend: a text with
nothing but those comes back as it was.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

import anyio.to_thread

from memory_actors.compaction.summarizers.coverage import concepts
from memory_actors.compaction.summarizers.sentences import count_words
from memory_actors.improve.local import faults
from memory_actors.improve.local.faults import Edit, Knowing, Prose, Sentence, edited, without
from memory_actors.improve.records import Critique

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
        if long_enough and free and _is_balanced(before) and ":" not in before:
            return found.span()
    return None


def _is_balanced(text: str) -> bool:
    pairs = all(text.count(a) == text.count(b) for a, b in _BRACKETS)
    return pairs and text.count('"') % 2 == 0


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
