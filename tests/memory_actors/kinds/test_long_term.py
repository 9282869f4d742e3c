"""Long-term memory: what its commands decide."""

import pytest
from support.given import Given, fold, recorded

from memory_actors.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.kinds.long_term import (
    KIND,
    AddMemories,
    DeleteMemory,
    MemoriesPruned,
    MemoryAdded,
    MemoryDeleted,
    MemoryUpdated,
    NewMemory,
    UpdateMemory,
)
from memory_actors.quota import Limits


def added(name: str, *, at: int = 0, size: int = 10, pinned: bool = False) -> MemoryAdded:
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=size, digest=name.encode(), occurred_at_us=at,
        pinned=pinned,
    )  # fmt: skip


def new(name: str, *, size: int = 10, digest: bytes | None = None) -> NewMemory:
    return NewMemory(
        memory_id=name, content=name, size_bytes=size, digest=digest or name.encode(),
        occurred_at_us=0,
    )  # fmt: skip


def add(*memories: NewMemory, auto_prune: bool = False, used: dict[str, bytes] | None = None):
    return AddMemories(now_us=1, memories=memories, auto_prune=auto_prune, used=used or {})


def full(count: int, **limits: int) -> Given:
    events = [added(f"m{i}", at=i) for i in range(count)]
    return Given(KIND, *events, limits=Limits(long_term_memories=count, **limits))


def test_an_added_memory_is_one_event() -> None:
    (event,) = Given(KIND).when(add(new("a")))
    assert event == added("a")


def test_adding_the_same_memory_again_is_satisfied() -> None:
    assert Given(KIND, added("a")).when(add(new("a"))) == []


def test_adding_it_twice_in_one_command_adds_it_once() -> None:
    assert Given(KIND).when(add(new("a"), new("a"))) == [added("a")]


def test_an_id_with_another_content_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="another content"):
        Given(KIND, added("a")).when(add(new("a", digest=b"other")))
    with pytest.raises(InvalidInputError, match="another content"):
        Given(KIND).when(add(new("a"), new("a", digest=b"other")))


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    given = Given(KIND, added("a"), MemoryDeleted(memory_id="a"))
    assert given.when(add(new("a"), used={"a": b"a"})) == []


def test_a_full_memory_refuses_with_advice() -> None:
    with pytest.raises(QuotaExceededError) as refused:
        full(10_000).when(add(new("x")))
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
    given = Given(KIND, added("a", size=int(99.98 * 1024 * 1024)), limits=limits)
    with pytest.raises(QuotaExceededError, match=r"\(99\.98 MB of 100 MB\)"):
        given.when(add(new("x", size=1024 * 1024)))


def test_a_prune_names_the_oldest_tenth_and_comes_before_the_add() -> None:
    events = full(40).when(add(new("x"), auto_prune=True))
    assert events == [
        MemoriesPruned(memory_ids=("m0", "m1", "m2", "m3"), cause="quota"),
        added("x"),
    ]


def test_at_ten_thousand_a_prune_deletes_one_thousand() -> None:
    prune, _ = full(10_000).when(add(new("x"), auto_prune=True))
    assert len(prune.memory_ids) == 1_000
    assert prune.memory_ids[-1] == "m999"


def test_oldest_is_by_the_time_it_was_true_then_by_arrival() -> None:
    given = Given(
        KIND, added("late", at=9), added("early", at=1), added("tie", at=1),
        limits=Limits(long_term_memories=3),
    )  # fmt: skip
    prune, *_ = given.when(add(new("x"), new("y"), auto_prune=True))
    assert prune.memory_ids == ("early", "tie")


def test_a_pinned_memory_is_never_pruned() -> None:
    pinned = [added(f"p{i}", at=i, pinned=True) for i in range(3)]
    given = Given(KIND, *pinned, added("free", at=9), limits=Limits(long_term_memories=4))
    prune, _ = given.when(add(new("x"), auto_prune=True))
    assert prune.memory_ids == ("free",)
    with pytest.raises(QuotaExceededError):
        Given(KIND, *pinned, limits=Limits(long_term_memories=3)).when(
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
    given = Given(KIND, added("a"))
    command = UpdateMemory(now_us=1, memory_id="a", metadata={"k": 1})
    assert given.when(command) == [MemoryUpdated(memory_id="a", metadata={"k": 1})]


def test_an_update_that_changes_nothing_is_satisfied() -> None:
    command = UpdateMemory(now_us=1, memory_id="a", content="a", digest=b"a", size_bytes=10)
    assert Given(KIND, added("a")).when(command) == []


def test_an_update_may_not_grow_beyond_the_quota_but_may_shrink_above_it() -> None:
    given = Given(
        KIND, added("a", size=60), added("b", size=60), limits=Limits(long_term_bytes=100)
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
            Given(KIND).when(command)


def test_sums_follow_every_event() -> None:
    update = MemoryUpdated(memory_id="a", content="aa", size_bytes=7, digest=b"aa")
    events = [added("a"), added("b"), update, MemoryDeleted(memory_id="b"), added("c")]
    state = fold(KIND, [*events, MemoriesPruned(memory_ids=("c",), cause="quota")])
    assert (list(state.rows), state.size_bytes, state.stored_bytes) == (["a"], 7, 10)
    assert state.rows["a"].version == 3


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(KIND, [added("a"), added("b", pinned=True), MemoryDeleted(memory_id="a")])
    assert KIND.load(KIND.dump(state)) == state


def test_an_event_for_a_row_is_recorded_with_its_stored_size() -> None:
    state = KIND.evolve(KIND.initial, recorded(added("a"), version=7, stored_bytes=3))
    assert (state.rows["a"].version, state.stored_bytes) == (7, 3)
