"""A reviser that makes safe edits: none needs to understand what the text says.

Each round mends all faults of one kind, the first of these that the critique names and that can be
mended: misspelt terms, repeated sentences, wordy phrases, over-long sentences, too many words. One
kind a round, so that the score tells what each was good for. It never touches code, addresses,
tables, or what stands in quotation marks. Passive voice and hard words it cannot mend: a text with
nothing but those comes back as it was.
"""

from collections.abc import Callable, Iterable
from typing import Final

import anyio.to_thread

from memory_actors.improve.local import faults
from memory_actors.improve.local.critic import checked_words_max
from memory_actors.improve.local.prose import Better, Edit, Prose, edited, without
from memory_actors.improve.local.terms import Terms
from memory_actors.improve.protocol import Critique

_PARTED: Final = ". "


class LocalReviser:
    """Mends what a critique names, without a model. Takes what `LocalCritic` takes.

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
        self._words_max = checked_words_max(words_max)
        self._ways: dict[str, Callable[[Prose], list[Edit]]] = {
            "known term": self._spelt,
            "repetition": _said_once,
            "wordiness": _shorter,
            "long sentence": _parted,
            "length": self._fewer,
        }

    async def __call__(self, text: str, critique: Critique, /) -> str:
        """Return the text, revised."""
        return await anyio.to_thread.run_sync(self.revise, text, critique, abandon_on_cancel=True)

    def revise(self, text: str, critique: Critique) -> str:
        """Return the text, revised, at once."""
        prose, named = Prose(text), {finding.kind for finding in critique.findings}
        for kind, edits_of in self._ways.items():
            if kind not in named:
                continue
            revised = edited(text, edits_of(prose))
            if revised.strip() and revised != text:
                return revised
        return text

    def _spelt(self, prose: Prose) -> list[Edit]:
        return _replaced(faults.misspelt(prose, self._terms))

    def _fewer(self, prose: Prose) -> list[Edit]:
        if self._words_max is None:
            return []
        over = sum(span.words for span in prose.sentences) - self._words_max
        return without(prose, list(faults.least_central(prose, over)))


def _replaced(places: Iterable[Better]) -> list[Edit]:
    return [Edit(place.start, place.end, place.better) for place in places]


def _said_once(prose: Prose) -> list[Edit]:
    return without(prose, faults.repeated(prose))


def _shorter(prose: Prose) -> list[Edit]:
    return _replaced(faults.wordy(prose))


def _parted(prose: Prose) -> list[Edit]:
    edits = []
    for span in faults.long_sentences(prose):
        found = faults.joint(span.text)
        if found is None:
            continue
        start, end = span.start + found[0], span.start + found[1]
        if prose.may_change(start, end + 1):
            edits.append(Edit(start, end + 1, _PARTED + prose.text[end].upper()))
    return edits
