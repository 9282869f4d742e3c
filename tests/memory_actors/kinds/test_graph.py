"""Entities and relationships: how they read, and the graph they make."""

from typing import Any

import pytest
from support.entities import PEOPLE, added, people, related, seen
from support.given import Given, recorded

from memory_actors.base.errors import InvalidInputError
from memory_actors.kinds import entity
from memory_actors.kinds.entity import graph
from memory_actors.kinds.entity.events import EntityObserved, EntityUpdated, RelationshipUpdated
from memory_actors.kinds.passages import Passage, label, observation_text, text_digest
from memory_actors.kinds.past import Events

HOUR_US = 3_600_000_000


def log(*events: Any) -> tuple[Any, Events]:
    """Return the state after events, and the events by version."""
    entries = {version: recorded(event, version) for version, event in enumerate(events, start=1)}
    return entity.KIND.fold(entity.KIND.initial, entries.values()), entries


def ids(rows: Any) -> list[str]:
    return [row.memory_id for row in rows]


# --- texts


def test_an_entity_reads_with_one_observation_a_line() -> None:
    observed = EntityObserved(
        memory_id="ann", occurred_at_us=0, observations=(seen("Ann", "is 30"), seen("Ann", "is in"))
    )
    state, events = log(added("Ann", "likes tea"), observed)
    row = entity.KIND.find(state, "ann")
    assert entity.KIND.content(row, events) == "Ann (person):\nlikes tea\nis 30\nis in"
    assert entity.KIND.data(row, events) == {
        "name": "Ann", "type": "person", "observations": ["likes tea", "is 30", "is in"],
    }  # fmt: skip
    assert entity.KIND.sources(row) == [1, 2]


def test_an_entity_is_found_by_name_and_observations() -> None:
    """An entity is found by its name, and by each observation."""
    update = EntityUpdated(memory_id="bob", content="new", size_bytes=3, digest=b"n")
    state, events = log(added("Ann", "likes tea", "ann: yes"), added("Bob", "old"), update)
    row = entity.KIND.find(state, "ann")
    passages = entity.KIND.passages(row)
    assert passages[:2] == (
        Passage(label(1, 0), text_digest("Ann (person)")),
        Passage(label(1, 1), text_digest("Ann: likes tea")),
    )
    texts = [entity.KIND.passage_text(row, passage.label, events) for passage in passages]
    assert texts == ["Ann (person)", "Ann: likes tea", "ann: yes"]
    bob = entity.KIND.find(state, "bob")
    assert entity.KIND.passages(bob)[1:] == (Passage(label(3, 1), b"n"),)
    assert entity.KIND.passage_text(bob, label(3, 1), events) == observation_text("Bob", "new")


def test_a_relationship_reads_as_fact_or_names() -> None:
    """A relationship reads as its fact, or as names and relation."""
    told = related("r2", "ann", "knows", "bob", 5 * HOUR_US, valid_to_us=6 * HOUR_US, fact="Hi.")
    state, events = log(*PEOPLE, related("r1", "ann", "works_at", "bob"), told)
    plain, fact = (entity.KIND.find(state, memory_id) for memory_id in ("r1", "r2"))
    assert entity.KIND.content(plain, events) == "Ann works at Bob"
    assert entity.KIND.content(fact, events) == "Hi."
    (passage,) = entity.KIND.passages(fact)
    assert passage == Passage(label(5), text_digest("Hi."))
    assert entity.KIND.passage_text(fact, passage.label, events) == "Hi."
    assert entity.KIND.data(fact, events) == {
        "source_id": "ann", "source": "Ann", "relation": "knows", "target_id": "bob",
        "target": "Bob", "fact": "Hi.", "valid_from": "1970-01-01T05:00:00+00:00",
        "valid_to": "1970-01-01T06:00:00+00:00",
    }  # fmt: skip
    assert entity.KIND.data(plain, events)["fact"] is None
    assert entity.KIND.data(plain, events)["valid_to"] is None


def test_an_updated_fact_reads_from_the_event_that_told_it() -> None:
    update = RelationshipUpdated(
        memory_id="r", content="New.", size_bytes=4, digest=b"n", source="Ann", target="Bob"
    )
    state, events = log(*PEOPLE, related("r", "ann", "knows", "bob"), update)
    row = entity.KIND.find(state, "r")
    only = {version: events[version] for version in entity.KIND.sources(row)}
    assert list(only) == [5]
    assert entity.KIND.content(row, only) == "New."
    assert (entity.KIND.data(row, only)["source"], entity.KIND.data(row, only)["target"]) == (
        "Ann",
        "Bob",
    )


# --- validity


@pytest.mark.parametrize(("time", "true"), [(4, False), (5, True), (8, True), (9, False)])
def test_a_validity_is_half_open(time: int, true: bool) -> None:
    state = people(related("r", "ann", "knows", "bob", 5, valid_to_us=9)).state
    row = state.graph.rows["r"]
    assert graph.valid_at(row, time) is true
    assert ids(graph.relationships(state.graph, "ann", as_of_us=time)) == (["r"] if true else [])


# --- the graph


@pytest.fixture
def town() -> graph.RelationshipGraph:
    """Ann knows Bob knows Cid knows Dee; Ann lived in P, now in Q; Dee lives in P."""
    given = Given(
        entity.KIND, *PEOPLE, added("Dee"), added("P", type="town"), added("Q", type="town"),
        related("ab", "ann", "knows", "bob", 1), related("bc", "bob", "knows", "cid", 2),
        related("cd", "cid", "knows", "dee", 3),
        related("ap", "ann", "lives_in", "p", 1, valid_to_us=5),
        related("aq", "ann", "lives_in", "q", 5), related("dp", "dee", "lives_in", "p", 4),
    )  # fmt: skip
    return given.state.graph


def test_relationships_come_newest_first_by_relation_and_direction(
    town: graph.RelationshipGraph,
) -> None:
    assert ids(graph.relationships(town, "ann")) == ["aq", "ap", "ab"]
    assert ids(graph.relationships(town, "ann", relation="Lives In")) == ["aq", "ap"]
    assert ids(graph.relationships(town, "bob", direction="out")) == ["bc"]
    assert ids(graph.relationships(town, "bob", direction="in")) == ["ab"]
    assert graph.relationships(town, "nobody") == []


def test_neighbours_by_relation_direction_and_limit(town: graph.RelationshipGraph) -> None:
    assert ids(graph.neighbours(town, "ann", 9, relation="knows")) == ["bob", "cid", "dee"]
    assert ids(graph.neighbours(town, "cid", 9, relation="knows", direction="in")) == ["bob", "ann"]
    assert ids(graph.neighbours(town, "cid", 1, direction="out")) == ["dee"]
    assert ids(graph.neighbours(town, "ann", 9, limit=2)) == ["q", "p"]


def test_a_circle_and_a_loop_are_walked_once() -> None:
    state = people(
        related("ab", "ann", "knows", "bob"), related("bc", "bob", "knows", "cid"),
        related("ca", "cid", "knows", "ann"), related("aa", "ann", "knows", "ann"),
    ).state  # fmt: skip
    assert ids(graph.neighbours(state.graph, "ann", 9, direction="out")) == ["bob", "cid"]
    assert ids(graph.relationships(state.graph, "ann", direction="both")).count("aa") == 1


@pytest.mark.parametrize("depth", [0, -1, graph.DEPTH_MAX + 1])
def test_a_walk_is_bounded(town: graph.RelationshipGraph, depth: int) -> None:
    with pytest.raises(InvalidInputError, match="from 1 to 100"):
        graph.neighbours(town, "ann", depth)
