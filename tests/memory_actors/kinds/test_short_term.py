"""Short-term memory: what its commands decide."""

import pytest
from support.given import Given, fold

from memory_actors.base.errors import NotFoundError
from memory_actors.kinds import short_term
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.short_term import (
    SECOND_US,
    DeleteMessage,
    MessageAdded,
    MessageUpdated,
    SessionsExpired,
    UpdateMessage,
)

HOUR_US = 3600 * SECOND_US


def added(name: str, *, session: str = "s", size: int = 10, expires: int = HOUR_US, **more):
    return MessageAdded(
        memory_id=name, session_id=session, content=name, size_bytes=size, expires_at_us=expires,
        occurred_at_us=0, **more,
    )  # fmt: skip


def test_the_session_that_was_used_last_is_exported_last() -> None:
    used = [added("a", session="s"), added("b", session="t"), added("c", session="s")]
    state = fold(short_term.KIND, used)
    assert [row.memory_id for row in short_term.KIND.exported(state)] == ["b", "a", "c"]


def test_a_search_without_a_session_looks_at_those_used_last() -> None:
    sessions = [added(name, session=name, expires=HOUR_US + n) for n, name in enumerate("abcd")]
    state = fold(short_term.KIND, sessions)
    assert [row.memory_id for row in short_term.KIND.at_hand(state, None)] == ["d", "c", "b"]
    assert [row.memory_id for row in short_term.KIND.at_hand(state, "a")] == ["a"]


def test_an_expired_message_cannot_be_changed() -> None:
    given = Given(short_term.KIND, added("a", expires=10))
    for command in (
        DeleteMessage(now_us=10, memory_id="a"),
        UpdateMessage(now_us=10, memory_id="a", content="x"),
    ):
        with pytest.raises(NotFoundError):
            given.when(command)


def test_a_clock_that_goes_back_revives_nothing_that_was_named() -> None:
    state = fold(
        short_term.KIND,
        [added("a"), SessionsExpired(session_ids=("s",), memory_ids=("a",), cause="ttl")],
    )
    assert short_term.KIND.at(state, 0).session("s") == []
    assert state.next_expiry_us == 0


def test_a_message_keeps_its_place_when_it_is_reworded() -> None:
    update = MessageUpdated(memory_id="a", session_id="s", content="x", size_bytes=1)
    state = fold(short_term.KIND, [added("a"), added("b"), update])
    passages = [short_term.KIND.passages(row)[0] for row in short_term.KIND.rows(state)]
    assert [version_of(passage.label) for passage in passages] == [3, 2]
    assert [passage.place for passage in passages] == [1, 2]
