"""Working memory: what its commands decide."""

from typing import Any

import msgspec
from support.given import fold

from memory_actors.kinds import working
from memory_actors.kinds.working import KeySet


def was_set(key: str, value: Any = 1, **more: Any) -> KeySet:
    return KeySet(memory_id=f"id-{key}", key=key, value=value, size_bytes=10, **more)


def test_a_value_is_found_by_the_words_of_its_key() -> None:
    state = fold(working.KIND, [was_set("home_town", "Porto"), was_set("id-x", "Lyon")])
    named, own = working.KIND.rows(state)
    own = msgspec.structs.replace(own, memory_id="id-x")
    assert working.KIND.passage_text(named, 0, {}) == "home town: Porto"
    assert working.KIND.passage_text(own, 0, {}) == "Lyon", "the key is its id, which says nothing"
