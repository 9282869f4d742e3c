"""The ten scenarios that the first users gave us, with the real model."""

from pathlib import Path

import pytest
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError, Item, MemorySystem, QuotaExceededError
from memory_actors.search.embedding.default import DefaultEmbedder

pytestmark = [pytest.mark.anyio, pytest.mark.contract]


@pytest.fixture(scope="module")
def embedder() -> DefaultEmbedder:
    return DefaultEmbedder()


@pytest.fixture
async def memory(tmp_path: Path, embedder: DefaultEmbedder):
    async with MemorySystem.open(tmp_path, embedder=embedder) as memory:
        yield memory


async def test_1_working_memory_is_held_in_memory(memory) -> None:
    user = memory.user("user_123")
    receipt = await user.add("current_task: book flight to Paris", "working")
    assert receipt.memory_id
    assert (await user.get(receipt.memory_id)).content == "current_task: book flight to Paris"


async def test_2_a_message_of_a_session_lives_for_an_hour(memory) -> None:
    user = memory.user("user_123", session_id="sess_abc123")
    receipt = await user.add("User: How much is a flight to Paris?", "short_term")
    assert receipt.memory_id
    assert user.short_term.ttl == 3600
    assert (await user.get(receipt.memory_id)).session_id == "sess_abc123"


async def test_3_a_long_term_memory_is_embedded_and_durable(tmp_path, embedder) -> None:
    async with MemorySystem.open(tmp_path / "own", embedder=embedder) as memory:
        user = memory.user("user_123")
        receipt = await user.add("User enjoys skiing and mountain views", "long_term")
        assert receipt.indexed
    async with MemorySystem.open(tmp_path / "own", embedder=embedder) as memory:
        got = await memory.user("user_123").get(receipt.memory_id)
        assert got.content == "User enjoys skiing and mountain views"


async def test_4_the_two_about_skiing_come_first(memory) -> None:
    user = memory.user("user_123")
    skiing, slopes = "User enjoys skiing", "User avoids advanced slopes"
    for text in (skiing, slopes, "User likes coffee with mountain view"):
        await user.add(text)
    hits = await user.retrieve("skiing preferences", top_k=2)
    assert [hit.content for hit in hits] == [skiing, slopes]
    assert hits[0].score > hits[1].score


async def test_5_working_memory_comes_before_long_term(memory) -> None:
    user = memory.user("user_123")
    await user.working.set("current_destination", "Paris")
    await user.add("User likes French cuisine", "long_term")
    hits = await user.retrieve("Paris trip planning", memory_types=["working", "long_term"])
    assert [(hit.memory_type, hit.content) for hit in hits] == [
        ("working", "Paris"),
        ("long_term", "User likes French cuisine"),
    ]


@pytest.mark.owner  # the number is for the decision, whoever asks
async def test_6_and_7_a_full_memory_refuses_and_then_prunes(tmp_path) -> None:
    async with MemorySystem.open(tmp_path / "full", embedder=FakeEmbedder()) as memory:
        user = memory.user("user_123")
        await user.set_tier("pro")
        for start in range(0, 10_000, 1_000):
            await user.add_many(
                [
                    Item(content=f"memory {n}", memory_id=f"m{n}")
                    for n in range(start, start + 1_000)
                ]
            )
        with pytest.raises(QuotaExceededError) as refused:
            await user.add("one more")
        assert "max: 10,000" in str(refused.value)
        assert "Delete old memories or upgrade quota" in str(refused.value)
        receipt = await user.add_with_auto_prune("one more", "long_term")
        assert receipt.operation == "add_with_prune"
        assert receipt.pruned == tuple(f"m{n}" for n in range(1_000))
        assert (await user.usage()).kinds["long_term"].count == 9_001
        (hit, *_) = await user.retrieve("one more")
        assert hit.memory_id == receipt.memory_id


async def test_8_five_kilobytes_are_stored_compressed_and_read_back_identical(memory) -> None:
    user = memory.user("user_123")
    content = ("Notes of the trip: we walked along the river and talked. " * 100)[:5_120]
    got = await user.get((await user.add(content)).memory_id)
    assert got.content == content
    assert got.stored_bytes < got.size_bytes
    assert got.metadata["is_compressed"]


async def test_9_a_filter_leaves_only_what_matches(memory) -> None:
    user = memory.user("user_123")
    await user.add("User plays tennis on Sundays", metadata={"category": "sports"})
    await user.add("User loves ramen", metadata={"category": "food"})
    await user.add("User runs marathons", metadata={"category": "sports"})
    hits = await user.retrieve("what does the user eat", filters={"category": "sports"})
    assert {hit.content for hit in hits} == {"User plays tennis on Sundays", "User runs marathons"}


async def test_10_no_memories_no_error_no_model(tmp_path) -> None:
    embedder = FakeEmbedder()
    async with MemorySystem.open(tmp_path / "empty", embedder=embedder) as memory:
        assert await memory.user("user_123").retrieve("anything at all") == []
    assert embedder.texts == []


async def test_empty_content_is_a_clear_error(memory) -> None:
    with pytest.raises(InvalidInputError, match="content is empty"):
        await memory.user("user_123").add("")
