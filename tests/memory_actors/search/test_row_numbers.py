"""Numbers of rows in an index file: quicker than digests, and never a reason for a wrong answer."""

import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from support.fakes import FakeTokenEmbedder

from eventlog import CorruptLog, Environment
from memory_actors import Embedded, Item, MemorySystem
from memory_actors.base.compressing import compressed, narrowed, widened
from memory_actors.kinds import long_term
from memory_actors.search.embedding.rows import EVERYBODY, PLACES, ROWS, TABLES, Owner, owner_of
from memory_actors.search.embedding.vector_table import VectorTable
from memory_actors.search.indexes import memory_index
from memory_actors.search.indexes.files import IndexFile, read_whole, write_index

pytestmark = pytest.mark.anyio

DIMENSION, COUNT = 16, 50
PAGE_BYTES = 4096
DIGESTS = [bytes([n]) * 16 for n in range(COUNT)]
QUERY = "what grows in the garden?"


# --- the table


def embedded(number: int) -> Embedded:
    vector = np.random.default_rng(number).standard_normal(DIMENSION).astype(np.float32)
    return Embedded(vector / np.linalg.norm(vector), b"tokens of %d" % number)


@pytest.fixture(params=[EVERYBODY, owner_of(None, "user:ada", apart=True)], ids=["all", "one"])
def owner(request: pytest.FixtureRequest) -> Owner:
    return request.param


@pytest.fixture
def table(tmp_path: Path, owner: Owner) -> Iterator[VectorTable]:
    table = VectorTable(tmp_path / "derived.mdb")
    table.use_model("m")
    fill(table, owner)
    yield table
    table.close()


def fill(table: VectorTable, owner: Owner, numbers: Any = range(COUNT)) -> None:
    for number in numbers:
        table.put({DIGESTS[number]: embedded(number)}, owner)
        table.flush()


def no_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail from here on where a row is looked up by its digest."""

    def refused(*_: Any) -> Any:
        raise AssertionError("a row was looked up by its digest")

    monkeypatch.setattr(VectorTable, "_stored", refused)


def test_a_table_that_cannot_be_opened_leaves_its_file_to_others(tmp_path: Path) -> None:
    """A table whose identity lies in a damaged page, which is not looked for, is not locked."""
    path = tmp_path / "derived.mdb"
    VectorTable(path).close()
    data = bytearray(path.read_bytes())
    page = data.find(b"identity") // PAGE_BYTES * PAGE_BYTES
    data[page + 10 : page + 16] = b"\xff" * 6
    path.write_bytes(data)
    with pytest.raises(CorruptLog):
        VectorTable(path, checked_bytes_max=0)
    with pytest.raises(CorruptLog):  # and not that it is locked
        VectorTable(path, checked_bytes_max=0)


# --- the file of an index


@pytest.fixture
def embedder() -> FakeTokenEmbedder:
    return FakeTokenEmbedder()


@pytest.fixture(params=[False, True], ids=["plain", "encrypted"])
async def store(request: pytest.FixtureRequest, open_memory: Any, tmp_path: Path) -> Any:
    """Fill a store; return what opens it."""

    def opened() -> Any:
        return open_memory(encrypt=request.param, supersedes=False)

    async with opened() as memory:
        user = memory.user("ada")
        texts = [f"{n % 7} trees of sort {n} grow" for n in range(COUNT)]
        await user.add_many([Item(content=text) for text in texts])
    return opened


async def answer(memory: MemorySystem) -> list[tuple[str, float]]:
    hits = await memory.user("ada").retrieve(QUERY, top_k=20)
    return [(hit.memory_id, hit.score) for hit in hits]


def changed_file(tmp_path: Path, **fields: Any) -> IndexFile:
    """Give the file of the index other fields; return what was in it."""
    (path,) = (tmp_path / "memory" / "indexes").glob("*.long_term.words")
    file = read_whole(path)
    assert file is not None
    write_index(path, msgspec.structs.replace(file, **fields))
    return file


async def test_an_activation_looks_no_embedding_up_by_its_digest(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store() as memory:
        before = await answer(memory)
    no_digests(monkeypatch)
    async with store() as memory:
        assert await answer(memory) == before


async def test_token_states_are_held_some_time_after_an_activation(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with store() as memory:
        before = await answer(memory)
    monkeypatch.setattr(memory_index, "HELD_AFTER_S", 0)
    async with store() as memory, memory._services.runtime.use("user:ada") as live:
        index = live.indexes.get(long_term.KIND)
        await live._tasks.running("token states long_term")
        assert not len(index.late.unheld)
        index.late._fetch = None
        assert await answer(memory) == before


async def test_a_table_that_is_written_in_another_order_changes_no_answer(
    store: Any, embedder: FakeTokenEmbedder, tmp_path: Path
) -> None:
    """Not even where it says that it is the same one."""
    async with store() as memory:
        before = await answer(memory)
    reverse_rows(tmp_path / "memory" / "derived.mdb")
    embedder.texts.clear()
    async with store() as memory:
        assert await answer(memory) == before
        await memory.user("ada").add("an apple tree, too")
    assert QUERY in embedder.texts
    assert not any("of sort" in text for text in embedder.texts)


def reverse_rows(path: Path) -> None:
    """Let the first row be the last."""
    env = Environment(path, TABLES)

    def put(txn: Any) -> None:
        places, rows = txn.tables[PLACES], txn.tables[ROWS]
        numbers = [number for number, _ in txn.cursor(rows)]
        other = dict(zip(numbers, reversed(numbers), strict=True))
        values = {number: txn.get(number, db=rows) for number in numbers}
        for key, number in list(txn.cursor(places)):
            txn.put(key, other[number], db=places)
            txn.put(other[number], values[number], db=rows)

    env.write(put)
    env.close()


@pytest.mark.parametrize("store", [False], indirect=True)
async def test_damaged_numbers_in_a_file_change_no_answer(store: Any, tmp_path: Path) -> None:
    async with store() as memory:
        before = await answer(memory)
    file = changed_file(tmp_path)
    numbers = widened(file.numbers, np.uint32)
    assert len(numbers) == COUNT
    changed_file(tmp_path, numbers=narrowed(numbers + 3 * (np.arange(COUNT) >= COUNT // 2)))
    async with store() as memory:
        assert await answer(memory) == before
        await memory.user("ada").add("an apple tree, too")
    again = widened(changed_file(tmp_path).numbers, np.uint32)
    assert again.tolist()[:COUNT] == numbers.tolist(), "mended"


@pytest.mark.parametrize("store", [False], indirect=True)
@pytest.mark.parametrize("numbers", [b"", b"123", bytes(4 * COUNT - 4), bytes(4 * COUNT + 4)])
async def test_numbers_that_do_not_fit_the_rows_are_an_index_to_be_made_anew(
    store: Any, tmp_path: Path, numbers: bytes
) -> None:
    async with store() as memory:
        before = await answer(memory)
    changed_file(tmp_path, numbers=numbers)
    async with store() as memory:
        assert sorted(await answer(memory)) == sorted(before)


@pytest.mark.parametrize("store", [False], indirect=True)
async def test_a_file_of_another_table_is_read_by_digests(store: Any, tmp_path: Path) -> None:
    """As one is that another node has written: its numbers are not even looked at."""
    async with store() as memory:
        before = await answer(memory)
    mine = changed_file(tmp_path, table=b"of another node!", numbers=b"whatever it is")
    async with store() as memory:
        assert await answer(memory) == before
        await memory.user("ada").add("an apple tree, too")
    assert changed_file(tmp_path).table == mine.table


@pytest.mark.parametrize("store", [False], indirect=True)
async def test_a_file_of_an_older_version_is_read(
    store: Any, embedder: FakeTokenEmbedder, tmp_path: Path
) -> None:
    """It has no numbers, and is compressed in one piece. It is written anew."""
    async with store() as memory:
        before = await answer(memory)
    file = changed_file(tmp_path)
    newer = {"numbers", "chain", "codes_crc"}
    fields = {name: getattr(file, name) for name in file.__struct_fields__ if name not in newer}
    data = compressed(msgspec.msgpack.encode(fields))
    (path,) = (tmp_path / "memory" / "indexes").glob("*.long_term.words")
    path.write_bytes(zlib.crc32(data).to_bytes(4, "big") + data)
    embedder.texts.clear()
    async with store() as memory:
        assert await answer(memory) == before
        assert embedder.texts == [QUERY]
    again = changed_file(tmp_path)
    assert again.table == file.table
    assert widened(again.numbers, np.uint32).all()
