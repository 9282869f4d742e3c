"""Hits that say the same are one hit: what is equal, and what all but equal means.

Two hits say the same if their words do, one after another: whatever their spaces, Unicode forms,
capitals, articles and the marks around words. And if nobody else says them, as far as that is
known: of two speakers each has said it. Vectors cannot tell: to the
default model "is not vegetarian" is closer to "is vegetarian" (0.97) than "the user is a
vegetarian" is (0.94), and a flight at 7:00 is closer still to one at 9:00 (0.99).

Two entities, or two episodes, may be told in the same words and are two; what a message or a fact
says of one is not told again beside it. Values and documents are never folded: their texts do not
have their keys.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from memory_actors.base.records import Hit, Memory, MemoryType
from memory_actors.kinds.phrasing import normalised, spoken

NEAR_DUPLICATES_MAX = 100  # named in a hit
_TEXTS = frozenset({MemoryType.SHORT_TERM, MemoryType.LONG_TERM})
_KEYED = frozenset({MemoryType.WORKING, MemoryType.STRUCTURED})
_ARTICLES = frozenset({"a", "an", "the"})
_MARKS = ".,;:!()[]{}\"'`*…“”‘’«»。、！"  # noqa: RUF001 - they are meant. "?" is left: it asks.


class _First(NamedTuple):
    memory_id: str
    memory_type: str


class Folding:
    """Which of some texts say what one before them says."""

    def __init__(self) -> None:
        self._said: dict[str, _First] = {}
        self._bare: dict[str, _First] = {}
        """The same without who said it, where that is known."""
        self._alike: dict[str, list[str]] = {}

    def is_new(self, memory: Memory) -> bool:
        """Say whether none before it says the same, and take note of it."""
        if memory.memory_type in _KEYED:
            return True
        said, own = (
            gist(spoken(memory.content, memory.role)),
            _First(memory.memory_id, memory.memory_type),
        )
        if memory.role is None:
            first = self._said.get(said, self._bare.get(said))
        else:
            bare = gist(memory.content)
            first = self._said.get(said, self._said.get(bare))
            self._bare.setdefault(bare, own)
        if first is None:
            self._said[said] = own
            return True
        if first.memory_type == own.memory_type not in _TEXTS:
            return True
        alike = self._alike.setdefault(first.memory_id, [])
        if len(alike) < NEAR_DUPLICATES_MAX:
            alike.append(memory.memory_id)
        return False

    def leave_out(self, text: str) -> None:
        """Let nothing be new that says what a text does, whoever says it."""
        self._said[gist(text)] = _First("", "")

    def told(self, hits: Iterable[Hit]) -> list[Hit]:
        """Return hits with the ids of those that were folded into them."""
        return [self._with_alike(hit) for hit in hits]

    def _with_alike(self, hit: Hit) -> Hit:
        alike: Sequence[str] = self._alike.get(hit.memory_id, ())
        return msgspec.structs.replace(hit, near_duplicates=tuple(alike)) if alike else hit


def gist(text: str) -> str:
    """Return what texts have in common that say the same."""
    common = normalised(text)
    words = (word.strip(_MARKS) for word in common.casefold().split())
    return " ".join(word for word in words if word and word not in _ARTICLES) or common
