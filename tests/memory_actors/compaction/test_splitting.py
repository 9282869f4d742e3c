"""Clusters that are wider than a summary: taken apart into the topics that they chain together."""

from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN
from support.compacting import summaries
from support.fakes import FakeEmbedder

from memory_actors import Item, MemorySystem, UserMemory
from memory_actors.compaction.clusters import dbscan, topics
from memory_actors.compaction.selection import Old, vectors_of
from memory_actors.kinds import long_term
from memory_actors.search.model.installed import model_path

LONG_AGO = datetime(2023, 1, 1, tzinfo=UTC)
TOPICS = (
    "sailing", "pottery", "astronomy", "chess", "gardening", "baking", "photography", "cycling",
    "knitting", "beekeeping", "opera", "fencing", "surfing", "calligraphy", "archery", "robotics",
    "genealogy", "birdwatching", "woodworking", "skiing", "meditation", "swimming", "painting",
    "brewing", "origami", "geology", "carpentry", "juggling", "boxing", "yoga", "poetry",
    "drumming", "fishing", "climbing", "rowing", "karate", "ballet", "cheese", "trains", "bonsai",
    "coins", "kites", "magic", "maps", "perfume", "puppets", "tea", "typewriters", "volcanoes",
    "watches",
)  # fmt: skip
DONE = (
    "read a book about", "bought new equipment for", "met a teacher of", "watched a film about",
    "spent a weekend on", "joined a club for", "gave a talk about", "wrote a letter about",
    "paid 40 euros for a course in", "dreamt about",
)  # fmt: skip


def notes() -> list[Item]:
    """Return 20 notes on each of 50 topics, in one form of words, in turn, an hour apart."""
    return [
        Item(
            content=f"Note {day * len(TOPICS) + n}: On day {day + 1} the user told the assistant "
            f"that she {DONE[(7 * day + n) % len(DONE)]} {topic} and wants to remember it.",
            metadata={"topic": topic},
            occurred_at=LONG_AGO + timedelta(hours=day * len(TOPICS) + n),
        )
        for day in range(20)
        for n, topic in enumerate(TOPICS)
    ]


def unit(rows: Any) -> Any:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def around(
    centres: int, count: int, seed: int, spread: tuple[float, float] = (0.2, 0.9)
) -> tuple[Any, Any]:
    """Return points, each at its own distance from one of some centres, and whose they are."""
    rng = np.random.default_rng(seed)
    of = rng.integers(0, centres, count)
    noise = rng.uniform(*spread, (count, 1)) * rng.standard_normal((count, 32))
    return unit(rng.standard_normal((centres, 32))[of] + noise), of


# --- from topics to summaries


@pytest.fixture(params=["fake", "real"])
async def noted(request: Any, open_memory: Any, tmp_path: Any) -> Any:
    """1,000 notes of a user, and a model by which DBSCAN sees one cluster, or nearly so."""
    if request.param == "fake":
        embedder = Alike()
    elif model_path() is None:
        pytest.skip("the embedding model is not installed")
    else:
        embedder = None
    async with MemorySystem.open(tmp_path / "notes", embedder=embedder) as memory:
        user = memory.user("ada")
        for start in range(0, len(written := notes()), 250):
            await user.add_many(written[start : start + 250])
        yield memory, user


class Alike(FakeEmbedder):
    """Vectors that are mostly the form of words, a good deal the topic, and a little the rest."""

    def _vector(self, text: str) -> Any:
        rest, form = super()._vector(text), np.eye(1, self.dimension)[0]
        about = [super(Alike, self)._vector(word) for word in TOPICS if f" {word} " in text]
        total = 0.85 * form + sum(0.5 * one for one in about) + 0.2 * rest
        return (total / np.linalg.norm(total)).astype(np.float32)


@pytest.mark.anyio
async def test_fifty_topics_give_about_fifty_summaries(noted: Any) -> None:
    memory, user = noted
    there = {one.memory_id: one async for one in user.export()}
    assert np.bincount(dbscan(await vectors_of_all(user)) + 1).max() >= 980, "chained"
    report = await memory.compact()
    made = await summaries(user)
    assert 45 <= len(made) <= 55
    assert report.originals == sum(one.data["original_count"] for one in made) >= 980
    about = [
        Counter(there[one].metadata["topic"] for one in summary.data["compressed_from_ids"])
        for summary in made
    ]
    of_its_topic = sum(topic.most_common(1)[0][1] for topic in about)
    assert of_its_topic >= 0.85 * report.originals, "dreams may be a topic of their own"
    assert len({topic.most_common(1)[0][0] for topic in about}) >= 45
    assert (await memory.compact()).compressed == 0


async def vectors_of_all(user: UserMemory) -> Any:
    async with user._scope.live() as live:
        old = Old(long_term.KIND, list(long_term.KIND.rows(live.state.long_term)))
    return await vectors_of(user._scope, old)


# --- topics


@pytest.mark.parametrize("seed", range(5))
def test_the_labels_are_those_of_scikit_learn(seed: int) -> None:
    vectors, _ = around(12, 400, seed)
    distances = np.maximum(1 - vectors @ vectors.T, 0)
    theirs = HDBSCAN(5, min_samples=5, metric="precomputed", copy=True).fit(distances).labels_
    found = topics(vectors, 5)
    ours = np.full(len(vectors), -1)
    for topic, members in enumerate(found):
        ours[members] = topic
    placed = theirs >= 0
    pairs = set(zip(theirs[placed].tolist(), ours[placed].tolist(), strict=True))
    assert len(pairs) <= len(found) + 1 == theirs.max() + 2, "but for one memory at a border"


@pytest.mark.parametrize("count", [10, 400, 5_000])
def test_every_memory_is_in_just_one_topic(count: int) -> None:
    """The topics share no memory, also where there are more memories than are linked."""
    vectors, of = around(2 if count == 10 else 8, count, 3, (0.1, 0.3))
    found = topics(vectors, 5)
    assert np.array_equal(np.sort(np.concatenate(found)), np.arange(count))
    assert all(np.array_equal(members, np.sort(members)) for members in found)
    if count > 10:
        assert len(found) == 8
        assert all(len(set(of[members].tolist())) == 1 for members in found)


@pytest.mark.parametrize(
    "vectors",
    [
        lambda: np.repeat(unit(np.ones((1, 8))), 300, axis=0),
        lambda: around(1, 9, 1)[0],
        lambda: around(1, 1, 1)[0],
    ],
    ids=["all the same", "too few for two", "one"],
)
def test_without_a_real_split_there_is_one_topic(vectors: Callable[[], Any]) -> None:
    given = vectors()
    (found,) = topics(given, 5)
    assert np.array_equal(found, np.arange(len(given)))
