"""The hits that come back, and their order: nothing twice, nothing left out, no surprise."""

import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_actors import Hit, InvalidInputError, Item, MemoryType, UserMemory
from memory_actors.search.choosing import gist, last_word

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]

RUN = "Ran {} km along the river"


def contents(hits: list[Hit]) -> list[str]:
    return [hit.content for hit in hits]


async def kept(user: UserMemory, *texts: str, **fields: Any) -> list[str]:
    items = [Item(content=one, **fields) for one in texts]
    return [one.memory_id for one in await user.add_many(items, on_duplicate="keep")]


# --- nothing twice


@pytest.mark.parametrize("copies", [2, 20, 300])
async def test_equal_texts_are_one_hit_however_many_there_are(open_memory, copies: int) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        same = await kept(user, *["User is vegetarian"] * copies)
        await kept(user, "User is tall", "User is Danish", "User is kind", "User is here")
        hits = await user.retrieve("User is vegetarian", top_k=5)
        assert len(set(contents(hits))) == 5
        first = hits[0]
        assert first.content == "User is vegetarian"
        assert len(first.near_duplicates) == min(copies - 1, 100)
        assert {first.memory_id, *first.near_duplicates} <= set(same)
        assert all(hit.near_duplicates == () for hit in hits[1:])


async def test_a_fact_differing_in_metadata_is_kept_and_folded(user) -> None:
    one = await user.add("User is vegetarian", metadata={"a": 1})
    other = await user.add("User is  vegetarian", metadata={"a": 2})
    said = await user.add("The user is a vegetarian.", session_id="s")
    message = await user.short_term.add_message("User is vegetarian!")
    (hit,) = await user.retrieve("vegetarian")
    ids = {one.memory_id, other.memory_id, said.memory_id, message.memory_id}
    assert {hit.memory_id, *hit.near_duplicates} == ids
    (only,) = await user.retrieve("vegetarian", filters={"a": 2})
    assert (only.memory_id, only.near_duplicates) == (other.memory_id, ())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Flight BA117 leaves at 7:00", "Flight BA117 leaves at 9:00"),
        ("User is vegetarian", "User is not vegetarian"),
        ("Alice loves Bob", "Bob loves Alice"),
        ("You like tea.", "You like tea?"),
        ("The sea is at -5 degrees", "The sea is at 5 degrees"),
        ("She writes C++", "She writes C"),
        ("Ada lives in Bristol", "Ada lived in Bristol"),
    ],
)
def test_texts_that_mean_something_else_are_not_folded(one: str, other: str) -> None:
    assert gist(one) != gist(other)
    assert gist(one.upper() + "!!") == gist(f"The  {one}") == gist(one)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(["The", "a", "Ça", "tea", "TEA.", "...", "(ﬁne)", "?", "\u00a8"])))
def test_texts_that_say_the_same_end_in_the_same_word(words: list[str]) -> None:
    """Texts are compared with those that end in the same word, and with no others."""
    said = gist(" ".join(words))
    telling = [word for word in said.split(" ") if gist(f"x {word}") == f"x {word}"]
    assert last_word(" ".join(words)) == (telling[-1] if telling else "")


async def test_it_matters_who_said_it(user) -> None:
    ada = await user.add("I love skiing", role="Ada")
    await user.add("I love skiing", role="Bob")
    assert len(await user.retrieve("skiing")) == 2
    quoted = await user.add("Ada: I love skiing")
    assert (quoted.operation, quoted.memory_id) == ("seen", ada.memory_id)


async def test_two_keys_of_one_value_are_two_hits(user) -> None:
    await user.working.set("from", "Paris")
    await user.working.set("to", "Paris")
    assert len(await user.retrieve("Paris")) == 2


async def test_a_fact_worded_like_a_relationship_is_one_hit(user) -> None:
    await user.entities.add_entity("Ada", "person")
    await user.entities.add_entity("Bath", "city")
    one = await user.entities.relate("Ada", "lives_in", "Bath", fact="Ada lives in Bath")
    other = await user.add("Ada lives in Bath.")
    for _ in range(2):
        await user.episodes.start("move to Bath")
    hits = await user.retrieve("who lives in Bath?", top_k=10)
    (hit,) = [hit for hit in hits if "lives in" in hit.content]
    assert {hit.memory_id, *hit.near_duplicates} == {one.memory_id, other.memory_id}
    assert sum(hit.memory_type == "episodic" for hit in hits) == 2, "they are two"


async def test_the_context_says_nothing_twice(memory) -> None:
    user = memory.user("u", session_id="s")
    await kept(user, "likes tea", "likes tea", "likes  TEA.", "is tall")
    await user.short_term.add_message("likes tea")
    texts = [part.text for part in (await user.context("what does she like?")).parts]
    assert sorted(gist(one) for one in texts) == ["is tall", "likes tea"]


# --- diversity


async def test_diversity_gives_room_to_what_is_not_like_the_best(user) -> None:
    await kept(user, *[RUN.format(n) for n in range(12)])
    await kept(user, *[f"tea{n} cup{n}" for n in range(4)])
    alike = await user.retrieve("Ran km along river", top_k=5)
    assert all("Ran" in one for one in contents(alike))
    mixed = await user.retrieve("Ran km along river", top_k=5, diversity=0.5)
    assert 1 <= sum("Ran" in one for one in contents(mixed)) <= 3
    assert mixed[0].content == alike[0].content, "the best stays the first"


# --- kinds and order


async def filled(user: UserMemory) -> None:
    await user.working.set("city", "somewhere else")
    await user.short_term.add_message("we talked of weather")
    for n in range(7):
        await user.working.set(f"trip{n}", f"trip to Paris {n}")
    await user.add("Paris trip costs much")
    await user.documents.put("plans", {"note": "nothing of the kind"}, key="a")


async def test_hits_come_by_score_where_no_kind_is_named(memory) -> None:
    user = memory.user("u", session_id="s")
    await user.working.set("mood", "something unrelated")
    best = await user.add("the answer is forty two")
    hits = await user.retrieve("the answer is forty two", top_k=2)
    assert hits[0].memory_id == best.memory_id
    assert [hit.memory_type for hit in hits] == ["long_term", "working"]
    by_kind = await user.retrieve("the answer is forty two", top_k=2, order="kind")
    assert [hit.memory_type for hit in by_kind] == ["working", "long_term"]


async def test_named_kinds_come_kind_by_kind(memory) -> None:
    """Named kinds come kind by kind, and none is left out."""
    user = memory.user("u", session_id="s")
    await filled(user)
    kinds = ["structured", "long_term", MemoryType.WORKING, "short_term"]
    hits = await user.retrieve("trip to Paris 3", memory_types=kinds, top_k=5)
    found = [hit.memory_type for hit in hits]
    assert found == ["working", "working", "short_term", "long_term", "structured"]
    scores = [hit.score for hit in hits if hit.memory_type == "working"]
    assert scores == sorted(scores, reverse=True)
    by_score = await user.retrieve("trip to Paris 3", memory_types=kinds, top_k=5, order="score")
    assert {hit.memory_id for hit in by_score} == {hit.memory_id for hit in hits}
    assert [hit.score for hit in by_score] == sorted((h.score for h in hits), reverse=True)
    two = await user.retrieve("trip to Paris 3", memory_types=kinds, top_k=2)
    assert len({hit.memory_type for hit in two}) == 2
    strict = await user.retrieve("trip to Paris 3", memory_types=kinds, min_score=0.99)
    assert all(hit.score >= 0.99 for hit in strict)


async def test_a_small_kind_is_not_lost_in_a_large_one(open_memory) -> None:
    """A kind of few is not lost among thousands of another."""
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        for start in range(0, 900, 300):
            await kept(user, *[f"Paris trip number {start + n}" for n in range(300)])
        await user.working.set("note", "zebra")
        hits = await user.retrieve("Paris trip", memory_types=["working", "long_term"], top_k=3)
        assert [hit.memory_type for hit in hits] == ["working", "long_term", "long_term"]


async def test_memory_type_names_one_kind(memory) -> None:
    user = memory.user("u", session_id="s")
    await filled(user)
    for kind in ("long_term", MemoryType.WORKING):
        hits = await user.retrieve("trip to Paris", memory_type=kind)
        assert {hit.memory_type for hit in hits} == {str(kind)}
    wrong: list[dict[str, Any]] = [
        {"memory_type": "long_term", "memory_types": ["working"]}, {"memory_type": "tea"},
        {"memory_type": ["working"]}, {"order": "best"}, {"exclude_ids": "one"},
        {"exclude_ids": [1]}, {"exclude_session": 3},
    ]  # fmt: skip
    for arguments in wrong:
        with pytest.raises(InvalidInputError):
            await user.retrieve("trip", **arguments)


# --- what is left out


async def test_what_is_excluded_leaves_its_place_to_the_next(memory) -> None:
    user = memory.user("u", session_id="now")
    old = await kept(user, *[f"Paris in spring {n}" for n in range(6)], session_id="old")
    asked = await user.add("Paris in spring 3?", session_id="now")
    await user.short_term.add_message("Paris in spring 4?")
    await user.episodes.start("Paris in spring 5", session_id="now")
    hits = await user.retrieve("Paris in spring 3?", top_k=9)
    assert asked.memory_id in {hit.memory_id for hit in hits}
    without = await user.retrieve(
        "Paris in spring 3?", top_k=6, exclude_ids=[asked.memory_id, "nobody"]
    )
    assert asked.memory_id not in {hit.memory_id for hit in without}
    assert len(without) == 6
    others = await user.retrieve("Paris in spring 3?", top_k=6, exclude_session="now")
    assert {hit.memory_id for hit in others} == set(old)
    narrow = await user.retrieve(
        "Paris", top_k=6, exclude_ids=old[:3], since="2000-01-01", exclude_session="now"
    )
    assert {hit.memory_id for hit in narrow} == set(old[3:])
    same = await user.retrieve("Paris", top_k=20, exclude_session="never", exclude_ids=())
    assert len(same) == 9


async def test_top_k_and_a_token_budget_both_hold(user) -> None:
    await kept(user, *[f"fact number {n:02}" for n in range(30)])
    assert len(await user.retrieve("fact", token_budget=10_000)) == 30
    assert len(await user.retrieve("fact", token_budget=10_000, top_k=7)) == 7
    assert len(await user.retrieve("fact", token_budget=16, top_k=7)) == 2
    assert len(await user.retrieve("fact")) == 5
    assert await user.retrieve("fact", token_budget=sys.maxsize)
