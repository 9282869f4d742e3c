"""Summaries in the place of memories: what is decided, and what a fold makes of it."""

from typing import Any

import pytest
from support.given import Given, added, recorded

from eventlog import Dropped
from memory_actors.kinds import long_term
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.long_term import (
    AddMemories,
    CompressMemories,
    MemoriesCompressed,
    UndoCompaction,
)

TEXT = "[Summary of 3 memories from 1970-01-01 to 1970-01-01]: Tea, three times."


def fields(*ids: str, size: int = 12) -> dict[str, Any]:
    return {
        "memory_id": "sum", "content": TEXT, "size_bytes": size, "digest": b"sum",
        "passages": passages_of(TEXT), "occurred_at_us": 9, "compressed_from_ids": ids,
        "original_count": len(ids), "time_range_start_us": 1, "time_range_end_us": 9,
        "compression_method": "fake", "session_ids": ("s",), "bytes_before": 10 * len(ids),
        "bytes_after": size,
    }  # fmt: skip


def compressed(*ids: str, size: int = 12) -> MemoriesCompressed:
    return MemoriesCompressed(**fields(*ids, size=size))


def compress(*originals: tuple[str, int]) -> CompressMemories:
    summary = compressed(*(name for name, _ in originals))
    return CompressMemories(now_us=9, summary=summary, originals=originals)


def past_of(*events: Any) -> dict[str, list[Any]]:
    """Return what the log knows of each memory."""
    about: dict[str, list[Any]] = {}
    for version, event in enumerate(events, start=1):
        for key in long_term.KIND.registry.keys(event):
            about.setdefault(key, []).append(recorded(event, version))
    return about


def undo(*events: Any) -> UndoCompaction:
    return UndoCompaction(
        now_us=9, memory_id="sum", memory_ids=("a", "b", "c"), past=past_of(*events)
    )


# --- add


def test_an_id_whose_text_is_gone_is_not_used_again() -> None:
    command = AddMemories(now_us=9, memories=(added("a"),), used={"a": Dropped(since_us=1)})
    assert Given(long_term.KIND).when(command) == []


# --- passages


@pytest.mark.parametrize("content", ["x", "[Summary of nothing", "[Summary of 2]: ", "y" * 5_000])
def test_any_text_has_passages_that_cover_it(content: str) -> None:
    parts = passages_of(content)
    assert "".join(content[p.start : p.end] for p in parts) == content
