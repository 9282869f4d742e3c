"""Derived data beside the log: another node, with an empty directory, embeds nothing again."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fakes import FakeClock, FakeTokenEmbedder
from support.in_memory_log import InMemoryLog

from eventlog import EventStore, LogUnavailable
from memory_actors import Embedded, Item, Settings
from memory_actors.api.parts import StoreParts
from memory_actors.api.system import MemorySystem
from memory_actors.api.wiring import wired
from memory_actors.base.streams import stream_of
from memory_actors.kinds import long_term
from memory_actors.search.embedding import shared as sharing
from memory_actors.search.embedding.shared import SharedDerived
from memory_actors.search.embedding.vector_table import VectorTable
from memory_actors.upkeep.store import event_registry

pytestmark = pytest.mark.anyio

ADA = stream_of("ada")
QUERY = "blue boats"
COLOURS = ("red", "green", "blue", "white", "black", "yellow", "brown")
THINGS = ("tea", "boats", "hats", "dogs", "songs", "trains", "apples", "stones", "films", "maps")


class OnlyQueries(FakeTokenEmbedder):
    """Fails on anything but queries."""

    def embed(self, texts: Any) -> Any:
        assert set(texts) == {QUERY}, "a text was embedded again"
        return super().embed(texts)


class Meanless(FakeTokenEmbedder):
    """Has no mean of general text: it is computed by embedding some."""

    background_mean = None


class MeanlessOnlyQueries(OnlyQueries, Meanless):
    pass


class Faulty(InMemoryLog):
    """Saves derived data when it is let; fails as often as it is told."""

    def __init__(self, *args: Any, **more: Any):
        super().__init__(*args, **more)
        self.gate = asyncio.Event()
        self.gate.set()
        self.came = asyncio.Event()
        self.failures = 0

    async def save_derived(self, stream: str, pieces: Any, *, epoch: int) -> bool:
        self.came.set()
        await self.gate.wait()
        if self.failures:
            self.failures -= 1
            raise LogUnavailable("away")
        return await super().save_derived(stream, pieces, epoch=epoch)


@pytest.fixture
async def log() -> Faulty:
    return Faulty(event_registry(), clock=FakeClock())


@asynccontextmanager
async def node(
    place: Any, directory: Path, embedder: FakeTokenEmbedder, **chosen: Any
) -> AsyncIterator[MemorySystem]:
    """Open a system with a directory of its own, over a database or log that others have too."""

    @asynccontextmanager
    async def open_log(_directory, keys, clock, _settings) -> AsyncIterator[EventStore]:
        if isinstance(place, InMemoryLog):
            yield place
            return
        from eventlog import PgEventStore

        async with PgEventStore.open(place, event_registry(), clock=clock, keys=keys) as log:
            yield log

    parts = StoreParts(
        settings=Settings(check_replay=True, latency_targets_ms={}),
        embedder=embedder,
        supersedes=False,
        clock=FakeClock(),
        **chosen,
    )
    directory.mkdir(exist_ok=True)
    async with AsyncExitStack() as stack:
        made = await wired(directory, parts, stack, ExitStack(), open_log)
        yield MemorySystem(made, AsyncExitStack())


def items(count: int, start: int = 0) -> list[Item]:
    kinds = [f"{colour} {thing}" for colour in COLOURS for thing in THINGS]
    return [
        Item(content=f"Ada likes {kinds[n % len(kinds)]} number {n}")
        for n in range(start, start + count)
    ]


def found(hits: Any) -> list[tuple[str, float]]:
    return [(hit.memory_id, hit.score) for hit in hits]


async def answers(place: Any, directory: Path, embedder: Any, **chosen: Any) -> Any:
    """Return what a node answers, and that it embedded the query alone."""
    async with node(place, directory, embedder, **chosen) as memory:
        hits = await memory.user("ada").retrieve(QUERY, top_k=20)
    assert embedder.texts == [QUERY]
    return found(hits)


async def written(
    place: Any, directory: Path, count: int, embedder: Any = None, **more: Any
) -> Any:
    """Write memories through a node, and return what it answers."""
    async with node(place, directory, embedder or FakeTokenEmbedder(), **more) as memory:
        await memory.user("ada").add_many(items(count))
        return found(await memory.user("ada").retrieve(QUERY, top_k=20))


# --- from node to node


async def test_another_node_answers_the_same_and_embeds_the_query_alone(url: str, tmp_path: Path):
    """What was written by one is found by another that has nothing on its disk."""
    before = await written(url, tmp_path / "one", 300)

    after = await answers(url, tmp_path / "other", OnlyQueries())

    assert len(after) == 20
    assert after == before


async def test_an_encrypted_store_shares_what_nobody_else_can_read(url: str, tmp_path: Path):
    """Nodes with the same keys share derived data, which is encrypted in the database."""
    from eventlog import PgEventStore
    from eventlog.keys import keyfile

    key_file = tmp_path / "keys"
    before = await written(url, tmp_path / "one", 40, encrypt=key_file)
    async with (
        asyncio.timeout(10),
        _keys(keyfile, key_file) as keys,
        PgEventStore.open(url, event_registry(), keys=keys) as store,
    ):
        pieces = await store.load_derived(ADA)
    assert len(pieces) == 40 + 2
    assert not any(b"tea" in piece or b"long_term" in piece for piece in pieces.values())

    assert await answers(url, tmp_path / "other", OnlyQueries(), encrypt=key_file) == before


@asynccontextmanager
async def _keys(keyfile: Any, path: Path) -> AsyncIterator[Any]:
    with keyfile.opened(path) as keys:
        yield keys


async def test_a_node_that_comes_back_finds_what_others_wrote_meanwhile(
    log: Faulty, tmp_path: Path
):
    """Older files of a node are replaced, and embeddings that it has not are fetched."""
    await written(log, tmp_path / "one", 40)
    async with node(log, tmp_path / "other", FakeTokenEmbedder()) as memory:
        await memory.user("ada").add_many(items(40, 40))
        before = found(await memory.user("ada").retrieve(QUERY, top_k=20))

    assert await answers(log, tmp_path / "one", OnlyQueries()) == before


async def test_a_node_finds_embeddings_by_the_numbers_of_its_own_table(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Those in a file of another node say nothing here; in the next one are its own."""
    await written(log, tmp_path / "one", 40)
    async with node(log, tmp_path / "other", FakeTokenEmbedder()) as memory:
        await memory.user("ada").add_many(items(40, 40))
        before = found(await memory.user("ada").retrieve(QUERY, top_k=20))
    monkeypatch.delattr(VectorTable, "_stored")

    assert await answers(log, tmp_path / "other", OnlyQueries()) == before


@pytest.mark.parametrize("lost", ["derived.mdb", "indexes"])
async def test_local_files_may_be_deleted(log: Faulty, tmp_path: Path, lost: str):
    before = await written(log, tmp_path / "one", 40)
    path = tmp_path / "one" / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()

    assert await answers(log, tmp_path / "one", OnlyQueries()) == before


async def test_what_is_damaged_in_the_database_is_made_again(log: Faulty, tmp_path: Path):
    before = await written(log, tmp_path / "one", 40)
    pieces = await log.load_derived(ADA)
    await log.save_derived(ADA, {name: b"?" + piece for name, piece in pieces.items()}, epoch=0)

    embedder = FakeTokenEmbedder()
    async with node(log, tmp_path / "other", embedder) as memory:
        hits = await memory.user("ada").retrieve(QUERY, top_k=20)

    assert sorted(found(hits)) == sorted(before)
    assert len(embedder.texts) == 41


async def test_what_a_crash_kept_from_the_database_comes_with_the_next_activation(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """What a node has on its disk, and the database has not, is saved when it is indexed again."""
    monkeypatch.setattr(sharing, "LEAVE_S", 0.01)
    log.failures = 1000
    await written(log, tmp_path / "one", 40)
    shutil.rmtree(tmp_path / "one" / "indexes")
    log.failures = 0
    monkeypatch.undo()  # from here on closing waits for what is saved

    before = await answers(log, tmp_path / "one", OnlyQueries())

    assert await answers(log, tmp_path / "other", OnlyQueries()) == before


async def test_the_mean_of_a_model_is_computed_by_one_node(log: Faulty, tmp_path: Path):
    before = await written(log, tmp_path / "one", 40, Meanless())

    assert await answers(log, tmp_path / "other", MeanlessOnlyQueries()) == before


async def test_the_past_is_not_embedded_again(log: Faulty, tmp_path: Path):
    """A replay on another node takes embeddings of memories that are gone from beside the log."""
    async with node(log, tmp_path / "one", FakeTokenEmbedder()) as memory:
        user = memory.user("ada")
        receipts = await user.add_many(items(40))
        position = memory.statistics().log.last_position
        for receipt in receipts[:20]:
            await user.delete(receipt.memory_id)

    embedder = OnlyQueries()
    async with (
        node(log, tmp_path / "other", embedder) as memory,
        memory.replay("ada", position) as past,
    ):
        assert len(await past.retrieve(QUERY, top_k=40)) == 40
    assert embedder.texts == [QUERY]


async def test_what_is_forgotten_is_forgotten_beside_the_log_too(log: Faulty, tmp_path: Path):
    async with node(log, tmp_path / "one", FakeTokenEmbedder()) as memory:
        await memory.user("ada").add_many(items(40))
        async with memory._services.runtime.use(ADA) as live:
            digests = live.indexes.get(long_term.KIND).traits.digests()
            await live.embeddings.forget(digests[:10])

    assert sum(name.startswith(b"e") for name in await log.load_derived(ADA)) == 30


# --- erased, fenced, away


async def test_an_erased_user_leaves_nothing_and_nothing_comes_later(log: Faulty, tmp_path: Path):
    """What waits to be saved, or is under way, never lands once a user is erased."""
    async with node(log, tmp_path / "one", FakeTokenEmbedder()) as memory:
        await memory.user("bob").add("Bob likes tea", "long_term")
        await _settled(log, stream_of("bob"))
        log.gate.clear()
        log.came.clear()
        await memory.user("ada").add_many(items(40))
        await log.came.wait()
        await memory.user("ada").add_many(items(40, 40))

        with anyio.fail_after(5):
            assert (await memory.erase("ada")).embeddings == 80
        log.gate.set()
        await asyncio.sleep(2 * sharing.SAVE_BEHIND_S)

        assert await log.load_derived(ADA) == {}
        assert len(await log.load_derived(stream_of("bob"))) == 1
        await memory.user("ada").add("Ada begins again", "long_term")
        await _settled(log, ADA)
        assert len(await log.load_derived(ADA)) == 1
    assert not list((tmp_path / "one" / "indexes").glob("*.partial"))


async def test_an_owner_that_was_fenced_saves_nothing_more(log: Faulty, tmp_path: Path):
    await written(log, tmp_path / "one", 40)
    before = await log.load_derived(ADA)
    shared = SharedDerived(log, ADA, _sealed)
    shared.own(0)
    await log.acquire(ADA, 1)

    shared.put({b"d": _embedded()})
    await shared.save_file("index", 7, b"data")
    await shared.leave()

    assert await log.load_derived(ADA) == before


async def test_what_cannot_be_saved_is_tried_again(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """While the database is away adds go on, and what was embedded is there when it is back."""
    monkeypatch.setattr(sharing, "RETRY_S", 0.01)
    log.failures = 5

    before = await written(log, tmp_path / "one", 40)

    assert log.failures == 0
    assert await answers(log, tmp_path / "other", OnlyQueries()) == before


async def test_a_user_is_put_away_though_the_database_is_away(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sharing, "LEAVE_S", 0.05)
    log.failures = 1000

    with anyio.fail_after(5):
        await written(log, tmp_path / "one", 40)

    assert await log.load_derived(ADA) == {}


async def test_what_waits_is_bounded(log: Faulty, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(sharing, "WAITING_MAX", 10)
    await written(log, tmp_path / "one", 1)
    shared = SharedDerived(log, ADA, _sealed)
    shared.own(0)

    for n in range(8):
        shared.put({b"%d %d" % (n, m): _embedded() for m in range(3)})
    await shared.leave()

    assert len([name for name in await log.load_derived(ADA) if b" " in name]) == 10


async def test_who_does_not_own_a_user_saves_nothing(log: Faulty, tmp_path: Path):
    await written(log, tmp_path / "one", 1)
    before = await log.load_derived(ADA)
    shared = SharedDerived(log, ADA, _sealed)

    shared.put({b"d": _embedded()})
    await shared.save_file("index", 7, b"data")
    await shared.leave()

    assert await log.load_derived(ADA) == before


async def test_what_is_deleted_behind_an_embedding_stays_so(log: Faulty, tmp_path: Path):
    await written(log, tmp_path / "one", 1)
    shared = SharedDerived(log, ADA, _sealed)
    shared.own(0)

    shared.put({b"a": _embedded(), b"b": _embedded()})
    shared.put({b"a": None})
    await shared.leave()

    assert {b"a", b"b"} & {name[1:] for name in await log.load_derived(ADA)} == {b"b"}


# --- files


async def test_a_large_file_comes_back_whole(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A file of several chunks replaces the one before it at once, and leaves nothing behind."""
    monkeypatch.setattr(sharing, "CHUNK_BYTES", 10)
    await written(log, tmp_path / "one", 1)
    shared = SharedDerived(log, ADA, _sealed)
    shared.own(0)

    for version, data in enumerate([b"a" * 35, b"b" * 10, b"c" * 11, b"d" * 30]):
        await shared.save_file("index", version, data)

        head = await shared.file_head("index")
        assert head is not None
        assert head.version == version
        assert await shared.file("index", head) == data
        chunks = -(-len(data) // 10)
        assert sum(b"index" in name for name in await log.load_derived(ADA)) == 1 + chunks


async def test_a_file_whose_saving_was_cut_off_is_the_one_before(
    log: Faulty, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(sharing, "CHUNK_BYTES", 10)
    await written(log, tmp_path / "one", 1)
    shared = SharedDerived(log, ADA, _sealed)
    shared.own(0)
    await shared.save_file("index", 1, b"a" * 35)
    save, calls = log.save_derived, []

    async def twice(*args: Any, **more: Any) -> bool:
        calls.append(args)
        if len(calls) > 2:
            raise LogUnavailable("away")
        return await save(*args, **more)

    monkeypatch.setattr(log, "save_derived", twice)
    await shared.save_file("index", 2, b"b" * 45)

    head = await shared.file_head("index")
    assert head is not None
    assert (head.version, await shared.file("index", head)) == (1, b"a" * 35)


def _sealed(embedded: Any) -> Any:
    return {digest: None if one is None else b"sealed" for digest, one in embedded.items()}


def _embedded() -> Embedded:
    return FakeTokenEmbedder().encode(["a text"])[0]


async def _settled(log: Faulty, stream: str) -> None:
    with anyio.fail_after(5):
        while not await log.load_derived(stream):
            await asyncio.sleep(0.01)
