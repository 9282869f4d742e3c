"""Facts that change: which memory holds no more, because a newer one says otherwise.

Which one says otherwise is found outside (see memory_actors/search/superseding/): that needs
vectors and texts. Here it is recorded, if both are still what was compared. Nothing goes: the older
memory keeps a mark, which counts as long as the newer one lives and says the same. So deleting or
rewording the newer one undoes it, and bringing that back brings the mark back. A memory that was
reinstated is left alone until it is reworded itself.

Where the newer one goes into a summary, the summary takes its place.
"""

from collections.abc import Mapping, Sequence

from memory_actors.kinds.long_term.commands import CompressMemories, Pair, SupersedeMemories
from memory_actors.kinds.long_term.events import MemoryReinstated, MemorySuperseded
from memory_actors.kinds.long_term.state import LongTerm, Row


def age(row: Row) -> tuple[int, int]:
    """Return what orders memories by when they were last true, then by when they were said."""
    return max(row.occurred_at_us, row.last_seen_us), row.version


def newer_ones(row: Row, rows: Mapping[str, Row], as_of_us: int | None = None) -> list[Row]:
    """Return the living memories that say otherwise, the newest first, as known at a time."""
    found = [
        newer
        for mark in row.superseded
        if as_of_us is None or mark.at_us <= as_of_us
        if (newer := rows.get(mark.by)) is not None and newer.digest == mark.digest
    ]
    return sorted(found, key=age, reverse=True)


def supersede(command: SupersedeMemories, state: LongTerm) -> Sequence[MemorySuperseded]:
    """Record which memories hold no more; what has changed since it was compared is left out."""
    return [
        MemorySuperseded(
            memory_id=pair.memory_id,
            superseded_by_id=pair.superseded_by_id,
            digest=pair.newer_digest,
            similarity=pair.similarity,
            evidence=pair.evidence,
        )
        for pair in {(one.memory_id, one.superseded_by_id): one for one in command.pairs}.values()
        if _stands(pair, state.held.rows)
    ]


def _stands(pair: Pair, rows: Mapping[str, Row]) -> bool:
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


def passed_on(command: CompressMemories, state: LongTerm) -> list[MemorySuperseded]:
    """Return what puts the summary in the place of originals that speak against other memories."""
    rows, summary = state.held.rows, command.summary
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
