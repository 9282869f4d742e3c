"""Relationships between entities: what their commands decide."""

import pytest
from support.entities import PEOPLE, after, people, relate, related, restore, validity
from support.given import Given, fold, recorded

from memory_actors.base.errors import InvalidInputError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import entity
from memory_actors.kinds.entity import EndRelationship, UpdateRelationship, graph
from memory_actors.kinds.entity.events import (
    RelationshipDeleted,
    RelationshipEnded,
    RelationshipUpdated,
)

# --- relate


def test_a_relationship_carries_the_names_of_its_ends() -> None:
    (event,) = people().when(relate("r", "ann", "works_at", "bob", 5))
    assert event == related("r", "ann", "works_at", "bob", 5)
    assert (event.source, event.target) == ("Ann", "Bob")


def test_the_relationship_that_says_it_is_known_whatever_its_id() -> None:
    given = people(related("r", "ann", "works_at", "bob", 5))
    again, new = (
        relate("s", "ann", "works_at", name, 7, exclusive=True) for name in ("bob", "cid")
    )
    for command, memory_id in ((again, "r"), (new, "s")):
        row = entity.known_as(command.relationship, after(given, command).graph)
        assert row is not None
        assert row.memory_id == memory_id
    assert entity.known_as(new.relationship, given.state.graph) is None


def test_said_again_it_takes_a_new_fact_and_merges_metadata() -> None:
    given = people(related("r", "ann", "works_at", "bob", 5, metadata={"a": 1}))
    command = relate("s", "ann", "works_at", "bob", 6, fact="She runs it.", metadata={"b": 2})
    assert given.when(command) == [
        RelationshipUpdated(
            memory_id="r", content="She runs it.", size_bytes=12,
            digest=command.relationship.digest, source="Ann", target="Bob",
            metadata={"a": 1, "b": 2},
        )
    ]  # fmt: skip
    state = after(given, command)
    again = relate("t", "ann", "works_at", "bob", 7)
    assert entity.KIND.decide(again, state, given.limits) == [], (
        "without a fact it keeps the one it has"
    )
    (pin,) = given.when(relate("t", "ann", "works_at", "bob", 7, pinned=True))
    assert (pin.pinned, pin.content, pin.metadata) == (True, None, None)


def test_a_repeated_fact_ends_no_later_than_known() -> None:
    """A fact said again with an end ends, but never later than was known."""
    given = people(related("r", "ann", "knows", "bob", 5, valid_to_us=20))
    assert given.when(relate("s", "ann", "knows", "bob", 6, valid_to_us=9)) == [
        RelationshipEnded(memory_id="r", valid_to_us=9)
    ]
    assert given.when(relate("s", "ann", "knows", "bob", 6, valid_to_us=30)) == []


def test_a_new_fact_ends_the_one_that_it_contradicts() -> None:
    given = people(related("r", "ann", "lives_in", "bob", 5))
    command = relate("s", "ann", "Lives in", "cid", 9, exclusive=True)
    (event,) = given.when(command)
    assert (event.closed_ids, event.valid_to_us) == (("r",), None)
    assert entity.KIND.registry.keys(event) == ("s", "r"), "the life of r is told under its id"
    state = after(given, command)
    assert (validity(state, "r"), validity(state, "s")) == ((5, 9), (9, None))


def test_the_ending_event_is_stored_once() -> None:
    """The event that ends another fact is stored for the new one alone."""
    given = people(related("r", "ann", "lives_in", "bob"))
    state = after(given, relate("s", "ann", "lives_in", "cid", 5, exclusive=True))
    assert [state.graph.rows[i].stored_bytes for i in ("r", "s")] == [10, 10]


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


def test_an_update_replaces_fact_or_metadata() -> None:
    """An update of a relationship replaces its fact or its metadata."""
    given = people(related("r", "ann", "knows", "bob", metadata={"a": 1}))
    fact = UpdateRelationship(now_us=1, memory_id="r", content="x", size_bytes=1, digest=b"x")
    assert given.when(fact) == [
        RelationshipUpdated(
            memory_id="r", content="x", size_bytes=1, digest=b"x", source="Ann", target="Bob"
        )
    ]
    metadata = UpdateRelationship(now_us=1, memory_id="r", metadata={"b": 2})
    assert given.when(metadata) == [RelationshipUpdated(memory_id="r", metadata={"b": 2})]
    row = after(given, fact, metadata).graph.rows["r"]
    assert (row.size_bytes, row.metadata) == (1, {"b": 2})
    assert entity.KIND.decide(fact, after(given, fact), given.limits) == []
    with pytest.raises(QuotaExceededError):
        people(limits=Limits(entity_bytes=30)).when(relate("r", "ann", "knows", "bob"))


# --- restore


def test_a_relationship_comes_back_as_it_was_when_it_went() -> None:
    events = [
        *PEOPLE,
        related("r", "ann", "knows", "bob", 5, metadata={"a": 1}),
        RelationshipUpdated(
            memory_id="r", content="x", size_bytes=1, digest=b"x", metadata={"b": 2}, pinned=True
        ),
        RelationshipEnded(memory_id="r", valid_to_us=9),
        RelationshipDeleted(memory_id="r"),
    ]
    given = Given(entity.KIND, *events)
    before = fold(entity.KIND, events[:-1]).graph.rows["r"]
    now = after(given, restore("r", after=events)).graph.rows["r"]
    (event,) = given.when(restore("r", after=events))
    assert (event.fact, event.source, event.target) == ("x", "Ann", "Bob")
    for field in ("metadata", "pinned", "valid_to_us", "valid_from_us", "digest", "created_at_us"):
        assert getattr(now, field) == getattr(before, field)


def test_a_relationship_comes_back_ended_by_what_ended_it() -> None:
    events = [
        *PEOPLE,
        related("r", "ann", "lives_in", "bob"),
        related("s", "ann", "lives_in", "cid", 9, exclusive=True, closed_ids=("r",)),
        RelationshipDeleted(memory_id="r"),
        RelationshipDeleted(memory_id="s"),
    ]
    (event,) = Given(entity.KIND, *events).when(restore("r", after=events))
    assert (event.valid_from_us, event.valid_to_us) == (0, 9)


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
