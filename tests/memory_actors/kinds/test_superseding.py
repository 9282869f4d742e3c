"""Long-term memory: what holds no more, as its commands decide it and as events fold."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from memory_actors.base.records import Origin, Trust
from memory_actors.kinds import long_term
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.long_term import (
    AddMemories,
    CompressMemories,
    MemoriesCompressed,
    MemoryAdded,
    MemoryDeleted,
    MemoryReinstated,
    MemorySeen,
    MemorySuperseded,
    MemoryUnmarked,
    MemoryUpdated,
    Pair,
    RestoreMemories,
    SupersedeMemories,
    UndoCompaction,
)
from memory_actors.kinds.long_term.state import SUPERSEDED_MAX

LATER = 5


def added(name: str, *, at: int = 0) -> MemoryAdded:
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=10, digest=name.encode(), occurred_at_us=at
    )


A, B, C = added("a"), added("b", at=LATER), added("c", at=2 * LATER)


def pair(older: str, newer: str, **changes: Any) -> Pair:
    fields = {
        "memory_id": older, "superseded_by_id": newer, "older_digest": older.encode(),
        "newer_digest": newer.encode(), "similarity": 0.5, "evidence": "residence",
    }  # fmt: skip
    return Pair(**{**fields, **changes})


def supersede(*pairs: Pair) -> SupersedeMemories:
    return SupersedeMemories(now_us=9, pairs=pairs)


def superseded(older: str, newer: str, digest: str | None = None) -> MemorySuperseded:
    return MemorySuperseded(
        memory_id=older, superseded_by_id=newer, digest=(digest or newer).encode(),
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


def past(*events: Any, of: str = "a") -> dict[str, list[Any]]:
    every = [recorded(event, version) for version, event in enumerate(events, start=1)]
    return {of: [one for one in every if of in long_term.KIND.registry.keys(one.data)]}


# --- decide


@pytest.mark.parametrize(
    "events",
    [
        (B,), (A,),  # one has gone
        (A, B, MemoryDeleted(memory_id="a")),
        (A, B, MemoryUpdated(memory_id="a", content="x", digest=b"x")),
        (A, B, MemoryUpdated(memory_id="b", content="x", digest=b"x")),
        (A, B, superseded("a", "b")),  # known
        (A, B, superseded("a", "b"), MemoryReinstated(memory_id="a")),  # settled
        (added("a", at=LATER + 1), B),  # the other one is newer
        (B, added("a", at=LATER)),  # said later
    ],
)  # fmt: skip
def test_what_has_changed_since_it_was_compared_is_left_alone(events: tuple[Any, ...]) -> None:
    assert Given(long_term.KIND, *events).when(supersede(pair("a", "b"))) == []


def test_restoring_a_superseded_memory_that_lives_says_that_it_holds() -> None:
    given = Given(long_term.KIND, A, B, superseded("a", "b"))
    (event,) = given.when(RestoreMemories(now_us=9, memory_ids=("a", "a", "b")))
    assert event == MemoryReinstated(memory_id="a")


# --- said again


def said_again(at: int, *origins: Origin, **of: tuple[Origin, ...]) -> AddMemories:
    again = msgspec.structs.replace(added("a", at=at), memory_id="again")
    return AddMemories(
        now_us=9, memories=(again,), on_duplicate="count", origins=origins, origins_of=of
    )


def test_a_memory_said_again_after_it_was_superseded_is_added_anew() -> None:
    given = Given(long_term.KIND, A, B, superseded("a", "b"))
    for at in (LATER, 2 * LATER):
        (event,) = given.when(said_again(at))
        assert isinstance(event, MemoryAdded)
        assert event.memory_id == "again"


@pytest.mark.parametrize(
    ("events", "at"),
    [
        ((A, B, superseded("a", "b")), LATER - 1),  # it is of the time before
        ((A, B), LATER),
        ((A, B, superseded("a", "b"), MemoryReinstated(memory_id="a")), LATER),
        ((A, B, superseded("a", "b"), MemoryDeleted(memory_id="b")), LATER),
    ],
)
def test_a_memory_that_holds_or_held_then_is_only_seen_again(
    events: tuple[Any, ...], at: int
) -> None:
    (event,) = Given(long_term.KIND, *events).when(said_again(at))
    assert event == MemorySeen(memory_id="a", occurred_at_us=at)


def test_saying_it_again_does_not_speak_against_a_more_trusted_memory() -> None:
    page, owner = Origin("page", Trust.UNTRUSTED), Origin("owner", Trust.TRUSTED)
    given = Given(long_term.KIND, A, B, superseded("a", "b"))
    (event,) = given.when(said_again(LATER, page, a=(page,), b=(owner,)))
    assert isinstance(event, MemorySeen)
    (event,) = given.when(said_again(LATER, owner, a=(owner,), b=(owner,)))
    assert isinstance(event, MemoryAdded)


def test_the_memory_that_was_added_anew_is_the_one_that_is_seen_from_then_on() -> None:
    anew = msgspec.structs.replace(added("a", at=LATER), memory_id="anew")
    given = Given(long_term.KIND, A, B, superseded("a", "b"), anew, superseded("b", "anew"))
    (event,) = given.when(said_again(2 * LATER))
    assert event == MemorySeen(memory_id="anew", occurred_at_us=2 * LATER)


# --- fold


def test_a_mark_is_taken_back_by_itself() -> None:
    """Other marks stay, and the memory may be superseded again."""
    taken = MemoryUnmarked(memory_id="a", superseded_by_id="c", digest=b"c")
    events = (A, B, C, superseded("a", "b"), superseded("a", "c"))
    assert standing(*events, taken) == {"a": ["b"]}
    assert len(Given(long_term.KIND, *events, taken).when(supersede(pair("a", "c")))) == 1


def test_of_the_same_time_the_mark_recorded_last_is_the_newest() -> None:
    """Also where a newer memory went, and came back behind the others."""
    b, c = added("b", at=LATER), added("c", at=LATER)
    events = (A, b, c, superseded("a", "b"), superseded("a", "c"))
    assert standing(*events) == {"a": ["c", "b"]}
    gone = (*events, MemoryDeleted(memory_id="b"))
    restore = RestoreMemories(now_us=9, memory_ids=("b",), past=past(*gone, of="b"))
    (back,) = Given(long_term.KIND, *gone).when(restore)
    assert standing(*gone, back) == {"a": ["c", "b"]}


def test_a_memory_has_the_last_few_marks_only() -> None:
    many = [added(f"n{number}", at=number + 1) for number in range(2 * SUPERSEDED_MAX)]
    marks = [superseded("a", one.memory_id) for one in many]
    row = fold(long_term.KIND, (A, *many, *marks)).rows["a"]
    assert [mark.by for mark in row.superseded] == [one.memory_id for one in many][-SUPERSEDED_MAX:]


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
