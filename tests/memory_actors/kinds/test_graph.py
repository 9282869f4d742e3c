"""Entities and relationships: how they read, and the graph they make."""

from typing import Any

import pytest
from support.entities import PEOPLE, added, people, related
from support.given import Given

from memory_actors import InvalidInputError
from memory_actors.kinds import entity
from memory_actors.kinds.entity import graph


def ids(rows: Any) -> list[str]:
    return [row.memory_id for row in rows]


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
