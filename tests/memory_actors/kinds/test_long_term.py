"""Long-term memory: what its commands decide."""

from typing import Any

from support.given import Given, added, fold

from eventlog import Dropped
from memory_actors import Limits
from memory_actors.kinds import long_term
from memory_actors.kinds.long_term import (
    AddMemories,
    MemoryAdded,
    MemoryDeleted,
    MemoryUpdated,
)
from memory_actors.kinds.passages import version_of


def add(*memories: MemoryAdded, auto_prune: bool = False, used: dict[str, Any] | None = None):
    return AddMemories(now_us=1, memories=memories, auto_prune=auto_prune, used=used or {})


def full(count: int, **limits: Any) -> Given:
    events = [added(f"m{i}", at=i) for i in range(count)]
    return Given(long_term.KIND, *events, limits=Limits(long_term_memories=count, **limits))


def test_at_ten_thousand_a_prune_deletes_one_thousand() -> None:
    prune, _ = full(10_000).when(add(added("x"), auto_prune=True))
    assert len(prune.memory_ids) == 1_000
    assert prune.memory_ids[-1] == "m999"


def test_a_memory_keeps_its_place_until_it_goes() -> None:
    update = MemoryUpdated(memory_id="a", content="aa", size_bytes=7, digest=b"aa")
    events = [added("a"), added("b"), update]
    (passage,) = long_term.KIND.passages(fold(long_term.KIND, events).rows["a"])
    assert (version_of(passage.label), passage.place) == (3, 1)
    events += [MemoryDeleted(memory_id="a"), added("a")]
    (passage,) = long_term.KIND.passages(fold(long_term.KIND, events).rows["a"])
    assert (version_of(passage.label), passage.place) == (5, 5)


def test_an_add_that_is_repeated_after_retention_dropped_the_first_adds_nothing() -> None:
    """The first text is gone, so it cannot be compared, and an id is never used again."""
    reworded = MemoryUpdated(memory_id="a", content="aa", size_bytes=7, digest=b"aa")
    given = Given(long_term.KIND, added("a"), reworded)
    assert given.when(add(added("a"), used={"a": Dropped(since_us=1)})) == []
