"""Events of a source, and what earlier purges have made of them.

A purge leaves the words that it took out in the log, and says some others anew. So the next one
must pass over both: the words, for they are purged, and what was said anew, for it is said by the
events before it. Only a whole memory said anew counts: it names its origins, and what came before
it may have been dropped by retention.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from eventlog import Recorded
from memory_actors.base.origins import matches, origins_of
from memory_actors.base.records import Trust
from memory_actors.kinds.events import ENDS, effect
from memory_actors.kinds.purging.command import PURGED_SOURCE, PURGED_TRUST


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
