"""Where in its session a passage belongs: behind the last one, or where the one stood it replaces.

So a session reads the same whether its index followed each change or was made anew.
"""

from typing import NamedTuple

from memory_actors.indexes.lexical import LexicalIndex


class Place(NamedTuple):
    """What stands before a passage in its session; without that, what stands behind it. Labels."""

    after: int | None = None
    ahead_of: int | None = None


class Ends:
    """The end of each session, and the places of passages that are reworded just now."""

    def __init__(self) -> None:
        self.last: dict[str, int] = {}
        """Label by session."""
        self._instead: dict[int, Place] = {}

    def replace(self, gone: int, fresh: int, words: LexicalIndex) -> None:
        """Take note that a passage will stand where another one still stands."""
        self._instead[fresh] = Place(words.previous(gone), words.following(gone))

    def leave(self, label: int, chain: str | None, words: LexicalIndex) -> None:
        """Take note that a passage is about to go."""
        if chain is None or self.last.get(chain) != label:
            return
        previous = words.previous(label)
        if previous is None:
            del self.last[chain]
        else:
            self.last[chain] = previous

    def place(self, label: int, chain: str | None, words: LexicalIndex) -> Place:
        """Return where a passage belongs that comes now."""
        instead = self._instead.pop(label, None)
        if chain is None:
            return Place()
        last = self.last.get(chain)
        place = _behind_older(label, last, words) if instead is None else instead
        if place.ahead_of is None and place.after == last:
            self.last[chain] = label
        return place


def _behind_older(label: int, last: int | None, words: LexicalIndex) -> Place:
    """Return the place behind what is older: the end, unless younger ones were embedded sooner."""
    before, ahead_of = last, None
    while before is not None and before > label:
        before, ahead_of = words.previous(before), before
    return Place(before, ahead_of)
