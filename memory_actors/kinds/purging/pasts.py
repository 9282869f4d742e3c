"""The past of a memory without the words of a source: what is left of it is made of that.

A purge leaves the words that it took out in the log, and says some others anew. So the next one
must pass over both: the words, for they are purged, and what was said anew, for it is said by the
events before it. Only a whole memory said anew counts: it names its origins, and what came before
it may have been dropped by retention.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.origins import matches, origins_of
from memory_actors.base.records import Trust
from memory_actors.kinds.events import ENDS, effect
from memory_actors.kinds.lives import Past
from memory_actors.kinds.purging.command import PURGED_SOURCE, PURGED_TRUST


class TaintedPast(NamedTuple):
    """Every event about one memory, and which of them have words of the source that is purged."""

    memory_id: str
    events: Past
    tainted: Callable[[Recorded[Any]], bool]

    @property
    def clean(self) -> list[Recorded[Any]]:
        """The events without those of the source."""
        return [one for one in self.events if not self.tainted(one)]

    def cleaned(
        self,
        begins: type[msgspec.Struct],
        stays: Callable[[Any], bool] | None = None,
        *,
        text: str = "content",
        **emptied: Any,
    ) -> list[Recorded[Any]]:
        """Return the events without the source's words, from a beginning on; [] if none is left.

        A beginning of the source is kept, with these fields `emptied`, where a later event of
        somebody else `stays` without it: one that begins the memory anew, or gives another `text`.
        """

        def gives_text(event: Any) -> bool:
            own = getattr(event, "memory_id", None) == self.memory_id
            return isinstance(event, begins) or (own and getattr(event, text, None) is not None)

        last = max(
            (n for n, one in enumerate(self.events) if self._says(one, stays or gives_text)),
            default=-1,
        )
        kept: list[Recorded[Any]] = []
        begun = False
        for place, one in enumerate(self.events):
            is_beginning = isinstance(one.data, begins)
            if not self.tainted(one):
                kept.append(one)
                begun = begun or is_beginning
            elif is_beginning and not begun and place < last:
                data: Any = replace(one.data, metadata={}, **emptied)
                kept.append(replace(one, data=data))
                begun = True
        first = next((n for n, one in enumerate(kept) if isinstance(one.data, begins)), len(kept))
        return kept[first:]

    def _says(self, recorded: Recorded[Any], stays: Callable[[Any], bool]) -> bool:
        return not self.tainted(recorded) and stays(recorded.data)


# --- earlier purges


class Earlier(NamedTuple):
    """A purge that had to do with a memory."""

    version: int
    source: str | None
    trust: Trust | None


def purges_in(past: Sequence[Recorded[Any]]) -> list[Earlier]:
    """Return the purges among events."""
    return [_purge(one) for one in past if _is_by_a_purge(one)]


def _is_by_a_purge(recorded: Recorded[Any]) -> bool:
    return b"purged" in recorded.raw_meta and "purged" in recorded.meta  # cheap where it is not


def _purge(recorded: Recorded[Any]) -> Earlier:
    meta = recorded.meta
    trust = meta.get(PURGED_TRUST)
    return Earlier(
        recorded.version, meta.get(PURGED_SOURCE), None if trust is None else Trust(trust)
    )


def is_of(recorded: Recorded[Any], source: str | None, trust: Trust | None) -> bool:
    """Say whether an event has, or may have, words of a source and trust; None is any."""
    return any(matches(one, source, trust) for one in origins_of(recorded))


def is_purged(recorded: Recorded[Any], purges: Sequence[Earlier]) -> bool:
    """Say whether one of these purges has taken out the words of an event."""
    return any(
        recorded.version < one.version and is_of(recorded, one.source, one.trust) for one in purges
    )


def standing(memory_id: str, past: Sequence[Recorded[Any]]) -> list[Recorded[Any]]:
    """Return the events that a memory which comes back has its words from.

    Those without what purges took out while it lived on, and without what they said anew. One that
    a purge has ended comes back with all its words.
    """
    lived = [one for one in past if effect(one.tag, one.data, memory_id) not in ENDS]
    purges = purges_in(lived)
    return [one for one in past if not (restates(one) or is_purged(one, purges))]


def restates(recorded: Recorded[Any]) -> bool:
    """Say whether an event is of a purge, and says again what others had said."""
    return _is_by_a_purge(recorded) and not hasattr(recorded.data, "origins")
