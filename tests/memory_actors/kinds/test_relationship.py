"""Relationships between entities: what their commands decide."""

import pytest
from support.entities import after, people, relate, related, validity
from support.given import recorded

from memory_actors import InvalidInputError, Limits
from memory_actors.kinds import entity
from memory_actors.kinds.entity import EndRelationship, graph
from memory_actors.kinds.entity.events import (
    RelationshipEnded,
)

# --- relate


def test_a_repeated_fact_ends_no_later_than_known() -> None:
    """A fact said again with an end ends, but never later than was known."""
    given = people(related("r", "ann", "knows", "bob", 5, valid_to_us=20))
    assert given.when(relate("s", "ann", "knows", "bob", 6, valid_to_us=9)) == [
        RelationshipEnded(memory_id="r", valid_to_us=9)
    ]
    assert given.when(relate("s", "ann", "knows", "bob", 6, valid_to_us=30)) == []


def test_what_has_ended_begins_anew_as_a_new_relationship() -> None:
    given = people(related("r", "ann", "knows", "bob", 0, valid_to_us=5))
    (event,) = given.when(relate("s", "ann", "knows", "bob", 5))
    assert (event.memory_id, event.valid_from_us) == ("s", 5)
    with pytest.raises(InvalidInputError, match="use a new id"):
        given.when(relate("r", "ann", "knows", "bob", 5))


def test_an_id_of_a_relationship_is_not_used_for_another() -> None:
    given = people(related("r", "ann", "knows", "bob"))
    first = related("r", "ann", "knows", "bob")
    for command in (
        relate("r", "ann", "knows", "cid"),
        relate("ann", "ann", "knows", "cid"),
        relate("gone", "ann", "knows", "cid", used={"gone": first}),
    ):
        with pytest.raises(InvalidInputError, match="another memory"):
            given.when(command)
    assert people().when(relate("gone", "ann", "knows", "bob", used={"gone": first})) == []


def test_an_end_may_be_moved_to_an_earlier_time_only() -> None:
    given = people(related("r", "ann", "knows", "bob", 5, valid_to_us=9))

    def end(at: int) -> EndRelationship:
        return EndRelationship(now_us=1, memory_id="r", valid_to_us=at)

    assert given.when(end(7)) == [RelationshipEnded(memory_id="r", valid_to_us=7)]
    assert given.when(end(9)) == []
    assert validity(after(given, end(7)), "r") == (5, 7)
    with pytest.raises(InvalidInputError, match="relate the two again"):
        given.when(end(10))
    with pytest.raises(InvalidInputError, match="before valid_from"):
        given.when(end(4))


def test_a_fact_between_others_ends_at_its_own_end_or_where_the_next_begins() -> None:
    given = people(
        related("next", "ann", "lives_in", "bob", 20, valid_to_us=30, exclusive=True),
        related("last", "ann", "lives_in", "bob", 30, exclusive=True),
    )
    for end, expected in ((None, 20), (25, 20), (15, 15)):
        command = relate("r", "ann", "lives_in", "cid", 10, valid_to_us=end, exclusive=True)
        assert given.when(command)[0].valid_to_us == expected
    (event,) = given.when(relate("r", "ann", "lives_in", "cid", 30, exclusive=True))
    assert (event.valid_to_us, event.closed_ids) == (None, ("last",))


# --- ten thousand


def test_one_fact_after_another_does_not_get_slower() -> None:
    state = people().state
    for index in range(300):
        target = ("bob", "cid")[index % 2]
        command = relate(f"r{index}", "ann", "lives_in", target, index, exclusive=True)
        (event,) = entity.KIND.decide(command, state, Limits())
        assert event.closed_ids == ((f"r{index - 1}",) if index else ())
        state = entity.KIND.fold(state, [recorded(event, index + 10)])
    looked_at = graph.alike(state.graph, "ann", "lives_in", None, since_us=299)
    assert [row.memory_id for row in looked_at] == ["r299"]
