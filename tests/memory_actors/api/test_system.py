"""A user's memory through the public API."""

import asyncio
import threading
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fakes import START_US, FakeEmbedder
from support.given import pro
from support.improving import FakeCritic, FakeReviser

from eventlog import EventLog
from memory_actors import (
    EmbedderError,
    InvalidInputError,
    Item,
    Limits,
    MemorySystem,
    MemoryType,
    ModelMismatchError,
    NotFoundError,
    QuotaExceededError,
    improve,
)

pytestmark = pytest.mark.anyio


async def test_a_memory_is_read_as_it_was_added(memory) -> None:
    user = memory.user("u", session_id="s")
    receipt = await user.add(
        "likes tea", metadata={"tag": ["a", 1]}, occurred_at="2024-05-01T12:00:00+02:00",
        role="Ada",
    )  # fmt: skip
    got = await user.get(receipt.memory_id)
    assert (got.content, got.metadata, got.memory_type) == (
        "likes tea",
        {"tag": ["a", 1]},
        "long_term",
    )
    assert got.occurred_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert got.created_at == datetime.fromtimestamp(START_US / 1e6, UTC)
    assert (got.session_id, got.role) == ("s", "Ada")
    assert (receipt.operation, receipt.quota_remaining, receipt.indexed) == ("add", 99_999, True)


@pytest.mark.no_node
async def test_a_generated_id_is_not_searched_in_the_log(
    open_memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[str] = []
    search = EventLog.versions_about

    async def spied(log: EventLog, stream: str, key: str) -> list[int]:
        searched.append(key)
        return await search(log, stream, key)

    monkeypatch.setattr(EventLog, "versions_about", spied)
    async with open_memory() as memory:
        user = memory.user("u", session_id="s", agent_id="a")
        for kind in MemoryType:
            assert (await user.add(f"{kind} one", kind)).operation != "unchanged"
            await user.add_with_auto_prune(f"{kind} two", kind)
        await user.add_many([Item(content="three"), Item(content="four")])
        await user.entities.add_entity("Ann", "person", ["likes tea"])
        await user.entities.relate("Ann", "knows", "entity one")
        await user.episodes.start("learn")
        await user.documents.put("things", {"a": 1})
        await user.short_term.add_message("five", role="user")
        await user.context.add("Preferences", "six")
        await improve("a text", critic=FakeCritic(), reviser=FakeReviser(), record_to=user)
        assert searched == []
        for kind in MemoryType:
            await user.add(f"{kind} of one's own", kind, memory_id=f"own {kind}")
        assert {f"own {kind}" for kind in MemoryType} <= set(searched)


async def test_everything_is_there_after_reopening(open_memory) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        await user.working.set("k", {"deep": [1, 2]})
        await user.short_term.add_message("hello there", role="user")
        await user.add("likes tea")
    async with open_memory() as memory:
        user = memory.user("u")
        assert await user.working.get("k") == {"deep": [1, 2]}
        assert [m.content for m in await user.short_term.messages()] == ["hello there"]
        (hit,) = await user.retrieve("tea", memory_types=["long_term"])
        assert hit.content == "likes tea"
        assert (await memory.verify()).ok
        assert await memory.users() == ["u"]


async def test_a_user_with_one_fresh_key_is_known_everywhere(open_memory) -> None:
    async with open_memory(check_replay=False) as memory:
        await memory.user("u", source="page").working.set("k", 1)
        assert await memory.check_replay() == []
        await memory.user("v", source="page").working.set("k", 1)
        report = await memory.purge("page")
        assert [receipt.user_id for receipt in report.receipts] == ["u", "v"]


async def test_users_never_see_each_other(memory) -> None:
    names = ["u1", "u10", "u", "U1", "u1 ", "../u1", "u\x00", "\u00e9", "e\u0301"]
    for name in names:
        await memory.user(name).add(f"secret of {name!r}")
    for name in names:
        hits = await memory.user(name).retrieve("secret", top_k=50)
        assert [hit.content for hit in hits] == [f"secret of {name!r}"]
    assert await memory.users() == sorted(names)


async def test_a_filter_is_applied_before_ranking(user) -> None:
    await user.add_many([Item(content=f"red apple {i}") for i in range(100)])
    await user.add("something else", metadata={"category": "sports", "n": 1})
    hits = await user.retrieve("red apple", top_k=5, filters={"category": "sports"})
    assert [hit.content for hit in hits] == ["something else"]
    assert await user.retrieve("red apple", filters={"n": True}) == []
    assert await user.retrieve("red apple", filters={"category": None}) == []


@pytest.mark.no_node
async def test_the_same_text_is_embedded_once(open_memory, embedder) -> None:
    async with open_memory() as memory:
        await memory.user("a").add("likes tea")
        await memory.user("b").add("likes tea")
    async with open_memory() as memory:
        await memory.user("c").add("likes tea")
        await memory.user("a").retrieve("likes tea")
    assert embedder.texts == ["likes tea"]


async def test_update_changes_what_is_found(user) -> None:
    receipt = await user.add("lives in bristol", metadata={"v": 1})
    await user.add("plays football")
    assert (await user.update(receipt.memory_id, content="lives in glasgow")).operation == (
        "update"
    )
    (hit, _) = await user.retrieve("lives in glasgow")
    assert (hit.memory_id, hit.content, hit.metadata) == (
        receipt.memory_id,
        "lives in glasgow",
        {"v": 1},
    )
    await user.update(receipt.memory_id, metadata={"v": 2})
    assert (await user.get(receipt.memory_id)).metadata == {"v": 2}
    assert (await user.update(receipt.memory_id, metadata={"v": 2})).operation == "unchanged"
    assert len(await user.history(receipt.memory_id)) == 3


async def test_a_deleted_memory_never_comes_back(open_memory) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        receipt = await user.add("likes tea", memory_id="mine")
        await user.delete(receipt.memory_id)
        assert await user.retrieve("likes tea") == []
        with pytest.raises(NotFoundError):
            await user.get("mine")
        assert (await user.add("likes tea", memory_id="mine")).operation == "unchanged"
    async with open_memory() as memory:
        user = memory.user("u")
        assert await user.retrieve("likes tea") == []
        assert [e.event for e in await user.history("mine")] == [
            "long_term.added",
            "long_term.deleted",
        ]


@pytest.mark.parametrize("kind", list(MemoryType))
async def test_get_update_delete_and_history_work_for_every_kind(memory, kind) -> None:
    user = memory.user("u", agent_id="agent", session_id="s")
    receipt = await user.add("first words", kind, metadata={"a": 1})
    assert receipt.memory_type == kind
    await user.update(receipt.memory_id, content="second words")
    got = await user.get(receipt.memory_id)
    assert "second words" in got.content
    assert (got.metadata, got.memory_type) == ({"a": 1}, kind)
    await user.delete(receipt.memory_id)
    with pytest.raises(NotFoundError):
        await user.get(receipt.memory_id)
    with pytest.raises(NotFoundError):
        await user.delete(receipt.memory_id)
    entries = await user.history(receipt.memory_id)
    assert len(entries) == 3
    assert all(e.cause["agent_id"] == "agent" for e in entries)
    assert [e.version for e in entries] == [1, 2, 3]


async def test_an_idempotency_key_makes_a_retry_harmless(user) -> None:
    first = await user.add("likes tea", idempotency_key="k")
    again = await user.add("likes tea", idempotency_key="k")
    assert again.memory_id == first.memory_id
    assert (await user.usage()).kinds["long_term"].count == 1
    with pytest.raises(InvalidInputError, match="idempotency"):
        await user.add("likes coffee", idempotency_key="k")


async def test_add_many_is_all_or_none(open_memory) -> None:
    async with open_memory(tiers=pro(Limits(long_term_memories=3))) as memory:
        user = memory.user("u")
        with pytest.raises(QuotaExceededError):
            await user.add_many([Item(content=f"c{i}") for i in range(4)])
        with pytest.raises(InvalidInputError):
            await user.add_many([Item(content="fine"), Item(content="")])
        assert (await user.usage()).kinds["long_term"].count == 0
        assert await user.add_many([]) == []


async def test_an_interrupted_add_many_can_be_repeated(user) -> None:
    items = [Item(content=f"c{i}", memory_id=f"id{i}") for i in range(10)]
    await user.add_many(items[:4])
    receipts = await user.add_many(items)
    assert [r.operation for r in receipts] == ["unchanged"] * 4 + ["add"] * 6
    assert (await user.usage()).kinds["long_term"].count == 10


async def test_working_memory_forgets_the_least_recently_used(open_memory) -> None:
    async with open_memory(tiers=pro(Limits(working_keys=3))) as memory:
        user = memory.user("u")
        for key in "abc":
            await user.working.set(key, key)
        await user.working.get("a")
        with pytest.raises(QuotaExceededError):
            await user.working.set("d", "d")
        await user.working.set("d", "d", auto_prune=True)
        assert list(await user.working.items()) == ["a", "c", "d"]


async def test_what_a_caller_holds_cannot_change_what_is_kept(user) -> None:
    value: dict[str, Any] = {"list": [1]}
    await user.working.set("k", value)
    value["list"].append(2)
    (await user.working.get("k"))["list"].append(3)
    assert await user.working.get("k") == {"list": [1]}
    receipt = await user.add("text", metadata=value)
    (await user.get(receipt.memory_id)).metadata["list"].append(4)
    assert (await user.get(receipt.memory_id)).metadata == {"list": [1, 2]}


ADDED = ("short_term", "long_term", "structured", "context", "episodic", "working")


@pytest.mark.parametrize("kind", ADDED)
async def test_compression_starts_at_content_of_more_than_1024_bytes(user, kind) -> None:
    for length, expected in ((1_023, False), (1_024, False), (1_025, True)):
        text = f"{length} ".ljust(length, "a")
        if kind == "structured":  # {"text":"…"} is what is stored
            text = text[: length - len('{"text":""}')]
        if kind == "context":  # - …
            text = text[: length - len("- \n")]
        key = "n" if kind == "working" else None
        added = await user.add(text, kind, key=key, metadata={"long": "metadata " * 50})
        memory_ = await user.get(added.memory_id)
        assert memory_.size_bytes == length + len(key or "")
        assert ("is_compressed" in memory_.metadata) is expected
        await user.delete(added.memory_id)


async def test_filters_match_the_metadata_of_compressed_memories(open_memory) -> None:
    long = "The quick brown fox. " * 100
    async with open_memory(tiers=pro(Limits(episode_steps=3))) as memory:
        user = memory.user("u")
        for kind in MemoryType:
            await user.add(long, kind, key="k" if kind == "entity" else None)
            await user.add("short", kind)
        stepped = await user.episodes.start("a short goal")
        for action in ("one", long, "three"):
            await user.episodes.step(stepped.memory_id, action)
        wanted = {"is_compressed": True}

        async def check() -> None:
            listed = await user.list_memories()
            flagged = {m.memory_id for m in listed if "is_compressed" in m.metadata}
            found = await user.list_memories(filters=wanted)
            assert {m.memory_id for m in found} == flagged
            assert await user.count(wanted) == len(flagged)
            others = await user.list_memories(filters={"is_compressed": {"exists": False}})
            assert len(others) + len(flagged) == len(listed)
            hits = await user.retrieve("quick fox", filters=wanted, top_k=50)
            living = {m.memory_id for m in found if m.memory_type != "context"}
            assert {one for hit in hits for one in (hit.memory_id, *hit.near_duplicates)} == living

        await check()
        assert await user.count(wanted) == len(MemoryType) + 1
        for memory_ in await user.list_memories(filters=wanted, memory_types=["long_term"]):
            await user.update(memory_.memory_id, content="short again")
        for action in ("four", "five"):  # the long one leaves
            await user.episodes.step(stepped.memory_id, action)
        await check()
        assert await user.count(wanted) == len(MemoryType) - 1
    async with open_memory(tiers=pro(Limits(episode_steps=3))) as memory:
        user = memory.user("u")
        await check()


async def test_a_callers_own_key_of_that_name_is_refused(user) -> None:
    long, own = "The quick brown fox. " * 100, {"is_compressed": True}
    for kind in MemoryType:
        text = "a name" if kind == "entity" else long
        for metadata in (own, {"is_compressed": False}, {"is_compressed": "gzip"}):
            with pytest.raises(InvalidInputError, match="is_compressed"):
                await user.add(text, kind, metadata=metadata)
    for number, metadata in enumerate((own, {"is_compressed": 1})):
        short = await user.add(f"short {number}")
        with pytest.raises(InvalidInputError, match="is_compressed"):
            await user.update(short.memory_id, metadata=metadata)
    assert await user.count() == 2


async def test_what_was_read_can_be_changed_and_written_back(user) -> None:
    added = await user.add("The quick brown fox. " * 100, metadata={"n": 1})
    read = await user.get(added.memory_id)
    await user.update(added.memory_id, metadata={**read.metadata, "n": 2})
    assert (await user.get(added.memory_id)).metadata == {"is_compressed": True, "n": 2}
    assert (await user.history(added.memory_id))[-1].data["metadata"] == {"n": 2}


async def test_a_failed_embedder_loses_no_memory(open_memory, embedder: FakeEmbedder) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        await user.add("first one")
        embedder.failure = RuntimeError("out of order")
        receipt = await user.add("likes tea")
        assert receipt.indexed is False
        assert (await user.get(receipt.memory_id)).content == "likes tea"
        with pytest.raises(EmbedderError):
            await user.retrieve("something never asked before")
    embedder.failure = None
    async with open_memory() as memory:
        (hit, *_) = await memory.user("u").retrieve("likes tea")
        assert hit.memory_id == receipt.memory_id


@pytest.mark.parametrize("wrong", ["shape", "nan", "zeros", "type"])
async def test_a_poisonous_vector_never_reaches_an_index(user, embedder, wrong) -> None:
    await user.add("good one")
    good = embedder.embed
    embedder.embed = lambda texts: {
        "shape": lambda v: v[:, :5],
        "nan": lambda v: v * float("nan"),
        "zeros": lambda v: v * 0,
        "type": lambda v: [["x"] * 32] * len(v),
    }[wrong](good(texts))
    assert (await user.add("bad one")).indexed is False
    embedder.embed = good
    hits = await user.retrieve("good one")
    assert hits[0].content == "good one"


async def test_one_text_that_cannot_be_embedded_costs_the_others_nothing(user, embedder) -> None:
    """They are indexed at once, and computed once."""
    embed, given = embedder.embed, Counter[str]()

    def fails(texts):
        given.update(texts)
        if "bad one" in texts:
            raise RuntimeError("not this one")
        return embed(texts)

    await user.add("a first one")
    embedder.embed = fails
    texts = ["bad one", *(f"good one {n}" for n in range(600))]
    receipts = await user.add_many([Item(content=text) for text in texts])
    assert {receipt.indexed for receipt in receipts} == {False}
    hits = await user.retrieve("good one 599", top_k=600)
    assert len({hit.content for hit in hits} & set(texts)) >= 590
    assert sum(given[text] > 2 for text in texts[1:]) == 0  # with a batch that fails, and alone
    assert sum(given[text] == 2 for text in texts[1:]) <= 64  # with the query


async def test_another_model_is_refused_and_a_reindex_accepts_it(tmp_path: Path) -> None:
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("one")) as memory:
        await memory.user("u").add("likes tea")
    with pytest.raises(ModelMismatchError, match=r"'one'.*'two'.*reindex"):
        async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("two")):
            pass
    other = FakeEmbedder("two", dimension=16)
    async with MemorySystem.open(tmp_path, embedder=other, reindex=True) as memory:
        assert [h.content for h in await memory.user("u").retrieve("likes tea")] == ["likes tea"]
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("two", dimension=16)) as memory:
        assert len(await memory.user("u").retrieve("tea")) == 1


async def test_a_reindex_runs_in_the_background(
    tmp_path: Path,
) -> None:
    """A reindex goes on in the background, and says how much is left."""
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder("one")) as memory:
        await memory.user("u").add_many([Item(content=f"memory {n}") for n in range(150)])
    other, go = FakeEmbedder("two"), threading.Event()
    embed = other.embed

    def held(texts: Sequence[str]) -> Any:
        assert go.wait(10)
        return embed(texts)

    other.embed = held  # type: ignore[method-assign]
    async with MemorySystem.open(tmp_path, embedder=other, reindex=True) as memory:
        user = memory.user("u")
        assert len(await user.list_memories(limit=200)) == 150  # reads wait for no model
        assert memory.statistics().passages_wanting == 150
        go.set()
        with anyio.fail_after(20):
            while memory.statistics().passages_wanting:
                await anyio.sleep(0.01)
        assert (await user.retrieve("memory 149"))[0].content == "memory 149"


async def test_derived_data_may_be_deleted(open_memory, tmp_path: Path) -> None:
    async with open_memory() as memory:
        for i in range(40):
            await memory.user("u").add(f"memory {i}")
    for path in (tmp_path / "memory").glob("derived*"):
        path.unlink()
    async with open_memory() as memory:
        hits = await memory.user("u").retrieve("memory 7", top_k=50)
        assert hits[0].content == "memory 7"
        assert len(hits) == 40


async def test_concurrent_users_and_callers_all_get_their_answers(open_memory) -> None:
    async with open_memory(check_replay=False) as memory:

        async def write(n: int) -> None:
            user = memory.user(f"u{n % 7}")
            await asyncio.gather(user.add(f"memory {n}"), user.working.set(f"k{n}", n))

        await asyncio.gather(*(write(n) for n in range(210)))
        for n in range(7):
            usage = (await memory.user(f"u{n}").usage()).kinds
            assert (usage["long_term"].count, usage["working"].count) == (30, 30)
        assert (await memory.verify()).ok


BAD_INPUT: tuple[tuple[Any, str], ...] = (
    (lambda u: u.add(""), "empty"),
    (lambda u: u.add("  \n"), "empty"),
    (lambda u: u.add(7), "must be a string"),
    (lambda u: u.add("x" * 300_000, "entity"), "max: "),
    (lambda u: u.add("x" * 300_000, "working"), "max: 262,144"),
    (lambda u: u.add("x" * 16_000_000), "max: 15,728,640"),
    (lambda u: u.documents.put("a", {"x": "y" * 16_000_000}), "max: 15,728,640"),
    (lambda u: u.add("\ud800"), "Unicode"),
    (lambda u: u.add("x", "forever"), "unknown memory type"),
    (lambda u: u.add("x", None), "unknown memory type"),
    (lambda u: u.add("x", metadata={"a": {1, 2}}), "not JSON"),
    (lambda u: u.add("x", metadata={"a": float("nan")}), "not JSON"),
    (lambda u: u.add("x", metadata={"a": 1 << 70}), "not JSON"),
    (lambda u: u.add("x", metadata={1: "a"}), "keys must be strings"),
    (lambda u: u.add("x", metadata=["a"]), "must be a dict"),
    (lambda u: u.add("x", metadata={"a": "b" * 20_000}), "max: 16,384"),
    (lambda u: u.add("x", occurred_at="yesterday"), "ISO 8601"),
    (lambda u: u.add("x", occurred_at=[5]), "ISO 8601"),
    (lambda u: u.add("x", occurred_at=1e12), "seconds since 1970"),
    (lambda u: u.add("x", memory_id=""), "empty"),
    (lambda u: u.retrieve(""), "empty"),
    (lambda u: u.retrieve("x", top_k=0), "top_k"),
    (lambda u: u.retrieve("x", top_k=True), "top_k"),
    (lambda u: u.retrieve("x", memory_types=["nope"]), "unknown memory type"),
    (lambda u: u.retrieve("x", filters=["a"]), "must be a dict"),
    (lambda u: u.working.set("", 1), "empty"),
    (lambda u: u.working.set("k", object()), "not JSON"),
    (lambda u: u.update("x"), "nothing to update"),
    (lambda u: u.add_many([Item(content="x")] * 1_001), "max: 1,000"),
)


async def test_bad_input_is_refused_and_changes_nothing(memory, user) -> None:
    for call, message in BAD_INPUT:
        with pytest.raises(InvalidInputError, match=message):
            await call(user)
        assert memory.statistics().log.last_position == 0
