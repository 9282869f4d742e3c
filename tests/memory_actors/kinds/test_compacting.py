"""Summaries in the place of memories: what is decided, and what a fold makes of it."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from eventlog import Dropped
from memory_actors.base.errors import InvalidInputError, NotFoundError
from memory_actors.kinds import long_term
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.long_term import (
    AddMemories,
    CompressMemories,
    MemoriesCompressed,
    MemoryAdded,
    MemoryDeleted,
    MemoryRestored,
    MemoryUpdated,
    RestoreMemories,
    UndoCompaction,
)
from memory_actors.kinds.passages import Passage, label

TEXT = "[Summary of 3 memories from 1970-01-01 to 1970-01-01]: Tea, three times."


def added(name: str, *, at: int = 0, size: int = 10, pinned: bool = False) -> MemoryAdded:
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=size, digest=name.encode(), occurred_at_us=at,
        pinned=pinned,
    )  # fmt: skip


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


def compress(*originals: tuple[str, int], size: int = 12) -> CompressMemories:
    summary = compressed(*(name for name, _ in originals), size=size)
    return CompressMemories(now_us=9, summary=summary, originals=originals)


ABC = (added("a", at=1), added("b", at=5), added("c", at=9))
AS_READ = (("a", 1), ("b", 2), ("c", 3))


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


# --- compress


@pytest.mark.parametrize(
    "meanwhile",
    [
        [*ABC[:2], added("c", pinned=True)],
        [*ABC, MemoryDeleted(memory_id="b")],
        [*ABC, MemoryUpdated(memory_id="b", content="x", size_bytes=1, digest=b"x")],
        [*ABC[:2], MemoryRestored(**msgspec.structs.asdict(ABC[2]), created_at_us=1, keep=True)],
        [*ABC, compressed("a", "b", "c")],
        [],
    ],
    ids=["pinned", "deleted", "updated", "kept", "compressed", "never there"],
)
def test_what_changed_since_it_was_read_is_left_alone(meanwhile: list[Any]) -> None:
    assert Given(long_term.KIND, *meanwhile).when(compress(*AS_READ)) == []


# --- undo


def test_what_retention_dropped_cannot_come_back_and_says_so() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    command = undo(*events)
    gone = msgspec.structs.replace(command.past["b"][0], data=Dropped(since_us=0))
    past = {**command.past, "b": [gone, *command.past["b"][1:]]}
    with pytest.raises(NotFoundError, match=r"'b' cannot come back: .* 1970-01-01"):
        Given(long_term.KIND, *events).when(msgspec.structs.replace(command, past=past))


@pytest.mark.parametrize("living", ["", "a", "ab", "abc"])
def test_a_summary_comes_back_unless_each_of_its_originals_lives(living: str) -> None:
    originals = [one for one in ABC if one.memory_id in living]
    again = [MemoryRestored(**msgspec.structs.asdict(one), created_at_us=1) for one in originals]
    events = [*ABC, compressed("a", "b", "c"), MemoryDeleted(memory_id="sum"), *again]
    given = Given(long_term.KIND, *events)
    command = RestoreMemories(now_us=9, memory_ids=("sum",), past=past_of(*events))
    if living == "abc":
        with pytest.raises(InvalidInputError, match="originals live"):
            given.when(command)
    else:
        assert [event.memory_id for event in given.when(command)] == ["sum"]


# --- add


def test_an_id_whose_text_is_gone_is_not_used_again() -> None:
    command = AddMemories(now_us=9, memories=(added("a"),), used={"a": Dropped(since_us=1)})
    assert Given(long_term.KIND).when(command) == []


# --- passages


def test_a_summary_is_found_by_its_parts_without_the_heading() -> None:
    body = " ".join(f"Sentence number {n} says something." for n in range(60))
    content = f"[Summary of 60 memories from 2020-01-01 to 2020-03-01]: {body}"
    parts = [content[p.start : p.end] for p in passages_of(content)]
    assert "".join(parts) == body
    assert all(400 < len(part) <= 800 for part in parts[:-1])
    assert all(part.rstrip().endswith(".") for part in parts)


@pytest.mark.parametrize("content", ["x", "[Summary of nothing", "[Summary of 2]: ", "y" * 5_000])
def test_any_text_has_passages_that_cover_it(content: str) -> None:
    parts = passages_of(content)
    assert "".join(content[p.start : p.end] for p in parts) == content


def test_each_passage_of_a_summary_has_label_and_text() -> None:
    """Each passage of a summary has its own label and text."""
    event = compressed("a")
    row = fold(long_term.KIND, [added("a"), event]).rows["sum"]
    (passage,) = long_term.KIND.passages(row)
    assert passage == Passage(label(2), event.passages[0].digest)
    text = long_term.KIND.passage_text(row, passage.label, {2: recorded(event, 2)})
    assert text == "Tea, three times."
