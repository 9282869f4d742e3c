"""What the adapter of every system that `bench peers` compares has to do."""

import asyncio
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.hashed import HashedEmbedder
from bench.peer_stores import PEERS, Memory, load, missing
from memory_actors.search.embedding.batcher import PROBE


@pytest.mark.filterwarnings("ignore")  # other people's
@pytest.mark.parametrize("name", PEERS)
def test_an_adapter_adds_finds_filters_deletes_and_reopens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = missing(PEERS[name])
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("HOME", str(tmp_path))  # some keep files there
    asyncio.run(_used(name, tmp_path))


async def _used(name: str, directory: Path) -> None:
    memories = _memories(60)
    peer, embed = load(name), _Recording()
    await peer.open(directory, embed)
    await peer.add_many(memories[:50])
    for memory in memories[50:]:
        await peer.add(*memory)
    await peer.settle()
    for memory in memories[::9]:
        found = await peer.search(memory.text, 5)
        assert found[0] == memory.id
        assert len(found) == 5
    mine = await peer.search(memories[7].text, 5, {"topic": "topic 7"})
    assert mine[0] == memories[7].id
    assert set(mine) <= {one.id for one in memories if one.metadata["topic"] == "topic 7"}
    await peer.delete(memories[0].id)
    ids = [memories[0].id, memories[1].id, "never added"]
    assert await peer.holds(ids) == {memories[1].id}
    assert memories[0].id not in await peer.search(memories[0].text, 5)
    await peer.persist()
    await peer.close()
    told = {memory.text for memory in memories}
    assert embed.texts <= {*told, "probe", PROBE}, "metadata was embedded"
    if peer.keeps:
        again = load(name)
        await again.open(directory, embed)
        assert await again.holds(ids) == {memories[1].id}
        assert (await again.search(memories[1].text, 5))[0] == memories[1].id
        await again.close()


class _Recording(HashedEmbedder):
    """Vectors of non-negative numbers, so that no cosine is below a threshold of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: set[str] = set()

    def embed(self, texts: Any) -> Any:
        self.texts |= set(texts)
        rows = np.abs(super().embed(texts))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _memories(count: int) -> list[Memory]:
    rng = random.Random(1)
    words = [f"{a}{b}" for a in ("bo", "ka", "lu", "mi", "ter") for b in ("nal", "rop", "sti")]
    return [
        Memory(
            f"m{number}",
            f'Ada: it\'s "{" ".join(rng.sample(words, 6))}" word{number}',
            {
                "session": f"session_{number // 10}",
                "speaker": "Ada",
                "occurred_at": f"2023-05-08T13:56:{number:02}+00:00",
                "topic": f"topic {number % 10}",
            },
        )
        for number in range(count)
    ]
