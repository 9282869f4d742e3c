"""Working memory: what its commands decide."""

from typing import Any

import msgspec
import pytest
from support.given import Given, fold

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.quota import Limits
from memory_actors.kinds import working
from memory_actors.kinds.structured import DocumentPut
from memory_actors.kinds.working import KeySet, SetKey


def was_set(key: str, value: Any = 1, *, size: int = 10, **more: Any) -> KeySet:
    return KeySet(memory_id=f"id-{key}", key=key, value=value, size_bytes=size, **more)


def set_key(key: str, value: Any = 2, *, size: int = 10, **more: Any) -> SetKey:
    entry = KeySet(memory_id="new", key=key, value=value, size_bytes=size)
    return SetKey(now_us=1, entry=entry, **more)


def test_true_and_one_are_different_values() -> None:
    assert len(Given(working.KIND, was_set("a", 1)).when(set_key("a", True))) == 1
    assert len(Given(working.KIND, was_set("a", 1)).when(set_key("a", 1.0))) == 1


def test_keys_unknown_to_the_order_of_use_count_as_recent() -> None:
    given = Given(working.KIND, was_set("a"), was_set("b"), limits=Limits(working_keys=2))
    (event,) = given.when(set_key("c", auto_prune=True, least_recent=("b", "gone")))
    assert event.evicted == ("b",)


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


def test_an_entry_cannot_take_the_id_of_a_document_of_the_same_key() -> None:
    document = DocumentPut(
        memory_id="new", collection="default", key="a", value={}, size_bytes=2, digest=b"x",
        value_digest=b"x", occurred_at_us=1,
    )  # fmt: skip
    command = set_key("a", own_ids=("new",), used={"new": document})
    with pytest.raises(InvalidInputError, match="stands for another memory"):
        Given(working.KIND).when(command)
