"""Long-term memory: what its commands decide."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold, recorded

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import (
    AddMemories,
    DeleteMemory,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemoryRestored,
    MemoryUpdated,
    RestoreMemories,
    UpdateMemory,
)
from memory_actors.kinds.passages import version_of


def added(name: str, *, at: int = 0, size: int = 10, pinned: bool = False) -> MemoryAdded:
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=size, digest=name.encode(), occurred_at_us=at,
        pinned=pinned,
    )  # fmt: skip


def new(name: str, *, size: int = 10, digest: bytes | None = None) -> MemoryAdded:
    return msgspec.structs.replace(added(name, size=size), digest=digest or name.encode())


def add(*memories: MemoryAdded, auto_prune: bool = False, used: dict[str, Any] | None = None):
    return AddMemories(now_us=1, memories=memories, auto_prune=auto_prune, used=used or {})


def full(count: int, **limits: Any) -> Given:
    events = [added(f"m{i}", at=i) for i in range(count)]
    return Given(long_term.KIND, *events, limits=Limits(long_term_memories=count, **limits))


def test_an_added_memory_is_one_event() -> None:
    (event,) = Given(long_term.KIND).when(add(new("a")))
    assert event == added("a")


def test_adding_the_same_memory_again_is_satisfied() -> None:
    assert Given(long_term.KIND, added("a")).when(add(new("a"))) == []


def test_adding_it_twice_in_one_command_adds_it_once() -> None:
    assert Given(long_term.KIND).when(add(new("a"), new("a"))) == [added("a")]


def test_an_id_with_another_content_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="another memory"):
        Given(long_term.KIND, added("a")).when(add(new("a", digest=b"other")))
    with pytest.raises(InvalidInputError, match="another memory"):
        Given(long_term.KIND).when(add(new("a"), new("a", digest=b"other")))


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    given = Given(long_term.KIND, added("a"), MemoryDeleted(memory_id="a"))
    assert given.when(add(new("a"), used={"a": added("a")})) == []


def test_a_full_memory_refuses_with_advice() -> None:
    past = full(10_000, more_in_a_tier=frozenset({"long_term_memories"}))
    with pytest.raises(QuotaExceededError) as refused:
        past.when(add(new("x")))
    assert str(refused.value) == (
        "User has 10,000 long_term memories (max: 10,000). Delete old memories or upgrade quota."
    )
    assert (refused.value.used, refused.value.limit, refused.value.unit) == (
        10_000,
        10_000,
        "count",
    )


def test_a_memory_full_by_size_refuses_with_both_sizes() -> None:
    limits = Limits(long_term_bytes=100 * 1024 * 1024)
    given = Given(long_term.KIND, added("a", size=int(99.98 * 1024 * 1024)), limits=limits)
    with pytest.raises(QuotaExceededError, match=r"\(99\.98 MB of 100 MB\)"):
        given.when(add(new("x", size=1024 * 1024)))


def test_a_prune_names_the_oldest_tenth() -> None:
    """A prune names the oldest tenth, and comes before the add."""
    events = full(40).when(add(new("x"), auto_prune=True))
    assert events == [
        MemoriesPruned(memory_ids=("m0", "m1", "m2", "m3"), cause="quota"),
        added("x"),
    ]


def test_at_ten_thousand_a_prune_deletes_one_thousand() -> None:
    prune, _ = full(10_000).when(add(new("x"), auto_prune=True))
    assert len(prune.memory_ids) == 1_000
    assert prune.memory_ids[-1] == "m999"


def test_oldest_is_by_time_then_by_arrival() -> None:
    """Oldest is by the time it was true, then by arrival."""
    given = Given(
        long_term.KIND, added("late", at=9), added("early", at=1), added("tie", at=1),
        limits=Limits(long_term_memories=3),
    )  # fmt: skip
    prune, *_ = given.when(add(new("x"), new("y"), auto_prune=True))
    assert prune.memory_ids == ("early", "tie")


def test_a_pinned_memory_is_never_pruned() -> None:
    pinned = [added(f"p{i}", at=i, pinned=True) for i in range(3)]
    given = Given(long_term.KIND, *pinned, added("free", at=9), limits=Limits(long_term_memories=4))
    prune, _ = given.when(add(new("x"), auto_prune=True))
    assert prune.memory_ids == ("free",)
    with pytest.raises(QuotaExceededError):
        Given(long_term.KIND, *pinned, limits=Limits(long_term_memories=3)).when(
            add(new("x"), auto_prune=True)
        )


def test_a_prune_by_size_takes_as_many_tenths_as_needed() -> None:
    given = full(40, long_term_bytes=400)
    prune, _ = given.when(add(new("x", size=95), auto_prune=True))
    assert len(prune.memory_ids) == 12


def test_what_can_never_fit_prunes_nothing() -> None:
    with pytest.raises(QuotaExceededError):
        full(40, long_term_bytes=400).when(add(new("x", size=401), auto_prune=True))


def test_an_update_keeps_what_it_does_not_name() -> None:
    given = Given(long_term.KIND, added("a"))
    command = UpdateMemory(now_us=1, memory_id="a", metadata={"k": 1})
    assert given.when(command) == [MemoryUpdated(memory_id="a", metadata={"k": 1})]


def test_an_update_that_changes_nothing_is_satisfied() -> None:
    command = UpdateMemory(now_us=1, memory_id="a", content="a", digest=b"a", size_bytes=10)
    assert Given(long_term.KIND, added("a")).when(command) == []


def test_an_update_above_the_quota_may_only_shrink() -> None:
    """An update may not grow beyond the quota, but may shrink above it."""
    given = Given(
        long_term.KIND, added("a", size=60), added("b", size=60), limits=Limits(long_term_bytes=100)
    )
    with pytest.raises(QuotaExceededError):
        given.when(UpdateMemory(now_us=1, memory_id="a", content="z", digest=b"z", size_bytes=61))
    shrink = UpdateMemory(now_us=1, memory_id="a", content="z", digest=b"z", size_bytes=59)
    assert len(given.when(shrink)) == 1


def test_a_missing_memory_cannot_be_changed() -> None:
    for command in (
        DeleteMemory(now_us=1, memory_id="a"),
        UpdateMemory(now_us=1, memory_id="a", content="x"),
    ):
        with pytest.raises(NotFoundError):
            Given(long_term.KIND).when(command)


def test_sums_follow_every_event() -> None:
    update = MemoryUpdated(memory_id="a", content="aa", size_bytes=7, digest=b"aa")
    events = [added("a"), added("b"), update, MemoryDeleted(memory_id="b"), added("c")]
    state = fold(long_term.KIND, [*events, MemoriesPruned(memory_ids=("c",), cause="quota")])
    assert (list(state.held.rows), state.held.size_bytes, state.held.stored_bytes) == (["a"], 7, 10)
    assert state.held.rows["a"].version == 3


def test_a_memory_keeps_its_place_until_it_goes() -> None:
    update = MemoryUpdated(memory_id="a", content="aa", size_bytes=7, digest=b"aa")
    events = [added("a"), added("b"), update]
    (passage,) = long_term.KIND.passages(fold(long_term.KIND, events).held.rows["a"])
    assert (version_of(passage.label), passage.place) == (3, 1)
    events += [MemoryDeleted(memory_id="a"), added("a")]
    (passage,) = long_term.KIND.passages(fold(long_term.KIND, events).held.rows["a"])
    assert (version_of(passage.label), passage.place) == (5, 5)


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(
        long_term.KIND, [added("a"), added("b", pinned=True), MemoryDeleted(memory_id="a")]
    )
    assert long_term.KIND.load(long_term.KIND.dump(state)) == state


def test_a_rows_event_records_its_stored_size() -> None:
    """An event for a row is recorded with its stored size."""
    state = long_term.KIND.fold(
        long_term.KIND.initial, [recorded(added("a"), version=7, stored_bytes=3)]
    )
    assert (state.held.rows["a"].version, state.held.stored_bytes) == (7, 3)


def pruned_past() -> list[Any]:
    """A memory that was added, updated and then pruned."""
    return [
        recorded(added("a", at=5), version=1),
        recorded(MemoryUpdated(memory_id="a", content="new", size_bytes=3, digest=b"n"), version=2),
        recorded(MemoriesPruned(memory_ids=("a",), cause="quota"), version=3),
    ]


def test_a_pruned_memory_is_restored_unchanged() -> None:
    """A pruned memory comes back as it was when it went."""
    (event,) = Given(long_term.KIND).when(
        RestoreMemories(now_us=9, memory_ids=("a",), past={"a": pruned_past()})
    )
    assert isinstance(event, MemoryRestored)
    assert (event.content, event.digest, event.occurred_at_us) == ("new", b"n", 5)
    assert event.created_at_us == 1_001, "when it was first added"
    row = fold(long_term.KIND, [event]).held.rows["a"]
    assert (row.created_at_us, row.size_bytes) == (1_001, 3)


def test_only_deleted_memories_are_restored() -> None:
    """A living memory is not restored, and a memory that never was cannot be."""
    command = RestoreMemories(now_us=9, memory_ids=("a",), past={"a": pruned_past()})
    assert Given(long_term.KIND, added("a")).when(command) == []
    with pytest.raises(NotFoundError):
        Given(long_term.KIND).when(RestoreMemories(now_us=9, memory_ids=("x",), past={"x": []}))


def test_a_restore_beyond_the_quota_is_refused() -> None:
    command = RestoreMemories(now_us=9, memory_ids=("a",), past={"a": pruned_past()})
    with pytest.raises(QuotaExceededError):
        full(3).when(command)


def test_prunes_are_counted() -> None:
    state = fold(long_term.KIND, [added("a"), MemoriesPruned(memory_ids=("a",), cause="quota")])
    assert long_term.KIND.tally(state).pruned == 1
