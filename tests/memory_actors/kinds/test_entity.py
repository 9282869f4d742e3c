"""Entities: what their commands decide."""

import pytest
from support.entities import add, added, people, relate, related, seen
from support.given import Given

from memory_actors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.kinds import entity
from memory_actors.kinds.entity import (
    OBSERVATIONS_BYTES_MAX,
    OBSERVATIONS_MAX,
    DeleteEntity,
    EndRelationship,
    RemoveObservation,
    UpdateEntity,
    UpdateRelationship,
)
from memory_actors.kinds.entity.events import (
    EntityDeleted,
    RelationshipDeleted,
)

# --- add


def test_metadata_is_merged_key_by_key() -> None:
    """Metadata is merged key by key, and the new value wins."""
    given = Given(entity.KIND, added("Ann", metadata={"a": 1, "b": 1}))
    (event,) = given.when(add("Ann", metadata={"b": True, "c": 3}))
    assert event.metadata == {"a": 1, "b": True, "c": 3}
    assert given.when(add("Ann", metadata={"a": 1})) == []
    with pytest.raises(InvalidInputError, match="metadata takes"):
        Given(entity.KIND, added("Ann", metadata={"a": "x" * 9_000})).when(
            add("Ann", metadata={"b": "x" * 9_000})
        )


def test_an_entity_has_a_thousand_observations_at_most() -> None:
    texts = [f"o{i}" for i in range(OBSERVATIONS_MAX)]
    full = Given(entity.KIND, added("Ann", *texts))
    with pytest.raises(QuotaExceededError, match=r"1,000 observations \(max: 1,000\)\. Remove"):
        full.when(add("Ann", "one more"))
    with pytest.raises(InvalidInputError, match="1,001 observations"):
        Given(entity.KIND).when(add("Ann", *texts, "one more"))


def test_the_observations_of_an_entity_fit_one_event() -> None:
    half = seen("Ann", "x", OBSERVATIONS_BYTES_MAX // 2)
    more = seen("Ann", "y", OBSERVATIONS_BYTES_MAX // 2 + 1)
    with pytest.raises(InvalidInputError, match="8 MB"):
        Given(entity.KIND).when(add("Ann", observations=(half, more)))
    with pytest.raises(QuotaExceededError, match=r"has 4 MB of observations \(max: 8 MB\)"):
        Given(entity.KIND, added("Ann", observations=(half,))).when(
            add("Ann", observations=(more,))
        )


# --- change and delete


def test_a_relationship_is_deleted_as_an_entity_is() -> None:
    given = people(related("r", "ann", "knows", "bob"))
    delete = DeleteEntity(now_us=1, memory_id="r")
    assert given.when(delete) == [RelationshipDeleted(memory_id="r")]


def test_what_is_missing_cannot_be_changed() -> None:
    for command in (
        UpdateEntity(now_us=1, memory_id="x", content="x"),
        RemoveObservation(now_us=1, memory_id="x", digest=b"x"),
        DeleteEntity(now_us=1, memory_id="x"),
        UpdateRelationship(now_us=1, memory_id="ann", content="x"),
        EndRelationship(now_us=1, memory_id="ann", valid_to_us=1),
        relate("r", "ann", "knows", "x"),
        relate("r", "x", "knows", "ann"),
    ):
        with pytest.raises(NotFoundError):
            people().when(command)


# --- the state


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    given = Given(entity.KIND, added("Ann"), EntityDeleted(memory_id="ann"))
    assert given.when(add("Ann", used={"ann": added("Ann")})) == []
    with pytest.raises(InvalidInputError, match="another memory"):
        given.when(add("Bob", memory_id="ann", used={"ann": added("Ann")}))
    with pytest.raises(InvalidInputError, match="another memory"):
        people(related("r", "ann", "knows", "bob")).when(add("Dee", memory_id="r"))
    with pytest.raises(InvalidInputError, match="another memory"):
        people().when(add("Ann", memory_id="bob"))
