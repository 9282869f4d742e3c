"""Entities: what their commands decide."""

import pytest
from support.entities import SMALL, add, added, after, people, relate, related, restore, seen
from support.given import Given, fold

from memory_actors.base.errors import InvalidInputError, NotFoundError, QuotaExceededError
from memory_actors.base.quota import Limits
from memory_actors.kinds import entity
from memory_actors.kinds.entity import (
    DeleteEntity,
    DeleteRelationship,
    EndRelationship,
    RemoveObservation,
    UpdateEntity,
    UpdateRelationship,
)
from memory_actors.kinds.entity.decide import OBSERVATIONS_BYTES_MAX, OBSERVATIONS_MAX
from memory_actors.kinds.entity.events import (
    EntitiesPruned,
    EntityAdded,
    EntityDeleted,
    EntityObserved,
    EntityUpdated,
    ObservationRemoved,
    RelationshipDeleted,
)
from memory_actors.kinds.kind import Tally
from memory_actors.kinds.phrasing import text_digest

# --- add


def test_an_added_entity_is_one_event_with_all_its_texts() -> None:
    (event,) = Given(entity.KIND).when(add("Ann", "likes tea", "is 30"))
    assert event == EntityAdded(
        memory_id="ann", name="Ann", type="person", digest=text_digest("Ann (person)"),
        size_bytes=len("Annpersonlikes teais 30"), occurred_at_us=0,
        observations=(seen("Ann", "likes tea"), seen("Ann", "is 30")),
    )  # fmt: skip


def test_adding_what_is_known_is_satisfied_whatever_the_id() -> None:
    given = Given(entity.KIND, added("Ann", "likes tea"))
    assert given.when(add("Ann", "likes tea")) == []
    assert given.when(add("Ann", memory_id="another")) == []


def test_the_same_name_and_type_are_merged() -> None:
    """An entity of a known name and type, however spelled, is merged into the known one."""
    given = Given(entity.KIND, added("Ann Lee", "likes tea", memory_id="a"))
    for name in ("ANN LEE", "  ann   lee ", "\uff21nn Lee"):
        command = add(name, "likes tea", "is 30", type="PERSON", memory_id="b")
        (event,) = given.when(command)
        assert event == EntityObserved(
            memory_id="a", occurred_at_us=0, observations=(seen("Ann Lee", "is 30"),)
        )


def test_the_same_name_with_another_type_is_another_entity() -> None:
    given = Given(entity.KIND, added("Paris", type="town", memory_id="a"))
    (event,) = given.when(add("Paris", type="person", memory_id="b"))
    assert isinstance(event, EntityAdded)


def test_an_observation_is_never_there_twice() -> None:
    (event,) = Given(entity.KIND).when(add("Ann", "x", "x", "y"))
    assert [observation.text for observation in event.observations] == ["x", "y"]


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


def test_an_id_that_was_used_before_is_not_used_again() -> None:
    given = Given(entity.KIND, added("Ann"), EntityDeleted(memory_id="ann"))
    assert given.when(add("Ann", used={"ann": added("Ann")})) == []
    with pytest.raises(InvalidInputError, match="another memory"):
        given.when(add("Bob", memory_id="ann", used={"ann": added("Ann")}))
    with pytest.raises(InvalidInputError, match="another memory"):
        people(related("r", "ann", "knows", "bob")).when(add("Dee", memory_id="r"))
    with pytest.raises(InvalidInputError, match="another memory"):
        people().when(add("Ann", memory_id="bob"))


def test_full_by_count_refuses_with_advice() -> None:
    with pytest.raises(QuotaExceededError) as refused:
        people(limits=SMALL).when(add("Dee"))
    assert str(refused.value) == (
        "User has 3 entity memories (max: 3). "
        "Delete old memories, or raise entities in Settings.tiers."
    )
    assert (refused.value.kind, refused.value.used, refused.value.unit) == ("entity", 3, "count")
    assert people(limits=SMALL).when(add("Ann", "more")), "a merge needs no room by count"


def test_full_by_size_refuses_names_observations_and_facts_alike() -> None:
    limits = Limits(entity_bytes=40)  # of which three names with their types take 27
    for command in (add("Dee", "tea time"), add("Ann", "likes tea a lot")):
        with pytest.raises(QuotaExceededError, match="size quota"):
            people(limits=limits).when(command)
    with pytest.raises(QuotaExceededError, match="size quota"):
        people(limits=limits).when(relate("r", "ann", "knows", "bob", fact="They met at work."))


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


def test_a_prune_names_the_oldest_entities_and_their_relationships() -> None:
    given = people(
        related("r1", "ann", "knows", "bob"), related("r2", "cid", "knows", "ann"),
        related("r3", "bob", "knows", "cid"), limits=SMALL,
    )  # fmt: skip
    prune, event = given.when(add("Dee", auto_prune=True))
    assert prune == EntitiesPruned(memory_ids=("ann", "r1", "r2"), cause="quota")
    assert event.memory_id == "dee"


def test_the_oldest_tenth_of_the_entities_goes() -> None:
    events = [added(f"E{i}", at=99 - i) for i in range(40)]
    given = Given(entity.KIND, *events, limits=Limits(entities=40))
    prune, _ = given.when(add("Dee", auto_prune=True))
    assert prune.memory_ids == ("e39", "e38", "e37", "e36")


def test_pinned_entities_and_pinned_ends_are_not_pruned() -> None:
    """A pinned entity is never pruned, nor are the ends of a pinned relationship."""
    given = Given(
        entity.KIND, added("Ann", pinned=True), added("Bob"), added("Cid"),
        related("r", "bob", "knows", "ann", pinned=True), limits=SMALL,
    )  # fmt: skip
    prune, _ = given.when(add("Dee", auto_prune=True))
    assert prune.memory_ids == ("cid",)
    full = Given(entity.KIND, *(added(n, pinned=True) for n in ("Ann", "Bob", "Cid")), limits=SMALL)
    with pytest.raises(QuotaExceededError):
        full.when(add("Dee", auto_prune=True))


def test_pruning_by_size_counts_freed_relationships() -> None:
    """A prune by size counts the bytes that relationships free, and spares the merged entity."""
    fact = related("r", "bob", "knows", "cid", fact="x" * 60)
    given = people(fact, limits=Limits(entity_bytes=100))
    prune, event = given.when(add("Ann", "y" * 70, auto_prune=True))
    assert prune.memory_ids == ("bob", "r")
    assert event.memory_id == "ann"
    with pytest.raises(QuotaExceededError):
        given.when(add("Dee", "y" * 101, auto_prune=True))


def test_relationships_make_room_among_relationships() -> None:
    events = [related(f"r{i}", "ann", f"is_{i}", "bob", 9 - i) for i in range(2)]
    pinned = related("p", "ann", "is", "bob", -1, pinned=True)
    given = people(*events, pinned, limits=SMALL)
    prune, event = given.when(relate("new", "ann", "knows", "bob", auto_prune=True))
    assert prune == EntitiesPruned(memory_ids=("r1",), cause="quota")
    assert event.memory_id == "new"
    with pytest.raises(QuotaExceededError, match=r"3 entity relationships \(max: 3\)"):
        given.when(relate("new", "ann", "knows", "bob"))


def test_a_prune_does_not_end_what_it_prunes() -> None:
    old = related("old", "ann", "lives_in", "bob", exclusive=True)
    others = [related(f"r{i}", "ann", f"is_{i}", "bob", 5) for i in range(2)]
    command = relate("new", "ann", "lives_in", "cid", 9, exclusive=True, auto_prune=True)
    prune, event = people(old, *others, limits=SMALL).when(command)
    assert (prune.memory_ids, event.closed_ids) == (("old",), ())


def test_a_relationship_counts_with_its_first_pruned_end() -> None:
    """A relationship is counted with the first of its ends to go."""
    fact = related("r", "cid", "knows", "bob", fact="x" * 60)
    given = people(fact, limits=Limits(entity_bytes=100))
    prune, _ = given.when(add("Dee", "y" * 60, auto_prune=True))
    assert prune.memory_ids == ("ann", "bob", "r"), "Cid, the younger end, may stay"


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
    assert [held.digest for held in state.held.rows["ann"].observations] == [new.digest]
    assert state.size_bytes == len("Annperson") + 10
    assert entity.KIND.decide(command, state, given.limits) == []


def test_an_update_of_the_metadata_keeps_the_observations() -> None:
    given = Given(entity.KIND, added("Ann", "x"))
    command = UpdateEntity(now_us=1, memory_id="ann", metadata={"a": 1})
    assert given.when(command) == [EntityUpdated(memory_id="ann", metadata={"a": 1})]
    row = after(given, command).held.rows["ann"]
    assert (len(row.observations), row.metadata) == (1, {"a": 1})


def test_an_update_above_the_quota_may_only_shrink() -> None:
    """An update may not grow beyond the quota, but may shrink above it."""
    given = Given(entity.KIND, added("Ann", "x" * 50), limits=Limits(entity_bytes=20))
    update = UpdateEntity(now_us=1, memory_id="ann", content="z", size_bytes=49, digest=b"z")
    assert len(given.when(update)) == 1
    with pytest.raises(QuotaExceededError):
        given.when(UpdateEntity(now_us=1, memory_id="ann", content="z", size_bytes=51, digest=b"z"))


def test_an_observation_is_removed_by_its_digest() -> None:
    given = Given(entity.KIND, added("Ann", "x", "y"))
    digest = seen("Ann", "x").digest
    remove = RemoveObservation(now_us=1, memory_id="ann", digest=digest)
    assert given.when(remove) == [ObservationRemoved(memory_id="ann", digest=digest)]
    state = after(given, remove)
    assert state.size_bytes == len("Annpersony")
    with pytest.raises(NotFoundError, match="no such observation"):
        entity.KIND.decide(remove, state, given.limits)


def test_deleting_an_entity_deletes_its_relationships() -> None:
    given = people(
        related("r2", "ann", "knows", "bob"), related("r1", "cid", "knows", "ann"),
        related("r3", "bob", "knows", "cid"), related("r4", "ann", "trusts", "ann"),
    )  # fmt: skip
    command = DeleteEntity(now_us=1, memory_id="ann")
    (event,) = given.when(command)
    assert event == EntityDeleted(memory_id="ann", relationship_ids=("r1", "r2", "r4"))
    assert entity.KIND.registry.keys(event) == ("ann", "r1", "r2", "r4")
    assert list(after(given, command).graph.held.rows) == ["r3"]


def test_each_command_deletes_what_it_is_for() -> None:
    """A relationship is deleted by either command, and an entity by one."""
    given = people(related("r", "ann", "knows", "bob"))
    for command in (DeleteEntity, DeleteRelationship):
        assert given.when(command(now_us=1, memory_id="r")) == [RelationshipDeleted(memory_id="r")]
    with pytest.raises(NotFoundError):
        given.when(DeleteRelationship(now_us=1, memory_id="ann"))


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
    before = fold(entity.KIND, events[:-1]).held.rows["ann"]
    now = after(given, restore("ann", after=events)).held.rows["ann"]
    for field in ("size_bytes", "metadata", "created_at_us", "occurred_at_us", "pinned", "name"):
        assert getattr(now, field) == getattr(before, field)
    assert [o.digest for o in now.observations] == [o.digest for o in before.observations]


def test_what_was_pinned_later_comes_back_pinned() -> None:
    pin = EntityObserved(memory_id="ann", occurred_at_us=1, pinned=True)
    events = [added("Ann"), pin, EntityDeleted(memory_id="ann")]
    (event,) = Given(entity.KIND, *events).when(restore("ann", after=events))
    assert event.pinned


def test_what_was_restored_and_deleted_can_be_restored_again() -> None:
    events = [added("Ann", "x"), EntityDeleted(memory_id="ann")]
    (event,) = Given(entity.KIND, *events).when(restore("ann", after=events))
    again = [*events, event, EntityDeleted(memory_id="ann")]
    assert Given(entity.KIND, *again).when(restore("ann", after=again)) == [event]


def test_a_prune_is_undone_with_all_that_it_named() -> None:
    events = [
        added("Ann"), added("Bob"), related("r", "ann", "knows", "bob"),
        EntitiesPruned(memory_ids=("ann", "r"), cause="quota"),
    ]  # fmt: skip
    given = Given(entity.KIND, *events)
    restored = given.when(restore("r", "ann", "ann", after=events))
    assert [event.memory_id for event in restored] == ["ann", "r"], "an end comes before its edge"
    assert given.when(restore("bob", after=events)) == [], "what lives is as it should be"


def test_all_come_back_or_none() -> None:
    events = [added("Ann"), EntityDeleted(memory_id="ann")]
    with pytest.raises(NotFoundError, match="never there"):
        Given(entity.KIND, *events).when(restore("ann", "x", after=events))
    limits = Limits(entities=0)
    with pytest.raises(QuotaExceededError):
        Given(entity.KIND, *events, limits=limits).when(restore("ann", after=events))


def test_an_entity_whose_name_is_taken_stays_deleted() -> None:
    """An entity whose name was taken meanwhile does not come back."""
    events = [added("Ann"), EntityDeleted(memory_id="ann"), added("ANN", memory_id="new")]
    with pytest.raises(InvalidInputError, match="'new' has its name and type by now"):
        Given(entity.KIND, *events).when(restore("ann", after=events))


# --- the state


def test_sums_follow_every_event() -> None:
    removed = ObservationRemoved(memory_id="ann", digest=seen("Ann", "x").digest)
    events = [
        added("Ann", "x", "yy"), added("Bob"), related("r", "ann", "knows", "bob", fact="fact"),
        removed, EntityDeleted(memory_id="bob", relationship_ids=("r",)), added("Cid"),
        EntitiesPruned(memory_ids=("cid",), cause="quota"),
    ]  # fmt: skip
    assert entity.KIND.tally(fold(entity.KIND, events)) == Tally(
        1, len("Annpersonyy"), 20, pruned=1
    )
    size = len("AnnpersonxyyBobpersonfact")
    assert entity.KIND.tally(fold(entity.KIND, events[:3])) == Tally(2, size, 30, relationships=1)


def test_a_dump_loads_back_to_the_same_state() -> None:
    ended = related("s", "ann", "knows", "bob", valid_to_us=5)
    state = people(related("r", "ann", "knows", "bob", pinned=True), ended).state
    assert entity.KIND.load(entity.KIND.dump(state)) == state
    assert entity.KIND.dump(entity.KIND.load(entity.KIND.dump(state))) == entity.KIND.dump(state)


def test_no_observation_and_no_fact_is_held_in_memory() -> None:
    state = people(
        added("Dee", "secret one"), related("r", "ann", "knows", "bob", fact="secret two")
    ).state
    assert "secret" not in repr(entity.KIND.dump(state))


def test_quotas_say_how_full_each_limit_is() -> None:
    given = people(related("r", "ann", "knows", "bob", fact="fact"))
    uses = [
        (use.quota, use.used, use.limit) for use in entity.KIND.quotas(given.state, SMALL, None)
    ]
    assert uses == [("entities", 3, 3), ("relationships", 1, 3), ("bytes", 31, 1_000)]


def test_names_are_looked_up_however_spelled() -> None:
    paris = added("Paris", type="town", memory_id="p1")
    state = people(paris, added("PARIS", memory_id="p2")).state
    assert [row.memory_id for row in entity.find_named(state, " paris")] == ["p1", "p2"]
    assert [row.memory_id for row in entity.find_named(state, "paris", "Town")] == ["p1"]
    assert entity.find_named(state, "paris", "car") == entity.find_named(state, "Rome") == ()
