"""Retrieval by all signals, as a caller sees it."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from threading import get_ident
from typing import Any

import pytest
from support.fakes import FakeClock, FakeEmbedder

from eventlog import Environment
from memory_actors import (
    CalibratedEstimate,
    InvalidInputError,
    Item,
    MemorySystem,
    NotFoundError,
    UserMemory,
    Weights,
)
from memory_actors.kinds import long_term
from memory_actors.search import candidates, retrieval
from memory_actors.search.embedding.rows import ROWS, TABLES
from memory_actors.search.indexes import dense, graph

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]

ONLY_WORDS = Weights(late=0, next_turn=0, meaning=0, date=0, speaker=0, asks=0)


async def filled(user: UserMemory, count: int = 60) -> list[str]:
    items = [
        Item(
            content=f"word{n} and word{n + 1} met at place{n % 7}",
            metadata={"n": n, "even": n % 2 == 0},
            occurred_at=datetime(2023, 1 + n % 12, 15, tzinfo=UTC),
            session_id=f"s{n // 5}",
            role="Ada" if n % 3 else "Bob",
        )
        for n in range(count)
    ]
    return [receipt.memory_id for receipt in await user.add_many(items)]


def contents(hits: list[Any]) -> list[str]:
    return [hit.content for hit in hits]


async def test_a_score_is_explained_by_its_signals(user) -> None:
    """A score is between 0 and 1, and explained by its signals."""
    await filled(user)
    hits = await user.retrieve("word7 word8 place0", top_k=20, explain=True)
    assert hits[0].content == "word7 and word8 met at place0"
    assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
    totals = [sum(hit.signals.values()) for hit in hits]
    assert totals == sorted(totals, reverse=True)
    assert hits[0].signals["late"] > 0
    assert hits[0].signals["words"] != 0
    assert all(0 <= hit.score <= 1 for hit in hits)
    assert (await user.retrieve("word7"))[0].signals is None


@pytest.mark.parametrize("name", Weights.__struct_fields__)
async def test_each_signal_can_be_switched_off(user, name: str) -> None:
    await filled(user)
    for hit in await user.retrieve(
        "what did Ada do with word7 in May?", explain=True, weights=Weights(**{name: 0})
    ):
        assert hit.signals[name] == 0


async def test_weights_hold_without_token_states_too(tmp_path: Path) -> None:
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder()) as memory:
        user = memory.user("u")
        await filled(user)
        for name in ("words", "meaning"):
            weights = Weights(**{name: 0})
            hits = await user.retrieve("what did Ada do with word7?", explain=True, weights=weights)
            assert {hit.signals[name] for hit in hits} == {0}
        (hit,) = await user.retrieve("word7", top_k=1, explain=True)
        assert hit.signals["words"] != 0
        assert hit.signals["meaning"] > 0


async def test_queries_are_embedded_as_questions(
    tmp_path: Path,
) -> None:
    """A query is embedded as the model wants questions, and memories are not."""
    embedder = FakeEmbedder()
    embedder.query_prefix = "ask: "  # type: ignore[attr-defined]
    async with MemorySystem.open(tmp_path, embedder=embedder) as memory:
        user = memory.user("u")
        await user.add("green tea")
        assert (await user.retrieve("green tea"))[0].content == "green tea"
    assert [text for text in embedder.texts if "green tea" in text] == [
        "green tea",
        "ask: green tea",
    ]


async def test_a_rare_word_is_found_whatever_its_meaning(user) -> None:
    await filled(user)
    added = await user.add("deploys use OAuth 2.1 since abc-123")
    for query in ("OAuth 2.1", "abc123 abc-123", "deploying"):
        (hit,) = await user.retrieve(query, top_k=1, weights=ONLY_WORDS)
        assert hit.memory_id == added.memory_id


async def test_the_words_of_a_session_help_each_other(memory) -> None:
    user = memory.user("u", session_id="s")
    await filled(user, 30)
    await user.add("shall we talk about the zeppelin", session_id="x")
    answer = await user.add("it was blue", session_id="x")
    hits = await user.retrieve("zeppelin", top_k=2, weights=ONLY_WORDS)
    assert answer.memory_id in {hit.memory_id for hit in hits}


async def test_a_named_date_lifts_what_was_true_then(user) -> None:
    await filled(user)
    hits = await user.retrieve("who met in May 2023", top_k=5)
    assert {hit.occurred_at.month for hit in hits} == {5}
    week = await user.retrieve(
        "who met last month", top_k=5, reference_time="2023-10-05", explain=True
    )
    assert {hit.occurred_at.month for hit in week} == {9}


async def test_a_named_speaker_lifts_what_they_said(user) -> None:
    await filled(user)
    hits = await user.retrieve("what did Bob say", top_k=60, explain=True)
    assert {hit.role for hit in hits if hit.signals["speaker"] > 0} == {"Bob"}


# --- what narrows a query down


async def test_since_until_and_as_of_are_exact(user, clock: FakeClock) -> None:
    await filled(user)
    found = await user.retrieve("word", since="2023-03-01", until="2023-05-01", top_k=100)
    assert {hit.occurred_at.month for hit in found} == {3, 4}
    assert len(found) == 10
    before = datetime.fromtimestamp(clock.now_us / 1e6, UTC)
    clock.move(100)
    await user.add("word later")
    assert len(await user.retrieve("word", as_of=before, top_k=100)) == 60
    with pytest.raises(InvalidInputError):
        await user.retrieve("word", since="soon")


async def test_as_of_finds_the_relationships_that_were_true_then(user) -> None:
    for name in ("Alice", "Acme", "Initech"):
        await user.entities.add_entity(name)
    await user.entities.relate("Alice", "works_at", "Acme", valid_from="2020-01-01")
    await user.entities.relate("Alice", "works_at", "Initech", valid_from="2022-01-01")
    hits = await user.retrieve(
        "Alice works at", memory_types=["entity"], as_of="2021-01-01", top_k=10
    )
    assert contents(hits) == ["Alice works at Acme"]


async def test_a_filter_follows_every_change(user) -> None:
    ids = await filled(user)

    async def matching(filters: dict[str, Any]) -> int:
        return len(await user.retrieve("word", filters=filters, top_k=100))

    assert await matching({"n": 7}) == 1
    assert await matching({"n": {"gte": 50}, "even": True}) == 5
    await user.update(ids[7], metadata={"n": 70})
    assert await matching({"n": 7}) == 0
    assert await matching({"n": {"gte": 50}}) == 11
    await user.delete(ids[50])
    assert await matching({"n": {"gte": 50}}) == 10
    await user.restore([ids[50]])
    assert await matching({"n": {"gte": 50}}) == 11
    await user.add("word new", metadata={"n": 99})
    assert await matching({"n": {"gte": 50}}) == 12
    assert await matching({"not": {"n": {"exists": True}}}) == 0


async def test_min_score_and_a_budget_bound_what_is_found(user) -> None:
    await filled(user)
    hits = await user.retrieve("word7 word8 place0", top_k=60)
    middle = hits[10].score
    assert len(await user.retrieve("word7 word8 place0", top_k=60, min_score=middle)) == 11
    fitting = await user.retrieve("word7 word8 place0", token_budget=60)
    assert CalibratedEstimate().most("\n".join(hit.content for hit in fitting)) <= 60
    assert len(fitting) >= 3
    assert await user.retrieve("word7", token_budget=0) == []
    for wrong in ({"min_score": 2}, {"diversity": -1}, {"token_budget": -1}):
        with pytest.raises(InvalidInputError):
            await user.retrieve("word", **wrong)


async def test_as_many_are_found_as_were_asked_for(open_memory, monkeypatch) -> None:
    monkeypatch.setattr(dense, "EXACT_MAX", 600)
    monkeypatch.setattr(candidates, "PROPOSED", 100)
    async with open_memory() as memory:
        user = memory.user("u")
        await user.add_many([Item(content=f"fact {n}") for n in range(500)])
        assert len(await user.retrieve("fact", token_budget=100_000)) == 500
        assert 200 < len(await user.retrieve("fact", token_budget=1_600)) < 401
        assert len(await user.retrieve("fact", top_k=150, diversity=0.5)) == 150
        await user.add_many([Item(content=f"fact {n}") for n in range(500, 1_000)])
        assert len(await user.retrieve("fact", top_k=400)) == 400


async def test_a_long_choice_lets_the_loop_go_on(open_memory, monkeypatch) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        await user.add_many([Item(content=f"fact {n}") for n in range(300)])
        threads = []
        plain = retrieval._rank
        monkeypatch.setattr(
            retrieval, "_rank", lambda *each: (threads.append(get_ident()), plain(*each))[1]
        )
        await user.retrieve("fact", top_k=5, diversity=0.5)
        await user.retrieve("fact", top_k=250, diversity=0.5)
        assert [thread == get_ident() for thread in threads] == [True, False]


# --- in step


async def parts(memory: MemorySystem) -> Any:
    async with memory._services.runtime.use("user:u") as live:
        return live.indexes.get(long_term.KIND)


async def test_sketches_and_words_propose_for_one_ranking(open_memory, monkeypatch) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        await filled(user, 300)
        whole = await user.retrieve("word7 word8 place0", top_k=3)
        monkeypatch.setattr(dense, "EXACT_MAX", 100)
        monkeypatch.setattr(graph, "WANTED_MIN", 15)
        assert contents(await user.retrieve("word7 word8 place0", top_k=3)) == contents(whole)


@pytest.mark.parametrize("harm", ["missing", "junk", "flip", "stale"])
async def test_a_broken_word_file_is_made_again(
    open_memory, tmp_path: Path, harm: str, monkeypatch
) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        await filled(user)
        before = await user.retrieve("word7 word8 place0", top_k=3)
    (path,) = (tmp_path / "memory" / "indexes").glob("*.long_term.words")
    data = bytearray(path.read_bytes())
    if harm == "missing":
        path.unlink()
    elif harm == "junk":
        path.write_bytes(b"junk")
    elif harm == "flip":
        data[len(data) // 2] ^= 1
        path.write_bytes(bytes(data))
    async with open_memory(check_replay=False) as memory:
        if harm == "stale":
            await memory.user("u").add("one more")
            path.write_bytes(bytes(data))
        after = await memory.user("u").retrieve("word7 word8 place0", top_k=3)
        assert contents(after) == contents(before)
        if harm != "stale":  # one more memory changes how rare each word is
            assert [round(h.score, 5) for h in after] == [round(h.score, 5) for h in before]


async def test_token_states_beyond_the_bound_are_read_later(open_memory) -> None:
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        await filled(user)
        before = await user.retrieve("word7 word8 place0", top_k=3)
        index = await parts(memory)
        index.late._bytes_max = 2_000
        await user.add("one more")
        assert index.late.size_bytes < 40_000
        after = await user.retrieve("word7 word8 place0", top_k=3)
        assert contents(after) == contents(before)


# --- what a review found


async def test_two_spellings_at_once_are_both_found(user) -> None:
    await asyncio.gather(
        user.entities.add_entity("Alice", "person", ["plays chess"]),
        user.entities.add_entity("ALICE", "person", ["grows tomatoes"]),
    )
    for words in ("plays chess", "grows tomatoes"):
        (hit,) = await user.retrieve(words, top_k=1, explain=True)
        assert hit.signals["words"] != 0


@pytest.mark.parametrize("when", ["0001-01-01", "9999-12-31"])
async def test_the_ends_of_time_are_no_place_to_fall_off(user, when: str) -> None:
    await filled(user, 3)
    for words in ("next year", "last month", "two years ago", "next month"):
        assert await user.retrieve(f"what of {words}", reference_time=when)


@pytest.mark.parametrize(
    "call",
    [
        lambda u: u.retrieve("x", weights="x"),
        lambda u: u.retrieve("x", weights=Weights(late=float("nan"))),
        lambda u: u.retrieve("x", weights=Weights(words=1e308)),
        lambda u: u.retrieve("x", weights=Weights(words=-1_000_001)),
        lambda u: u.retrieve("x", weights=Weights(words=10**400)),
        lambda u: u.entities.neighbours("A", "x"),
        lambda u: u.entities.neighbours("A", relation=5),
        lambda u: u.entities.relationships("A", relation=5),
        lambda u: u.entities.get("A", 5),
        lambda u: u.entities.remove_observation("A", 5),
        lambda u: u.restore("m1"),
        lambda u: u.restore(5),
        lambda u: u.add_many(None),
        lambda u: u.episodes.step("e", "a", error="\ud800"),
    ],
)
async def test_odd_arguments_are_refused(user, call) -> None:
    await user.entities.add_entity("A")
    with pytest.raises(InvalidInputError):
        await call(user)


async def test_observing_does_not_bring_back_what_is_deleted_meanwhile(user) -> None:
    await user.entities.add_entity("A")
    outcomes = await asyncio.gather(
        user.entities.delete("A"), user.entities.observe("A", "late"), return_exceptions=True
    )
    assert isinstance(outcomes[1], NotFoundError)
    assert (await user.usage()).kinds["entity"].count == 0


async def test_two_at_once_know_a_working_memorys_id(open_memory) -> None:
    for _ in range(5):
        async with open_memory(check_replay=False) as memory:
            user = memory.user(f"u{_}")
            await user.working.set("k", "v", memory_id="X")
            outcomes = await asyncio.gather(
                *(user.add("a", memory_id="X") for _ in range(2)), return_exceptions=True
            )
            assert all(isinstance(outcome, InvalidInputError) for outcome in outcomes)


# --- an answer depends on what there is, and not on what was asked or done before


async def test_every_session_can_be_searched_however_old(user) -> None:
    for n in range(12):
        await user.short_term.add_message(f"word{n} here", session_id=f"s{n}")
    for n in (0, 11, 5, 0):
        hits = await user.retrieve("word", memory_types=["short_term"], session_id=f"s{n}")
        assert contents(hits) == [f"word{n} here"]


@pytest.mark.parametrize("place", [0, 1, 4])
async def test_messages_score_the_same_whoever_asked_before(open_memory, place: int) -> None:
    async def scores(user: UserMemory) -> list[tuple[str, float]]:
        hits = await user.retrieve("word2 word3", session_id="a")
        return [(hit.memory_id, hit.score) for hit in hits]

    async with open_memory() as memory:
        user = memory.user("u")
        for n in range(5):
            await user.short_term.add_message(f"word{n} word{n + 1}", session_id="a")
            await user.short_term.add_message(f"word{n} there", session_id="b")
        reworded = (await user.short_term.messages("a"))[place].memory_id
        await user.retrieve("word2")
        await user.retrieve("word3", session_id="a")
        await user.update(reworded, content="word2 word9")
        asked_before = await scores(user)
    async with open_memory() as memory:
        assert await scores(memory.user("u")) == asked_before


async def test_what_is_at_hand_is_found_as_it_is_now(user) -> None:
    """However often it was asked for before, narrowed down or not, and rows made anew meanwhile."""
    keys = {f"k{n}": f"word{n} here" for n in range(90)}
    receipts = [await user.working.set(key, text) for key, text in keys.items()]

    async def found(**narrow: Any) -> list[str]:
        hits = await user.retrieve("here", memory_types=["working"], top_k=200, **narrow)
        return sorted(contents(hits))

    while keys:
        everything = sorted(keys.values())
        assert await found() == await found() == everything
        last = receipts.pop()
        assert await found(exclude_ids=[last.memory_id]) == sorted([*keys.values()][:-1])
        assert await found() == everything
        await user.working.delete(keys.popitem()[0])


async def test_lost_token_states_are_made_again_before_a_search_answers(
    open_memory, tmp_path: Path
) -> None:
    async with open_memory() as memory:
        await filled(memory.user("u"), 20)
        before = await memory.user("u").retrieve("word3 place3", top_k=60)
    env = Environment(tmp_path / "memory" / "derived.mdb", TABLES)
    with env.read() as txn, txn.cursor(txn.tables[ROWS]) as cursor:
        keys = [key for key, _ in cursor]
    for key in keys[:5]:
        env.write(lambda txn, key=key: txn.delete(key, db=txn.tables[ROWS]))
    env.close()
    async with open_memory() as memory:
        assert await memory.user("u").retrieve("word3 place3", top_k=60) == before


async def test_a_month_is_of_the_years_of_what_is_there(user) -> None:
    await user.add("we met at the sea", occurred_at=datetime(2023, 1, 2, tzinfo=UTC))
    (alone,) = await user.retrieve("who met in December?", explain=True)
    other = await user.add("we met", occurred_at=datetime(2022, 12, 31, tzinfo=UTC))
    both = await user.retrieve("who met in December?", explain=True)
    assert both[1].signals["date"] > alone.signals["date"], "two days after a December"
    await user.delete(other.memory_id)
    assert await user.retrieve("who met in December?", explain=True) == [alone]
