"""Working memory: what its commands decide."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold

from memory_actors.base.errors import NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import working
from memory_actors.kinds.working import DeleteKey, KeyDeleted, KeySet, SetKey


def was_set(key: str, value: Any = 1, *, size: int = 10, **more: Any) -> KeySet:
    return KeySet(memory_id=f"id-{key}", key=key, value=value, size_bytes=size, **more)


def set_key(key: str, value: Any = 2, *, size: int = 10, **more: Any) -> SetKey:
    entry = KeySet(memory_id="new", key=key, value=value, size_bytes=size)
    return SetKey(now_us=1, entry=entry, **more)


def test_a_new_key_gets_the_new_id() -> None:
    """A new key gets the new id, and an old one keeps its own."""
    given = Given(working.KIND, was_set("a"))
    assert given.when(set_key("b"))[0].memory_id == "new"
    assert given.when(set_key("a"))[0].memory_id == "id-a"


def test_setting_the_same_value_again_is_satisfied() -> None:
    assert Given(working.KIND, was_set("a", 1)).when(set_key("a", 1)) == []


def test_true_and_one_are_different_values() -> None:
    assert len(Given(working.KIND, was_set("a", 1)).when(set_key("a", True))) == 1
    assert len(Given(working.KIND, was_set("a", 1)).when(set_key("a", 1.0))) == 1


def test_a_new_key_at_the_limit_is_refused() -> None:
    """A new key at the limit is refused, and an old one is not."""
    given = Given(working.KIND, was_set("a"), was_set("b"), limits=Limits(working_keys=2))
    with pytest.raises(QuotaExceededError, match=r"max: 2"):
        given.when(set_key("c"))
    assert given.when(set_key("a"))[0].evicted == ()


def test_with_leave_the_least_recently_used_key_goes() -> None:
    given = Given(working.KIND, was_set("a"), was_set("b"), limits=Limits(working_keys=2))
    (event,) = given.when(set_key("c", auto_prune=True, least_recent=("b", "a")))
    assert (event.evicted, event.evicted_ids) == (("b",), ("id-b",))


def test_keys_unknown_to_the_order_of_use_count_as_recent() -> None:
    given = Given(working.KIND, was_set("a"), was_set("b"), limits=Limits(working_keys=2))
    (event,) = given.when(set_key("c", auto_prune=True, least_recent=("b", "gone")))
    assert event.evicted == ("b",)


def test_by_size_the_least_recently_used_go_without_being_asked() -> None:
    given = Given(
        working.KIND, was_set("a"), was_set("b"), was_set("c"), limits=Limits(working_bytes=30)
    )
    (event,) = given.when(set_key("d", size=15, least_recent=("c", "a", "b")))
    assert event.evicted == ("c", "a")


def test_keys_that_left_are_counted() -> None:
    gone = was_set("c", evicted=("a", "b"), evicted_ids=("id-a", "id-b"))
    state = fold(
        working.KIND, [was_set("a"), was_set("b"), gone, KeyDeleted(memory_id="id-c", key="c")]
    )
    assert (working.KIND.tally(state).count, working.KIND.tally(state).evicted) == (0, 2)


def test_a_key_that_grows_never_evicts_itself() -> None:
    given = Given(working.KIND, was_set("a"), was_set("b"), limits=Limits(working_bytes=20))
    (event,) = given.when(set_key("a", size=20, least_recent=("a", "b")))
    assert event.evicted == ("b",)


def test_a_value_that_can_never_fit_is_refused() -> None:
    with pytest.raises(QuotaExceededError, match="size quota"):
        Given(working.KIND, limits=Limits(working_bytes=20)).when(
            set_key("a", size=21, auto_prune=True)
        )


def test_a_key_is_deleted_by_name_or_by_id() -> None:
    given = Given(working.KIND, was_set("a"))
    gone = KeyDeleted(memory_id="id-a", key="a")
    assert given.when(DeleteKey(now_us=1, key="a")) == [gone]
    assert given.when(DeleteKey(now_us=1, memory_id="id-a")) == [gone]
    with pytest.raises(NotFoundError):
        given.when(DeleteKey(now_us=1, key="b"))


def test_a_value_is_found_by_the_words_of_its_key() -> None:
    state = fold(working.KIND, [was_set("home_town", "Porto"), was_set("id-x", "Lyon")])
    named, own = working.KIND.rows(state)
    own = msgspec.structs.replace(own, memory_id="id-x")
    assert working.KIND.passage_text(named, 0, {}) == "home town: Porto"
    assert working.KIND.passage_text(own, 0, {}) == "Lyon", "the key is its id, which says nothing"


def test_a_dump_keeps_the_order_in_which_keys_were_set() -> None:
    state = fold(working.KIND, [was_set("a"), was_set("b"), was_set("a", 2)])
    assert [row.key for row in working.KIND.rows(working.KIND.load(working.KIND.dump(state)))] == [
        "b",
        "a",
    ]
    assert working.KIND.load(working.KIND.dump(state)) == state
