"""Entities: what their commands decide."""

import pytest
from support.entities import SMALL, add, added, after, people, relate, related, restore, seen
from support.given import Given, fold

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
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
    EntityObserved,
    EntityUpdated,
    ObservationRemoved,
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


def test_adding_pins_and_never_unpins() -> None:
    """Adding it pinned pins it, and adding it unpinned does not unpin it."""
    (event,) = Given(entity.KIND, added("Ann")).when(add("Ann", pinned=True))
    assert event.pinned
    assert Given(entity.KIND, added("Ann", pinned=True)).when(add("Ann")) == []


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


# --- prune


def test_a_prune_does_not_end_what_it_prunes() -> None:
    old = related("old", "ann", "lives_in", "bob", exclusive=True)
    others = [related(f"r{i}", "ann", f"is_{i}", "bob", 5) for i in range(2)]
    command = relate("new", "ann", "lives_in", "cid", 9, exclusive=True, auto_prune=True)
    prune, event = people(old, *others, limits=SMALL).when(command)
    assert (prune.memory_ids, event.closed_ids) == (("old",), ())


# --- change and delete


def test_an_update_replaces_all_observations_by_one() -> None:
    given = Given(entity.KIND, added("Ann", "x", "y"))
    new = seen("Ann", "sums it up")
    command = UpdateEntity(
        now_us=1, memory_id="ann", content=new.text, size_bytes=new.size_bytes, digest=new.digest
    )
    assert given.when(command) == [
        EntityUpdated(memory_id="ann", content=new.text, size_bytes=10, digest=new.digest)
    ]
    state = after(given, command)
    assert [held.digest for held in state.rows["ann"].observations] == [new.digest]
    assert state.size_bytes == len("Annperson") + 10
    assert entity.KIND.decide(command, state, given.limits) == []


def test_an_update_of_the_metadata_keeps_the_observations() -> None:
    given = Given(entity.KIND, added("Ann", "x"))
    command = UpdateEntity(now_us=1, memory_id="ann", metadata={"a": 1})
    assert given.when(command) == [EntityUpdated(memory_id="ann", metadata={"a": 1})]
    row = after(given, command).rows["ann"]
    assert (len(row.observations), row.metadata) == (1, {"a": 1})


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


# --- restore


def test_an_entity_comes_back_as_it_was_when_it_went() -> None:
    update = EntityUpdated(memory_id="ann", content="z", size_bytes=1, digest=b"z")
    events = [
        added("Ann", "x", "y", at=7, metadata={"a": 1}, pinned=True),
        ObservationRemoved(memory_id="ann", digest=seen("Ann", "x").digest),
        update,
        EntityObserved(
            memory_id="ann", occurred_at_us=9, observations=(seen("Ann", "w"),), metadata={"b": 2}
        ),
        EntityDeleted(memory_id="ann"),
    ]
    given = Given(entity.KIND, *events)
    (event,) = given.when(restore("ann", after=events))
    assert [observation.text for observation in event.observations] == ["z", "w"]
    before = fold(entity.KIND, events[:-1]).rows["ann"]
    now = after(given, restore("ann", after=events)).rows["ann"]
    for field in ("size_bytes", "metadata", "created_at_us", "occurred_at_us", "pinned", "name"):
        assert getattr(now, field) == getattr(before, field)
    assert [o.digest for o in now.observations] == [o.digest for o in before.observations]


def test_what_was_pinned_later_comes_back_pinned() -> None:
    pin = EntityObserved(memory_id="ann", occurred_at_us=1, pinned=True)
    events = [added("Ann"), pin, EntityDeleted(memory_id="ann")]
    (event,) = Given(entity.KIND, *events).when(restore("ann", after=events))
    assert event.pinned


# --- the state


def test_no_observation_and_no_fact_is_held_in_memory() -> None:
    state = people(
        added("Dee", "secret one"), related("r", "ann", "knows", "bob", fact="secret two")
    ).state
    assert "secret" not in repr(entity.KIND.dump(state))


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    given = Given(entity.KIND, added("Ann"), EntityDeleted(memory_id="ann"))
    assert given.when(add("Ann", used={"ann": added("Ann")})) == []
    with pytest.raises(InvalidInputError, match="another memory"):
        given.when(add("Bob", memory_id="ann", used={"ann": added("Ann")}))
    with pytest.raises(InvalidInputError, match="another memory"):
        people(related("r", "ann", "knows", "bob")).when(add("Dee", memory_id="r"))
    with pytest.raises(InvalidInputError, match="another memory"):
        people().when(add("Ann", memory_id="bob"))
