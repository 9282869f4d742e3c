"""Short-term memory: what its commands decide."""

from support.given import fold

from memory_actors.kinds import short_term
from memory_actors.kinds.short_term import (
    SECOND_US,
    MessageAdded,
    SessionsExpired,
)

HOUR_US = 3600 * SECOND_US


def added(name: str, *, session: str = "s", size: int = 10, expires: int = HOUR_US, **more):
    return MessageAdded(
        memory_id=name, session_id=session, content=name, size_bytes=size, expires_at_us=expires,
        occurred_at_us=0, **more,
    )  # fmt: skip


def test_a_search_without_a_session_looks_at_those_used_last() -> None:
    sessions = [added(name, session=name, expires=HOUR_US + n) for n, name in enumerate("abcd")]
    state = fold(short_term.KIND, sessions)
    assert [row.memory_id for row in short_term.KIND.at_hand(state, None)] == ["d", "c", "b"]
    assert [row.memory_id for row in short_term.KIND.at_hand(state, "a")] == ["a"]


def test_a_clock_that_goes_back_revives_nothing_that_was_named() -> None:
    state = fold(
        short_term.KIND,
        [added("a"), SessionsExpired(session_ids=("s",), memory_ids=("a",), cause="ttl")],
    )
    assert short_term.KIND.at(state, 0).session("s") == []
    assert state.next_expiry_us == 0
