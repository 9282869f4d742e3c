"""Facts that change: which memories hold no more, because newer ones say otherwise.

Which memory says otherwise is found outside (memory_actors/search/superseding/): that needs vectors
and texts. Here it is recorded, if both are still what was compared. Nothing goes: the older memory
keeps a mark, which counts as long as the newer one lives and says the same. So deleting or
rewording the newer one undoes it, and bringing that back brings the mark back. A memory that was
reinstated is left alone until it is reworded itself. Where the newer one goes into a summary, the
summary takes its place.
"""

from collections.abc import Mapping, Sequence

import msgspec

from memory_actors.base.origins import Origins
from memory_actors.base.quota import Limits
from memory_actors.kinds.kind import Command
from memory_actors.kinds.long_term.events import (
    MemoriesCompressed,
    MemoryReinstated,
    MemorySuperseded,
)
from memory_actors.kinds.long_term.state import LongTerm, Row, age, newer_ones
from memory_actors.kinds.rows import derived


class Pair(msgspec.Struct, frozen=True, kw_only=True):
    """Two memories as they were compared."""

    memory_id: str
    """Of the one that holds no more."""
    superseded_by_id: str
    older_digest: bytes
    newer_digest: bytes
    similarity: float
    evidence: str


class SupersedeMemories(Command, frozen=True, kw_only=True):
    """Record that memories hold no more, if they and the newer ones are as they were compared."""

    pairs: tuple[Pair, ...]

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return nothing: both facts keep their origins."""
        return {}


def supersede(
    command: SupersedeMemories, state: LongTerm, _limits: Limits
) -> list[MemorySuperseded]:
    """Record which memories hold no more; what has changed since it was compared is left out."""
    return [
        derived(MemorySuperseded, pair, digest=pair.newer_digest)
        for pair in {(one.memory_id, one.superseded_by_id): one for one in command.pairs}.values()
        if _is_as_compared(pair, state.held.rows)
    ]


def _is_as_compared(pair: Pair, rows: Mapping[str, Row]) -> bool:
    """Say whether both are as they were compared, and it is not known yet."""
    older, newer = rows.get(pair.memory_id), rows.get(pair.superseded_by_id)
    if older is None or newer is None or older.settled or age(older) >= age(newer):
        return False
    marks = [(mark.by, mark.digest) for mark in older.superseded]
    same = (older.digest, newer.digest) == (pair.older_digest, pair.newer_digest)
    return same and (newer.memory_id, newer.digest) not in marks


def reinstated(memory_ids: Sequence[str], state: LongTerm) -> list[MemoryReinstated]:
    """Return what says of those memories that live and are superseded that they hold."""
    rows = state.held.rows
    found = [rows[one] for one in dict.fromkeys(memory_ids) if one in rows]
    return [MemoryReinstated(memory_id=row.memory_id) for row in found if newer_ones(row, rows)]


def passed_on(summary: MemoriesCompressed, state: LongTerm) -> list[MemorySuperseded]:
    """Return what puts the summary in the place of originals that speak against other memories."""
    rows = state.held.rows
    gone = set(summary.compressed_from_ids)
    return [
        MemorySuperseded(
            memory_id=row.memory_id,
            superseded_by_id=summary.memory_id,
            digest=summary.digest,
            similarity=0.0,
            evidence=f"the summary has {newest.memory_id}",
        )
        for row in rows.values()
        if row.superseded
        and row.memory_id not in gone
        and (newest := next(iter(newer_ones(row, rows)), None)) is not None
        and newest.memory_id in gone
    ]
