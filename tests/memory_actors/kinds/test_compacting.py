"""Summaries in the place of memories: what is decided, and what a fold makes of it."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from eventlog import Dropped
from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import (
    AddMemories,
    AddSummary,
    CompactionUndone,
    CompressMemories,
    MemoriesCompressed,
    MemoryAdded,
    MemoryDeleted,
    MemoryRestored,
    MemoryUpdated,
    RestoreMemories,
    SummaryAdded,
    UndoCompaction,
    UpdateMemory,
)
from memory_actors.kinds.passages import Passage, label
from memory_actors.kinds.summaries import passages_of

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


def test_a_cluster_is_replaced_by_one_event() -> None:
    assert Given(long_term.KIND, *ABC).when(compress(*AS_READ)) == [compressed("a", "b", "c")]


def test_the_event_is_about_the_summary_and_every_original() -> None:
    assert long_term.KIND.registry.keys(compressed("a", "b", "c")) == ("sum", "a", "b", "c")


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


def test_a_summary_is_never_compressed_again() -> None:
    given = Given(long_term.KIND, *ABC, compressed("a", "b"))
    again = CompressMemories(
        now_us=9,
        summary=msgspec.structs.replace(compressed("sum", "c"), memory_id="sum2"),
        originals=(("sum", 4), ("c", 3)),
    )
    assert given.when(again) == []


def test_a_summary_must_fit_the_quota() -> None:
    """A summary may not take more than there is room for."""
    given = Given(long_term.KIND, *ABC, limits=Limits(long_term_bytes=31))
    with pytest.raises(QuotaExceededError):
        given.when(compress(*AS_READ, size=32))
    assert len(given.when(compress(*AS_READ, size=31))) == 1


def test_the_originals_go_and_the_summary_counts_as_one() -> None:
    state = fold(long_term.KIND, [*ABC, added("d"), compressed("a", "b", "c")])
    assert sorted(state.held.rows) == ["d", "sum"]
    tally = long_term.KIND.tally(state)
    assert (tally.count, tally.size_bytes) == (2, 22)
    assert (tally.summaries, tally.originals) == (1, 3)
    assert (tally.summaries_bytes_before, tally.summaries_bytes_after) == (30, 12)
    gone = long_term.KIND.fold(state, [recorded(MemoryDeleted(memory_id="sum"), 6)])
    assert long_term.KIND.tally(gone).summaries == long_term.KIND.tally(gone).originals == 0


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(long_term.KIND, [*ABC, added("d"), compressed("a", "b", "c")])
    assert long_term.KIND.load(long_term.KIND.dump(state)) == state


def test_a_summary_may_get_metadata_but_no_other_words() -> None:
    given = Given(long_term.KIND, *ABC, compressed("a", "b", "c"))
    metadata = UpdateMemory(now_us=9, memory_id="sum", metadata={"k": 1})
    assert given.when(metadata) == [MemoryUpdated(memory_id="sum", metadata={"k": 1})]
    with pytest.raises(InvalidInputError, match="undo the compaction, or delete"):
        given.when(UpdateMemory(now_us=9, memory_id="sum", content="x", digest=b"x", size_bytes=1))


# --- undo


def test_undoing_restores_the_originals_that_are_gone() -> None:
    """Undoing brings back the originals that do not live, and takes the summary away."""
    events = [
        *ABC[:1],
        MemoryUpdated(memory_id="a", content="new", size_bytes=3, digest=b"n"),
        *ABC[1:],
        compressed("a", "b", "c"),
    ]
    undone, *came = Given(long_term.KIND, *events).when(undo(*events))
    assert undone == CompactionUndone(memory_id="sum")
    assert [(m.memory_id, m.content, m.keep) for m in came] == [
        ("a", "new", True), ("b", "b", True), ("c", "c", True),
    ]  # fmt: skip
    assert came[0].created_at_us == 1_001, "when it was first added"
    state = fold(long_term.KIND, [*events, undone, *came])
    assert sorted(state.held.rows) == ["a", "b", "c"]


def test_an_original_that_lives_is_left_as_it_is() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    (alone,) = Given(long_term.KIND, *events).when(
        RestoreMemories(now_us=9, memory_ids=("b",), past=past_of(*events))
    )
    events.append(alone)
    undone = Given(long_term.KIND, *events).when(undo(*events))
    assert [event.memory_id for event in undone] == ["sum", "a", "c"]


def test_undoing_beyond_the_quota_does_nothing() -> None:
    events = [*ABC, compressed("a", "b", "c"), added("d")]
    with pytest.raises(QuotaExceededError):
        Given(long_term.KIND, *events, limits=Limits(long_term_memories=3)).when(undo(*events))
    with pytest.raises(QuotaExceededError):
        Given(long_term.KIND, *events, limits=Limits(long_term_bytes=39)).when(undo(*events))
    assert len(
        Given(long_term.KIND, *events, limits=Limits(long_term_bytes=40)).when(undo(*events))
    )


def test_only_a_summary_can_be_undone() -> None:
    for events in ([], [*ABC], [added("sum")]):
        with pytest.raises(NotFoundError):
            Given(long_term.KIND, *events).when(undo(*events))


def test_what_retention_dropped_cannot_come_back_and_says_so() -> None:
    events = [*ABC, compressed("a", "b", "c")]
    command = undo(*events)
    gone = msgspec.structs.replace(command.past["b"][0], data=Dropped(since_us=0))
    past = {**command.past, "b": [gone, *command.past["b"][1:]]}
    with pytest.raises(NotFoundError, match=r"'b' cannot come back: .* 1970-01-01"):
        Given(long_term.KIND, *events).when(msgspec.structs.replace(command, past=past))


# --- restore


def test_a_deleted_summary_comes_back_as_a_summary() -> None:
    events = [
        *ABC,
        compressed("a", "b", "c"),
        MemoryUpdated(memory_id="sum", metadata={"k": 1}),
        MemoryDeleted(memory_id="sum"),
    ]
    restore = RestoreMemories(now_us=9, memory_ids=("sum",), past=past_of(*events))
    (event,) = Given(long_term.KIND, *events).when(restore)
    assert isinstance(event, SummaryAdded)
    assert (event.compressed_from_ids, event.metadata) == (("a", "b", "c"), {"k": 1})
    assert event.created_at_us == 1_004, "when it was made"
    state = fold(long_term.KIND, [*events, event])
    assert list(state.held.rows) == ["sum"], "its originals stay where they are"
    assert long_term.KIND.tally(state).originals == 3


# --- add


def test_a_summary_of_another_store_is_added_once() -> None:
    summary = SummaryAdded(**fields("a", "b", "c"))
    command = AddSummary(now_us=9, summary=summary)
    assert Given(long_term.KIND).when(command) == [summary]
    assert Given(long_term.KIND, summary).when(command) == []
    used = msgspec.structs.replace(command, used={"sum": compressed("a", "b", "c")})
    assert Given(long_term.KIND).when(used) == []
    with pytest.raises(InvalidInputError, match="another memory"):
        Given(long_term.KIND, added("sum")).when(command)


def test_a_summary_that_does_not_fit_is_not_added() -> None:
    with pytest.raises(QuotaExceededError):
        Given(long_term.KIND, added("x"), limits=Limits(long_term_memories=1)).when(
            AddSummary(now_us=9, summary=SummaryAdded(**fields("a")))
        )


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
    row = fold(long_term.KIND, [added("a"), event]).held.rows["sum"]
    (passage,) = long_term.KIND.passages(row)
    assert passage == Passage(label(2), event.passages[0].digest)
    text = long_term.KIND.passage_text(row, passage.label, {2: recorded(event, 2)})
    assert text == "Tea, three times."


# --- a fold without what retention dropped


def test_the_state_is_the_same_without_the_originals_own_events() -> None:
    events = [
        added("a"),
        MemoryUpdated(memory_id="a", content="x", size_bytes=1, digest=b"x"),
        added("b"),
        added("c"),
        compressed("a", "b"),
        added("d"),
    ]
    log = [recorded(event, version) for version, event in enumerate(events, start=1)]
    whole = long_term.KIND.fold(long_term.KIND.initial, log)
    for gone in ({1}, {2}, {1, 2}, {3}, {1, 2, 3}):
        left = [entry for entry in log if entry.version not in gone]
        assert long_term.KIND.fold(long_term.KIND.initial, left) == whole
