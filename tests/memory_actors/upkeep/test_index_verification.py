"""Verification of what is derived: index files and vectors, against what users have."""

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
import numpy as np
import pytest

from bench.faults import example
from eventlog import Environment, Finding
from memory_actors import text_digest, verify_store
from memory_actors.base.interning import Names
from memory_actors.search.embedding.rows import MODEL_BYTES, PLACES, ROWS, TABLES
from memory_actors.search.indexes.files import read_whole, write_index

pytestmark = pytest.mark.anyio

Change = Callable[[bytes], bytes]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    async def fill() -> None:
        async with example.opened(path) as memory:
            await example.fill(memory)
            await example.at_rest(memory)

    path = tmp_path_factory.mktemp("filled") / "store"
    anyio.run(fill)
    return path


@pytest.fixture
def store(filled: Path, tmp_path: Path) -> Path:
    return shutil.copytree(filled, tmp_path / "store")


def findings(store: Path) -> list[Finding]:
    return verify_store(store).findings


def index_file(store: Path) -> Path:
    return min(store.glob("indexes/*.long_term.words"))


def change_row(store: Path, digest: bytes, change: Change) -> None:
    """Change what is stored of a text, and give it the checksum that it should have."""
    env = Environment(store / "derived.mdb", TABLES)
    with env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
        ((key, number),) = (one for one in cursor if one[0][MODEL_BYTES:] == digest)
        data = change(txn.get(number, db=txn.tables[ROWS])[4:])
    sealed = zlib.crc32(data, zlib.crc32(key)).to_bytes(4, "big") + data
    env.write(lambda txn: txn.put(number, sealed, db=txn.tables[ROWS]))
    env.close()


async def position_of(store: Path, user_id: str, memory_id: str) -> int:
    async with example.opened(store) as memory:
        return (await memory.user(user_id).history(memory_id))[-1].position


async def test_whole_files_of_every_kind_are_no_finding(store: Path) -> None:
    kinds = {path.name.split(".")[1] for path in store.glob("indexes/*.words")}

    assert kinds == {"long_term", "entity", "episodic", "structured"}
    assert findings(store) == []


async def test_a_file_older_than_the_state_is_fine(store: Path) -> None:
    old = {path: path.read_bytes() for path in store.glob("indexes/*")}
    async with example.opened(store, first_id=5_000) as memory:
        await memory.user("ada").add("what came later", memory_id="later")
        await memory.user("ada").delete("ada fact 2")
        await memory.user("ada").update("ada fact 3", content="it has changed")
    for path, data in old.items():
        path.write_bytes(data)

    assert findings(store) == []


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-3] + b"abc"])
async def test_a_damaged_index_is_found_and_made_anew(store: Path, damage: Change) -> None:
    path = index_file(store)
    path.write_bytes(damage(path.read_bytes()))

    (found,) = findings(store)
    assert found.stream == path.name.split(".")[0]
    assert "index of long_term is damaged" in found.message
    assert "made anew" in found.message

    async with example.opened(store) as memory:
        await example.at_rest(memory)
        for user_id in example.USERS:
            assert await memory.user(user_id).retrieve("fact that is known")
    assert findings(store) == []


async def test_words_that_are_not_those_of_the_text_are_found(store: Path) -> None:
    for path in store.glob("indexes/*.long_term.words"):
        file = read_whole(path)
        assert file is not None

        def other(word: str) -> str:
            return "nonsens" if word == "chang" else word

        words = msgspec.structs.replace(
            file.words, terms=Names.listed(map(other, Names.of_bytes(*file.words.terms))).saved()
        )
        assert words != file.words
        write_index(path, msgspec.structs.replace(file, words=words))

    found = findings(store)

    assert len(found) == 2
    assert all("other words than this memory" in each.message for each in found)
    expected = {await position_of(store, user, f"{user} fact 0") for user in example.USERS}
    assert {each.position for each in found} == expected


async def test_memories_that_a_user_never_had_are_found(store: Path) -> None:
    path = index_file(store)
    file = read_whole(path)
    assert file is not None
    labels = np.frombuffer(file.words.labels, np.int64).copy()
    labels[-1] = 1 << 40
    words = msgspec.structs.replace(file.words, labels=labels.tobytes())
    write_index(path, msgspec.structs.replace(file, words=words))

    (found,) = findings(store)

    assert "never had" in found.message


def of_zeros(data: bytes) -> bytes:
    dimension = int.from_bytes(data[:4], "little")
    return data[:4] + bytes(dimension) + data[4 + dimension :]


@pytest.mark.parametrize(
    ("change", "why"),
    [(of_zeros, "unit length"), (lambda data: data[:-1], "damaged")],
)
async def test_a_vector_that_cannot_be_is_found_with_its_memory(
    store: Path, change: Change, why: str
) -> None:
    text = "fact 4 "
    change_row(store, text_digest(text), change)

    found = findings(store)

    assert found
    assert all(why in each.message and "made anew" in each.message for each in found)
    assert found[0].position == await position_of(store, "ada", "ada fact 4")


async def test_an_embedding_that_fails_its_checksum_is_found(store: Path) -> None:
    path = store / "derived.mdb"
    env = Environment(path, TABLES)
    with env.read() as txn, txn.cursor(txn.tables[ROWS]) as cursor:
        key, value = next(iter(cursor))
    env.write(lambda txn: txn.put(key, value[:-1] + b"?", db=txn.tables[ROWS]))
    env.close()

    (found,) = findings(store)

    assert "a damaged embedding" in found.message
