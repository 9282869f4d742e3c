"""Where in its session a passage belongs: between those of lower and of higher place.

The places come with the state (`kinds.kind.Passage`), so a session reads the same whatever its
index lived through: rewordings, embeddings that came late or in another order, restarts, an index
that was made anew. Most passages go to the end of their session, which is remembered; for any other
the whole session is looked through.
"""

from typing import NamedTuple

from memory_actors.search.indexes.parts import Parts


class Place(NamedTuple):
    """What stands before a passage in its session; without that, what stands behind it. Labels."""

    after: int | None = None
    ahead_of: int | None = None


class Ends:
    """The ends of sessions, as far as they are known."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, int]] = {}
        """Place and label by session."""

    def leave(self, label: int, chain: str | None) -> None:
        """Take note that a passage goes."""
        if chain is not None and self._last.get(chain, (0, None))[1] == label:
            del self._last[chain]

    def place(self, label: int, place: int, chain: str | None, parts: Parts) -> Place:
        """Return where a passage belongs that comes now."""
        if chain is None:
            return Place()
        known = self._last.get(chain)
        if known is not None and known < (place, label) and known[1] in parts.words:
            found = Place(after=known[1])
        else:
            found = Place(*parts.beside(chain, place, label))
        if found.ahead_of is None:
            self._last[chain] = place, label
        return found
