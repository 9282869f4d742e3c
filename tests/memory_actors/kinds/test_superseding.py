"""Long-term memory: what holds no more, as its commands decide it and as events fold."""

from typing import Any

from support.given import Given, fold, recorded

from memory_actors.kinds import long_term
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.long_term import (
    CompressMemories,
    MemoriesCompressed,
    MemoryAdded,
    MemorySuperseded,
    UndoCompaction,
)

LATER = 5


def added(name: str, *, at: int = 0) -> MemoryAdded:
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=10, digest=name.encode(), occurred_at_us=at
    )


A, B, C = added("a"), added("b", at=LATER), added("c", at=2 * LATER)


def superseded(older: str, newer: str) -> MemorySuperseded:
    return MemorySuperseded(
        memory_id=older, superseded_by_id=newer, digest=newer.encode(),
        similarity=0.5, evidence="residence",
    )  # fmt: skip


def standing(*events: Any) -> dict[str, list[str]]:
    """Return by which memories each living one is superseded, the newest first."""
    rows = fold(long_term.KIND, events).rows
    newer = {
        name: [one.memory_id for one in long_term.newer_ones(row, rows)]
        for name, row in rows.items()
    }
    return {name: by for name, by in newer.items() if by}


def past(*events: Any) -> dict[str, list[Any]]:
    every = [recorded(event, version) for version, event in enumerate(events, start=1)]
    return {"a": [one for one in every if "a" in long_term.KIND.registry.keys(one.data)]}


# --- summaries


def summary_of(*rows: Any) -> MemoriesCompressed:
    text = "[Summary of 1 memory]: b"
    return MemoriesCompressed(
        memory_id="s", content=text, size_bytes=10, bytes_after=10, digest=b"s",
        passages=passages_of(text), occurred_at_us=LATER,
        compressed_from_ids=tuple(row.memory_id for row in rows), original_count=len(rows),
        time_range_start_us=0, time_range_end_us=LATER, compression_method="t", bytes_before=10,
    )  # fmt: skip


def test_a_summary_stands_in_for_the_newer_memory() -> None:
    """A summary takes the place of the newer memory, and gives it back."""
    events = [A, B, superseded("a", "b")]
    given = Given(long_term.KIND, *events)
    row = given.state.rows["b"]
    command = CompressMemories(now_us=9, summary=summary_of(row), originals=(("b", row.version),))
    events += given.when(command)
    assert standing(*events) == {"a": ["s"]}
    every = [recorded(event, version) for version, event in enumerate(events, start=1)]
    about_b = [one for one in every if "b" in long_term.KIND.registry.keys(one.data)]
    undo = UndoCompaction(now_us=9, memory_id="s", memory_ids=("b",), past={"b": about_b})
    events += Given(long_term.KIND, *events).when(undo)
    assert standing(*events) == {"a": ["b"]}


def test_a_summary_of_both_leaves_nothing_to_say() -> None:
    given = Given(long_term.KIND, A, B, superseded("a", "b"))
    rows = [given.state.rows[name] for name in ("a", "b")]
    originals = tuple((row.memory_id, row.version) for row in rows)
    command = CompressMemories(now_us=9, summary=summary_of(*rows), originals=originals)
    (event,) = given.when(command)
    assert isinstance(event, MemoriesCompressed)
