"""Embeddings from memory, disk or model; batches; failures; what the disk holds."""

import asyncio
import threading
from pathlib import Path

import anyio
import numpy as np
import pytest
import structlog
from support.fakes import FakeEmbedder
from support.indexes import on_disk

from memory_actors import Embedded, EmbedderError, text_digest
from memory_actors.search.embedding import batcher as batcher_module
from memory_actors.search.embedding.batcher import (
    BACKGROUND_CHARACTERS_MAX,
    BATCH_TEXTS_MAX,
    LANES_MAX,
    Batcher,
    cores,
)
from memory_actors.search.embedding.service import EmbeddingService
from memory_actors.search.embedding.vector_table import VectorTable

pytestmark = pytest.mark.anyio


class SlowEmbedder(FakeEmbedder):
    """Computes one batch each time the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Semaphore(0)
        self.batches: list[list[str]] = []
        self.calling = 0

    def embed(self, texts):
        self.calling += 1
        assert self.go.acquire(timeout=10)
        self.batches.append(list(texts))
        return super().embed(texts)


@pytest.fixture
async def service(tmp_path: Path):
    service = EmbeddingService(FakeEmbedder(), VectorTable(tmp_path / "derived.mdb"))
    service.check_model(reindex=False)
    yield service
    await service.close()


async def embed_and_keep(service: EmbeddingService, texts: list[str]) -> list[Embedded]:
    """Keep embeddings as an index does, once the log has the texts."""
    embedded = await service.embed(texts)
    service.keep(dict(zip(map(text_digest, texts), embedded, strict=True)))
    return embedded


async def calling(embedder: SlowEmbedder, count: int) -> None:
    """Wait until the embedder has been called so often."""
    with anyio.fail_after(5):
        while embedder.calling < count:
            await asyncio.sleep(0.01)


async def gather_when_queued(batcher: Batcher, *calls, batches: int = 1):
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(0.05)
    for _ in range(batches):
        batcher.embedder.go.release()
    with anyio.fail_after(5):
        return await asyncio.gather(*tasks, return_exceptions=True)


async def test_a_text_wanted_by_many_at_once_is_computed_once() -> None:
    batcher = Batcher(SlowEmbedder(), deadline_s=5)
    results = await gather_when_queued(batcher, *(batcher.embed(["same"]) for _ in range(9)))
    assert batcher.embedder.texts == ["same"]
    assert all(np.array_equal(result[0].vector, results[0][0].vector) for result in results)


@pytest.mark.parametrize("parallel", [False, True])
async def test_a_long_request_is_cut_into_batches_of_like_length(parallel: bool) -> None:
    """A long request is embedded in batches, the longest texts first, and answered in its order."""
    embedder = FakeEmbedder()
    embedder.parallel = parallel  # type: ignore[attr-defined]
    batcher = Batcher(embedder, deadline_s=5)
    texts = [f"{n} {'x' * (n % 7)}" for n in range(3 * BATCH_TEXTS_MAX + 1)]
    found = await batcher.embed(texts)
    if not parallel:
        assert embedder.texts == sorted(texts, key=len, reverse=True)
    assert sorted(embedder.texts) == sorted(texts)
    expected = FakeEmbedder().embed(texts)
    assert np.einsum("nd,nd->n", [one.vector for one in found], expected).min() > 0.999
    await batcher.close()


async def test_a_query_goes_before_all_that_waits() -> None:
    batcher = Batcher(SlowEmbedder(), deadline_s=5)
    many = [f"t{n:02}" for n in range(BATCH_TEXTS_MAX)]
    calls = [batcher.embed(["busy"]), batcher.embed(many), batcher.embed_each(["q"], query=True)]
    await gather_when_queued(batcher, *calls, batches=3)
    assert batcher.embedder.batches == [["busy"], ["q", *many[:-1]], many[-1:]]
    await batcher.close()


async def test_a_query_is_embedded_while_a_parallel_embedder_is_at_many_texts() -> None:
    embedder = SlowEmbedder()
    embedder.parallel = True  # type: ignore[attr-defined]
    batcher = Batcher(embedder, deadline_s=5)
    many = asyncio.create_task(batcher.embed([f"t{n}" for n in range(4 * BATCH_TEXTS_MAX)]))
    lanes = min(LANES_MAX, cores())
    await calling(embedder, lanes)
    query = asyncio.create_task(batcher.embed_each(["q"], query=True))
    await calling(embedder, lanes + 1)
    embedder.go.release(5)
    with anyio.fail_after(5):
        assert len(await many) == 4 * BATCH_TEXTS_MAX
        assert isinstance((await query)[0], Embedded)
    await batcher.close()


async def test_background_texts_are_embedded_in_turns() -> None:
    """Texts that can wait are embedded a little at a time, and take turns."""
    batcher = Batcher(SlowEmbedder(), deadline_s=5)
    long = [f"{n} {'x' * (BACKGROUND_CHARACTERS_MAX // 2)}" for n in range(3)]
    calls = [batcher.embed_each(long, background=True), batcher.embed(["a"]), batcher.embed(["b"])]
    await gather_when_queued(batcher, *calls, batches=4)
    assert batcher.embedder.batches == [[long[0]], ["a", "b"], [long[1]], [long[2]]]


async def test_a_parallel_embedder_keeps_nobody_waiting() -> None:
    """Nobody waits for background texts where two may call the embedder at once."""
    embedder = SlowEmbedder()
    embedder.parallel = True  # type: ignore[attr-defined]
    batcher = Batcher(embedder, deadline_s=5)
    long = [f"{n} {'x' * BACKGROUND_CHARACTERS_MAX}" for n in range(2)]
    waiting = asyncio.create_task(batcher.embed_each([*long], background=True))
    await calling(embedder, 1)
    urgent = asyncio.create_task(batcher.embed(["a"]))
    await calling(embedder, 2)  # the query is in the model while a long text is

    closing = asyncio.create_task(batcher.close())
    await asyncio.sleep(0.05)
    assert not closing.done()
    embedder.go.release(2)
    with anyio.fail_after(5):
        await closing
        assert len(await urgent) == 1
        first, second = await waiting
    assert isinstance(first, Embedded)
    assert str(second) == "the memory system is closed: open it again"


@pytest.mark.parametrize("first", [True, False])
async def test_waiting_for_the_other_thread_holds_up_nobody(first: bool) -> None:
    """A caller who wants a text that the other thread is at holds up nobody."""
    embedder = SlowEmbedder()
    embedder.parallel = True  # type: ignore[attr-defined]
    batcher = Batcher(embedder, deadline_s=1)
    busy = asyncio.create_task(batcher.embed_each(["b"], background=first))
    await asyncio.sleep(0.05)
    calls = [batcher.embed_each([text], background=not first) for text in ("b", "q")]
    (same, other) = await gather_when_queued(batcher, *calls, batches=2)
    assert isinstance(same[0], Embedded)
    assert isinstance(other[0], Embedded)
    await busy
    await batcher.close()


async def test_callers_fail_at_once_while_the_embedder_hangs() -> None:
    batcher = Batcher(SlowEmbedder(), deadline_s=0.05)
    with pytest.raises(EmbedderError, match="no answer"):
        await batcher.embed(["hangs"])
    with anyio.fail_after(5):
        while not batcher.hangs():  # its thread may have begun later than the caller
            await asyncio.sleep(0.01)

    late = asyncio.create_task(batcher.embed(["late"]))
    await asyncio.sleep(0)
    assert late.done()
    with pytest.raises(EmbedderError, match="no answer"):
        await late

    batcher.embedder.go.release()  # type: ignore[attr-defined]
    with anyio.fail_after(5):
        while batcher.hangs():
            await asyncio.sleep(0.01)
    batcher.embedder.go.release()  # type: ignore[attr-defined]
    assert len(await batcher.embed(["again"])) == 1
    await batcher.close()


async def test_who_watches_steps_and_fails_holds_nothing_up(monkeypatch) -> None:
    """The callers of one batch are told; those of the next one are served."""

    def fails(*_args: object, **_attributes: object):
        monkeypatch.undo()
        raise ValueError("exporter down")

    batcher = Batcher(FakeEmbedder(), deadline_s=5)
    monkeypatch.setattr(batcher_module, "step", fails)
    with anyio.fail_after(5):
        with pytest.raises(EmbedderError, match="exporter down"):
            await batcher.embed(["one"])
        assert len(await batcher.embed(["one", "two"])) == 2
        await batcher.close()


async def test_closing_answers_waiters_and_finishes_its_work() -> None:
    """Closing answers the callers who wait, and waits for the texts that are being computed."""
    embedder = SlowEmbedder()
    batcher = Batcher(embedder, deadline_s=5)
    busy = asyncio.create_task(batcher.embed(["a"]))
    await asyncio.sleep(0.02)
    waiting = asyncio.create_task(batcher.embed(["b"]))
    await asyncio.sleep(0.02)
    closing = asyncio.create_task(batcher.close())
    with pytest.raises(EmbedderError, match="closed"):
        await waiting
    await asyncio.sleep(0.05)
    assert not closing.done()
    embedder.go.release()
    with anyio.fail_after(1):
        await closing
    assert len(await busy) == 1
    for late in (batcher.embed(["c"]), batcher.run(lambda: None)):
        with pytest.raises(EmbedderError, match="closed"):
            await late


async def test_a_query_text_is_kept_once_remembered(service, tmp_path: Path) -> None:
    """A text that was a query before is kept with the memory that says it.

    Else its vector would be missed at the next start, and computed again.
    """
    await service.embed(["a word", "another"])
    await embed_and_keep(service, ["a word"])
    await service.close()

    again = EmbeddingService(FakeEmbedder(), VectorTable(tmp_path / "derived.mdb"))
    again.check_model(reindex=False)
    assert list(again.known([text_digest("a word"), text_digest("another")])) == [
        text_digest("a word")
    ]
    await again.close()


async def test_a_damaged_vector_counts_as_absent(tmp_path: Path) -> None:
    table = VectorTable(tmp_path / "derived.mdb")
    table.use_model("m")
    vectors = {
        bytes([n]) * 16: Embedded(np.array([127] * n + [n] * (8 - n), np.float32), None)
        for n in range(1, 4)
    }
    table.put(vectors)
    table.close()
    data = bytearray((tmp_path / "derived.mdb").read_bytes())
    written = bytes([127] * 2 + [2] * 6)
    at = data.rindex(written)
    while at >= 0:
        data[at + 3] ^= 1
        at = data.find(written, at + 1)
    (tmp_path / "derived.mdb").write_bytes(data)
    table = VectorTable(tmp_path / "derived.mdb")
    table.use_model("m")
    assert sorted(table.get(list(vectors), 8)) == [b"\x01" * 16, b"\x03" * 16]
    assert table.get([b"\x01" * 16], 9) == {}, "nor one of another dimension"
    table.close()


def test_a_row_written_while_a_matrix_is_read_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = VectorTable(tmp_path / "derived.mdb")
    table.put({b"d" * 16: Embedded(np.array([1, 0], np.float32), None)})
    stored = table._stored

    def written_behind(*args):
        found = stored(*args)
        table.flush()
        return found

    monkeypatch.setattr(table, "_stored", written_behind)
    _, there = table.matrix([b"d" * 16], 2)
    assert there.all()
    table.close()


def test_what_is_put_while_the_older_is_written_is_written_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, digest = VectorTable(tmp_path / "derived.mdb"), b"d" * 16
    old, new = (Embedded(np.array(one, np.float32), None) for one in ([1, 0], [0, 1]))
    table.put({digest: old})
    write = table._write

    def put_meanwhile(rows, count):
        write(rows, count)
        monkeypatch.undo()
        table.put({digest: new})

    monkeypatch.setattr(table, "_write", put_meanwhile)
    table.flush()
    table.close()
    table = VectorTable(tmp_path / "derived.mdb")
    assert table.get([digest], 2)[digest].vector.tolist() == [0, 1]
    table.close()


async def test_the_general_mean_is_computed_once_a_store(tmp_path: Path) -> None:
    class Plain(FakeEmbedder):
        background_mean = None

    for expected in (400, 0):
        embedder = Plain()
        service = EmbeddingService(embedder, VectorTable(tmp_path / "derived.mdb"))
        service.check_model(reindex=False)
        mean = await service.background_mean()
        assert mean.shape == (32,)
        assert len(embedder.texts) == expected
        await service.close()


async def test_a_query_that_is_asked_for_ever_is_written_once_it_is_a_memory(
    service: EmbeddingService, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memory_actors.search.embedding.embeddings.UNKEPT_MAX", 3)
    for n in range(5):
        await service.embed_query("likes tea")
        await service.embed([f"text {n}"])
    await embed_and_keep(service, ["likes tea"])
    service.disk.flush()
    assert set(on_disk(service, [text_digest("likes tea")])) == {text_digest("likes tea")}


async def test_the_file_of_embeddings_shrinks_when_much_has_gone(
    service: EmbeddingService, tmp_path: Path
) -> None:
    texts = [f"text {n}" for n in range(3_000)]
    await embed_and_keep(service, texts)
    service.disk.flush()
    before = (tmp_path / "derived.mdb").stat().st_size
    await service.forget([text_digest(text) for text in texts[1:]])
    await service.shrink()
    assert (tmp_path / "derived.mdb").stat().st_size < before / 5
    assert set(on_disk(service, [text_digest(texts[0])])) == {text_digest(texts[0])}
    await embed_and_keep(service, ["after it"])
    service.disk.flush()
    assert on_disk(service, [text_digest("after it")])


async def test_an_embedders_failure_is_logged_once_in_its_words(
    service: EmbeddingService,
) -> None:
    """The reason why an embedder is not ready is logged once, and in its own words."""
    causes = iter(["no route", "no route", "no room", None])

    def prepare() -> None:
        if (cause := next(causes)) is not None:
            raise EmbedderError(cause)

    service.embedder.prepare = prepare  # type: ignore[attr-defined]
    with structlog.testing.capture_logs() as lines:
        for _ in range(3):
            with pytest.raises(EmbedderError):
                await service.embed(["a text"])
        await service.embed(["a text"])

    assert [line["reason"] for line in lines] == ["no route", "no room"]
