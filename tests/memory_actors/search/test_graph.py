"""The HNSW graph: it finds what a scan of all rows finds, and no damage of its file does harm."""

import asyncio
import os
import shutil
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pytest
from support.fakes import FakeTokenEmbedder

from bench.closest import add, remove
from memory_actors import Item, MemorySystem
from memory_actors.kinds import long_term
from memory_actors.search.dot_products import Coded, coded_units
from memory_actors.search.indexes import dense, graph, labels
from memory_actors.search.indexes.dense import DenseIndex
from memory_actors.search.indexes.graph import Graph, SavedSegment
from memory_actors.search.indexes.labels import Labels
from memory_actors.search.indexes.memory_index import MemoryIndex

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not graph.is_usable(), reason="hnswlib or the C parts are missing"),
]

DIMENSION, K = 192, 30
CENTRE = np.full(DIMENSION, 0.03, np.float32)
Found = npt.NDArray[np.intp]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs of few rows."""
    for module, name, value in (
        (dense, "EXACT_MAX", 300), (labels, "DEAD_MIN", 10), (graph, "TAIL_MIN", 100),
        (dense, "SEGMENT_ROWS", 700), (graph, "SEGMENT_ROWS", 700), (graph, "EXPANDED_MIN", 8),
        (graph, "WANTED_MIN", 30),
    ):  # fmt: skip
        monkeypatch.setattr(module, name, value)


def vectors(count: int, seed: int = 1) -> npt.NDArray[np.float32]:
    """Clustered, off centre, and with a few directions that tell more than the others."""
    rng = np.random.default_rng(seed)
    share = np.arange(1, DIMENSION + 1) ** -0.5
    centres = np.random.default_rng(0).standard_normal((40, DIMENSION))
    rows = share * (centres[rng.integers(40, size=count)] + rng.standard_normal((count, DIMENSION)))
    rows = rows + 0.03
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def index_of(rows: npt.NDArray[np.float32], first: int = 0) -> DenseIndex:
    return DenseIndex(Labels(np.arange(first, first + len(rows))), coded_units(rows))


def grown(index: DenseIndex) -> DenseIndex:
    index.graph = index.graph or Graph()
    while index.wants_graph:
        index.graph.grow(index.view())
    return index


def exact(index: DenseIndex, query: npt.NDArray[np.float32]) -> Found:
    return np.argsort(-index.scores(query, CENTRE), kind="stable")[:K]


def recall(index: DenseIndex) -> float:
    found = 0
    for query in vectors(40, seed=9):
        rows = index.proposed(query, CENTRE, K)
        assert rows is not None
        assert rows.tolist() == sorted(set(rows.tolist()))
        assert len(rows) < len(index) / 2
        found += len(np.intersect1d(rows, exact(index, query)))
    return found / (40 * K)


def restored(index: DenseIndex, files: list[SavedSegment]) -> Graph:
    return Graph.restored(files, index.rows, index.view())


def saved(index: DenseIndex) -> list[SavedSegment]:
    assert index.graph is not None
    files = [one.saved for one in index.graph.segments]
    return [one for one in files if one is not None]


def test_nearly_all_of_the_closest_rows_are_proposed() -> None:
    index = grown(index_of(vectors(3_000)))
    assert recall(index) >= 0.98
    assert index.graph is not None
    assert [one.count for one in index.graph.segments] == [700, 700, 700, 700]
    assert index.graph.count == 2_800


def test_what_is_not_in_the_graph_yet_is_found() -> None:
    rows = vectors(2_015)
    index = grown(index_of(rows[:2_000]))
    for label in range(2_000, 2_015):
        add(index, label, rows[label])
    assert not index.wants_graph
    proposed = index.proposed(rows[2_010], CENTRE, K)
    assert proposed is not None
    assert 2_010 in proposed
    assert recall(index) >= 0.98


def test_removed_rows_are_never_proposed_and_hide_no_others() -> None:
    """The nearest go, and a fifth of the others."""
    index = grown(index_of(vectors(3_000)))
    query = vectors(1, seed=9)[0]
    by_score = np.argsort(-index.scores(query, CENTRE))
    for label in [*by_score[:40].tolist(), *by_score[40::5].tolist()]:
        remove(index, label)
    proposed = index.proposed(query, CENTRE, K)
    assert proposed is not None
    assert index.view().alive[proposed].all()
    assert len(np.intersect1d(proposed, exact(index, query))) >= 0.95 * K


def test_of_many_equal_rows_enough_are_proposed_and_no_more() -> None:
    index = grown(index_of(np.repeat(vectors(1), 2_100, axis=0)))
    proposed = index.proposed(vectors(1)[0], CENTRE, K)
    assert proposed is not None
    assert K <= len(proposed) <= 12 * K


def test_one_order_of_rows_gives_one_graph_whenever_they_came() -> None:
    """It is the same graph if the rows came all at once, or some at a time."""
    rows = vectors(2_000)
    together, slowly = grown(index_of(rows)), grown(index_of(rows[:500]))
    for start in range(500, 2_000, 70):
        for label in range(start, min(start + 70, 2_000)):
            add(slowly, label, rows[label])
        grown(slowly)
    for query in vectors(40, seed=9):
        one, other = (index.proposed(query, CENTRE, K) for index in (together, slowly))
        assert one is not None
        assert other is not None
        assert np.array_equal(one, other)


def test_python_is_locked_for_a_few_rows_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    library, sizes = graph.hnswlib(), list[int]()

    class Index(library.Index):
        def add_items(self, rows: Any, *more: Any, **options: Any) -> None:
            sizes.append(len(rows))
            super().add_items(rows, *more, **options)

    monkeypatch.setattr(library, "Index", Index)
    grown(index_of(vectors(1_600)))
    assert max(sizes) <= graph.CHUNK_ROWS
    assert sum(sizes) == 1_400


def test_the_nearest_by_plain_cosine_are_found() -> None:
    rows = vectors(2_000)
    index, found = grown(index_of(rows)), 0
    for query in vectors(40, seed=9):
        found += len(np.intersect1d(index.nearest(query, 10)[0], np.argsort(-rows @ query)[:10]))
    assert found >= 0.95 * 400


def test_searches_while_it_grows_see_whole_moments() -> None:
    index, stop, failures = index_of(vectors(3_000)), threading.Event(), list[BaseException]()
    index.graph = Graph()

    def keep_searching() -> None:
        try:
            while not stop.is_set():
                found = index.proposed(vectors(1, seed=9)[0], CENTRE, K)
                assert found is not None
                assert len(found) >= K
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=keep_searching) for _ in range(2)]
    for thread in threads:
        thread.start()
    grown(index)
    stop.set()
    for thread in threads:
        thread.join()
    assert failures == []


# --- saved and read


def test_rows_that_went_and_came_since_it_was_saved_are_known() -> None:
    """A graph is read for other rows than it was saved for, and grows."""
    rows = vectors(2_400)
    files = saved(grown(index_of(rows[:1_600])))
    kept = np.delete(np.arange(2_400), np.arange(0, 1_600, 10))
    codes, steps = coded_units(rows[kept])
    index = DenseIndex(Labels(kept), Coded(codes, steps))
    index.graph = restored(index, files)
    assert index.graph.count == 1_260
    assert recall(grown(index)) >= 0.97
    assert index.graph.count == 1_960
    again = DenseIndex(Labels(kept), Coded(codes, steps))
    again.graph = restored(again, [*files, *saved(index)])
    assert again.graph.count == 1_960
    assert recall(again) >= 0.97


@pytest.mark.parametrize("part", ["ground", "upper"])
@pytest.mark.parametrize("value", [33, 700, 65_535])
def test_links_out_of_a_graph_are_refused(part: str, value: int) -> None:
    files = saved(grown(index_of(vectors(700))))
    links = np.frombuffer(getattr(files[0], part), np.uint16).copy()
    links[0 if value == 33 else 1] = value
    other = msgspec.structs.replace(files[0], **{part: links.tobytes()})
    assert restored(index_of(vectors(700)), [other]).count == 0
    assert restored(index_of(vectors(700)), files).count == 700


def test_a_graph_whose_rows_have_all_gone_is_made_anew() -> None:
    files = saved(grown(index_of(vectors(700))))
    assert restored(index_of(vectors(700), first=1_000), files).count == 0


# --- in a store


class Embedder(FakeTokenEmbedder):
    """Vectors of texts as `vectors` has them."""

    def __init__(self) -> None:
        super().__init__(dimension=DIMENSION)

    def embed(self, texts: Any) -> npt.NDArray[np.float32]:
        return np.concatenate([vectors(1, zlib.crc32(text.encode())) for text in texts])


async def index_in(memory: MemorySystem) -> MemoryIndex:
    async with memory._services.runtime.use("user:u") as live:
        index = live.indexes.get(long_term.KIND)
        assert index is not None
        while (task := index._tasks.running("graph long_term")) is not None:
            await asyncio.wait([task])
            await asyncio.sleep(0)
        return index


async def filled(path: Path, count: int = 1_500) -> None:
    async with MemorySystem.open(path, embedder=Embedder()) as memory:
        items = [Item(content=f"note {n} about thing{n % 50}") for n in range(count)]
        for start in range(0, count, 1_000):
            await memory.user("u").add_many(items[start : start + 1_000])
        index = await index_in(memory)
        assert index.dense.graph is not None
        assert index.dense.graph.count == count // 700 * 700


def segment_files(path: Path) -> list[Path]:
    return sorted(path.glob("indexes/*.long_term.graph*"))


async def asked(memory: Any) -> list[tuple[str, float]]:
    hits = await memory.retrieve("what about thing7?", top_k=10)
    return [(hit.content, hit.score) for hit in hits]


async def test_it_lies_beside_the_index_and_is_read_again(tmp_path: Path, monkeypatch: Any) -> None:
    await filled(tmp_path)
    assert len(segment_files(tmp_path)) == 2
    monkeypatch.setattr(graph, "_Building", None)  # nothing begins anew
    async with MemorySystem.open(tmp_path, embedder=Embedder()) as memory:
        assert await asked(memory.user("u"))
        index = await index_in(memory)
        assert index.dense.graph is not None
        assert index.dense.graph.count == 1_400


async def test_a_graph_of_another_past_is_made_anew(tmp_path: Path) -> None:
    """Its rows have the labels of rows here; what they say differs, so it would propose others."""
    here, other = tmp_path / "here", tmp_path / "other"
    await filled(here, 720)
    await filled(other, 720)
    (of_here,), (of_other,) = segment_files(here), segment_files(other)
    shutil.copy(of_other, of_here)
    async with MemorySystem.open(here, embedder=Embedder()) as memory:
        await index_in(memory)
        assert await asked(memory.user("u"))
        assert len(segment_files(here)) == 1
    assert of_here.read_bytes() != of_other.read_bytes()


async def test_a_damaged_file_is_not_loaded_and_the_graph_made_anew(tmp_path: Path) -> None:
    """C reads it, so this happens in another process: bits, lengths and other bytes."""
    await filled(tmp_path)
    paths = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, __file__, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=paths)
    assert done.returncode == 0, done.stderr


async def _read_damaged(path: Path) -> None:
    rng = np.random.default_rng(1)
    first, last = segment_files(path)
    whole = first.read_bytes()
    for turn in range(6):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        first.write_bytes([bytes(damaged), whole[: len(whole) // 2], last.read_bytes()][turn % 3])
        async with MemorySystem.open(path, embedder=Embedder()) as memory:
            assert await asked(memory.user("u"))
            index = await index_in(memory)
            assert index.dense.graph is not None
            assert index.dense.graph.count == 1_400
            assert await asked(memory.user("u"))
        assert first.read_bytes() != damaged


async def test_without_hnswlib_rows_are_scanned_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    graph.hnswlib.cache_clear()
    try:
        async with MemorySystem.open(tmp_path, embedder=Embedder()) as memory:
            for start in (0, 500):
                items = [Item(content=f"note {n} about thing7") for n in range(start, start + 500)]
                await memory.user("u").add_many(items)
            assert len(await asked(memory.user("u"))) >= 5
            assert (await index_in(memory)).dense.graph is None
    finally:
        graph.hnswlib.cache_clear()
    assert caplog.text.count("hnswlib is not installed") == 1


if __name__ == "__main__":
    with pytest.MonkeyPatch.context() as patch:
        soon.__wrapped__(patch)
        asyncio.run(_read_damaged(Path(sys.argv[1])))
