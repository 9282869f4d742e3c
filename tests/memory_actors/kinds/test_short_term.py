"""Short-term memory: what its commands decide."""

import pytest
from support.given import Given, fold

from memory_actors.base.errors import NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import short_term
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.short_term import (
    SECOND_US,
    AddMessage,
    DeleteMessage,
    MessageAdded,
    MessageDeleted,
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


def add(name: str, *, session: str = "s", size: int = 10, now: int = 0) -> AddMessage:
    message = MessageAdded(
        memory_id=name, session_id=session, content=name, size_bytes=size, occurred_at_us=now
    )
    return AddMessage(now_us=now, message=message)


def test_a_message_renews_the_life_of_its_session() -> None:
    (event,) = Given(short_term.KIND, added("a")).when(add("b", now=5))
    assert event.expires_at_us == 5 + HOUR_US


def test_the_oldest_message_leaves_a_full_session() -> None:
    given = Given(short_term.KIND, added("a"), added("b"), limits=Limits(short_term_messages=2))
    (event,) = given.when(add("c"))
    assert event.evicted_ids == ("a",)


def test_messages_leave_until_the_new_one_fits_by_size() -> None:
    limits = Limits(short_term_bytes=30)
    given = Given(short_term.KIND, added("a"), added("b"), added("c"), limits=limits)
    (event,) = given.when(add("d", size=15))
    assert event.evicted_ids == ("a", "b")


def test_the_session_that_was_used_last_is_exported_last() -> None:
    used = [added("a", session="s"), added("b", session="t"), added("c", session="s")]
    state = fold(short_term.KIND, used)
    assert [row.memory_id for row in short_term.KIND.exported(state)] == ["b", "a", "c"]


def test_a_search_without_a_session_looks_at_those_used_last() -> None:
    sessions = [added(name, session=name, expires=HOUR_US + n) for n, name in enumerate("abcd")]
    state = fold(short_term.KIND, sessions)
    assert [row.memory_id for row in short_term.KIND.at_hand(state, None)] == ["d", "c", "b"]
    assert [row.memory_id for row in short_term.KIND.at_hand(state, "a")] == ["a"]


def test_expired_messages_are_named_with_the_next_event() -> None:
    """Messages whose time is up are named with whatever comes next."""
    given = Given(short_term.KIND, added("a", expires=5), added("b", session="t"))
    update = UpdateMessage(now_us=5, memory_id="b", content="c", size_bytes=1)
    for command in (add("x", now=5), update, DeleteMessage(now_us=5, memory_id="b")):
        expired, *_ = given.when(command)
        assert expired == SessionsExpired(session_ids=("s",), memory_ids=("a",), cause="ttl")


def test_a_message_that_says_the_same_already_changes_nothing() -> None:
    given = Given(short_term.KIND, added("a", metadata={"a": 1}))
    assert given.when(UpdateMessage(now_us=1, memory_id="a", metadata={"a": 1})) == []
    (event,) = given.when(UpdateMessage(now_us=1, memory_id="a", metadata={"a": True}))
    assert event.metadata == {"a": True}


def test_a_message_larger_than_a_session_is_refused() -> None:
    with pytest.raises(QuotaExceededError):
        Given(short_term.KIND, limits=Limits(short_term_bytes=30)).when(add("a", size=31))


def test_sessions_have_room_of_their_own() -> None:
    given = Given(short_term.KIND, added("a"), added("b"), limits=Limits(short_term_messages=2))
    (event,) = given.when(add("c", session="other"))
    assert event.evicted_ids == ()


def test_an_expired_session_is_named_before_the_next_message() -> None:
    given = Given(short_term.KIND, added("a"), added("b"))
    expired, event = given.when(add("c", now=HOUR_US))
    assert expired == SessionsExpired(session_ids=("s",), memory_ids=("a", "b"), cause="ttl")
    assert event.evicted_ids == ()


def test_expiry_of_one_session_is_found_while_another_is_used() -> None:
    given = Given(short_term.KIND, added("a", expires=10), added("b", session="t", expires=HOUR_US))
    expired, _ = given.when(add("c", session="t", now=10))
    assert expired.session_ids == ("s",)


def test_a_session_is_not_read_once_its_time_is_up() -> None:
    state = fold(short_term.KIND, [added("a", expires=10)])
    assert [row.memory_id for row in short_term.KIND.at(state, 9).session("s")] == ["a"]
    assert short_term.KIND.at(state, 10).session("s") == []


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


def test_deleting_takes_a_message_out_of_its_session() -> None:
    given = Given(short_term.KIND, added("a"), added("b"))
    (event,) = given.when(DeleteMessage(now_us=0, memory_id="a"))
    assert event == MessageDeleted(memory_id="a", session_id="s")
    after = fold(short_term.KIND, [added("a"), added("b"), event])
    assert [row.memory_id for row in short_term.KIND.at(after, 0).session("s")] == ["b"]
    assert after.sessions["s"].size_bytes == 10


def test_adding_the_same_message_again_is_satisfied() -> None:
    assert Given(short_term.KIND, added("a")).when(add("a")) == []


def test_an_update_may_not_grow_a_session_beyond_its_size() -> None:
    given = Given(short_term.KIND, added("a"), added("b"), limits=Limits(short_term_bytes=20))
    with pytest.raises(QuotaExceededError):
        given.when(UpdateMessage(now_us=0, memory_id="a", content="x", size_bytes=11))


def test_a_message_keeps_its_place_when_it_is_reworded() -> None:
    update = MessageUpdated(memory_id="a", session_id="s", content="x", size_bytes=1)
    state = fold(short_term.KIND, [added("a"), added("b"), update])
    passages = [short_term.KIND.passages(row)[0] for row in short_term.KIND.rows(state)]
    assert [version_of(passage.label) for passage in passages] == [3, 2]
    assert [passage.place for passage in passages] == [1, 2]


def test_a_dump_loads_back_to_the_same_state() -> None:
    state = fold(
        short_term.KIND, [added("a"), added("b", session="t"), added("c", evicted_ids=("a",))]
    )
    assert short_term.KIND.load(short_term.KIND.dump(state)) == state


def test_the_first_to_expire_leaves_at_the_session_limit() -> None:
    """At the limit of sessions, the one that expires first goes."""
    given = Given(
        short_term.KIND, added("a", session="s", expires=20), added("b", session="t", expires=10),
        limits=Limits(short_term_sessions=2),
    )  # fmt: skip
    assert len(given.when(add("c", session="s"))) == 1, "no new session"
    gone, _ = given.when(add("c", session="u"))
    assert gone == SessionsExpired(session_ids=("t",), memory_ids=("b",), cause="quota")


def test_sums_follow_sessions_that_come_and_go() -> None:
    events = [added("a", size=5), added("b", session="t"), added("c", evicted_ids=("a",))]
    tally = short_term.KIND.tally(fold(short_term.KIND, events))
    assert (tally.count, tally.size_bytes, tally.stored_bytes, tally.evicted) == (2, 20, 20, 1)
