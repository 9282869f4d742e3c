"""Embeddings of older stores: in two tables, brought into form as they are read."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from support.fakes import FakeEmbedder

from eventlog import Environment
from memory_actors import MemorySystem
from memory_actors.search.embedding.key_scopes import EVERYBODY, KeyScope, Owner
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.rows import (
    MODEL_BYTES,
    OLD_TOKENS,
    OLD_VECTORS,
    PLACES,
    ROWS,
    TABLES,
    damaged_rows,
)
from memory_actors.search.embedding.token_states import PLAIN, Codebook, states_of, unpack
from memory_actors.search.embedding.vector_table import FILE, VectorTable

pytestmark = pytest.mark.anyio
DIMENSION = 32
DIGESTS = [bytes([n]) * 16 for n in range(1, 5)]


class Mirrored(KeyScope):
    """Encrypts, as it were."""

    def row(self, digest: bytes) -> bytes:
        return digest[::-1][1:] + b"m"

    def written(self, data: bytes, place: bytes) -> bytes:
        return data[::-1] + place[:4]

    def read(self, data: bytes, place: bytes) -> bytes | None:
        return data[:-4][::-1] if data[-4:] == place[:4] else None


class Somebody(Owner):
    prefix = b"somebody"

    def scope(self) -> KeyScope | None:
        return Mirrored()

    def scope_to_write(self) -> KeyScope:
        return Mirrored()


def embedded(seed: int) -> Embedded:
    """What an embedder gives, as packed before."""
    rng = np.random.default_rng(seed)
    vector = rng.standard_normal(DIMENSION).astype(np.float32)
    codes = rng.integers(-40, 40, (3, 64)).astype(np.int8)
    tokens = struct.pack("<BBH", 1, 64, 3) + np.array([7, 8, seed], "<u2").tobytes()
    return Embedded(vector / np.linalg.norm(vector), tokens + codes.tobytes())


def write_older(path: Path, owner: Owner, model: bytes) -> None:
    """Write rows as they were written before."""
    env = Environment(path, TABLES)
    scope = owner.scope_to_write()

    def put(txn) -> None:
        for seed, digest in enumerate(DIGESTS):
            one, key = embedded(seed), model + scope.row(digest)
            data = {
                OLD_VECTORS: one.vector.astype(np.float16).tobytes(),
                OLD_TOKENS: one.tokens or b"",
            }
            for table, each in data.items():
                value = scope.written(each, table.encode() + key)
                sealed = struct.pack(">I", zlib.crc32(value)) + value
                txn.put(key, sealed, db=txn.tables[table])

    env.write(put)
    env.close()


def counts(path: Path) -> tuple[int, ...]:
    env = Environment(path, TABLES)
    with env.read() as txn:
        tables = (ROWS, OLD_VECTORS, OLD_TOKENS)
        found = tuple(txn.stat(txn.tables[name])["entries"] for name in tables)
    env.close()
    return found


def opened(path: Path) -> VectorTable:
    table = VectorTable(path)
    table.use_model("m")
    return table


def model_of(path: Path) -> bytes:
    table = opened(path)
    table.close()
    return table._model


@pytest.fixture(params=[EVERYBODY, Somebody()], ids=["in the clear", "encrypted"])
def owner(request: pytest.FixtureRequest, tmp_path: Path) -> Owner:
    write_older(tmp_path / FILE, request.param, model_of(tmp_path / FILE))
    return request.param


def make_older(path: Path) -> None:
    """Turn the rows of a store into what older ones have."""
    env = Environment(path, TABLES)
    with env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
        rows = [(key, number, txn.get(number, db=txn.tables[ROWS])[4:]) for key, number in cursor]

    def put(txn) -> None:
        for key, number, row in rows:
            head = 4 + int.from_bytes(row[:4], "little")
            codes = np.frombuffer(row[4:head], np.int8).astype(np.float32)
            data = {OLD_VECTORS: (codes / np.linalg.norm(codes)).astype(np.float16).tobytes()}
            if len(row) > head:
                ids = unpack(row[head:]).token_ids
                states = states_of(row[head:], PLAIN)
                old = struct.pack("<BBH", 1, 64, len(ids)) + ids.tobytes() + states.tobytes()
                data[OLD_TOKENS] = old
            for table, each in data.items():
                sealed = struct.pack(">I", zlib.crc32(each)) + each
                txn.put(key, sealed, db=txn.tables[table])
            txn.delete(key, db=txn.tables[PLACES])
            txn.delete(number, db=txn.tables[ROWS])

    env.write(put)
    env.close()
    assert len(rows[0][0]) == MODEL_BYTES + 16


def check(found: dict[bytes, Embedded]) -> None:
    assert list(found) == DIGESTS
    for seed, one in enumerate(found.values()):
        assert float(one.vector @ embedded(seed).vector) > 0.999
        assert unpack(one.tokens or b"").token_ids.tolist() == [7, 8, seed]


def test_older_rows_are_read_and_written_anew(tmp_path: Path, owner: Owner) -> None:
    assert counts(tmp_path / FILE) == (0, 4, 4)
    table = opened(tmp_path / FILE)
    first = table.get(DIGESTS, DIMENSION, owner)
    check(first)
    assert table.get(DIGESTS[:1], DIMENSION + 1, owner) == {}
    table.close()
    assert counts(tmp_path / FILE) == (4, 0, 0)
    table = opened(tmp_path / FILE)
    again = table.get(DIGESTS, DIMENSION, owner)
    check(again)
    for digest in DIGESTS:
        assert np.array_equal(first[digest].vector, again[digest].vector)
        assert first[digest].tokens == again[digest].tokens
    table.close()


def test_a_process_that_ends_before_it_wrote_loses_nothing(tmp_path: Path, owner: Owner) -> None:
    table = opened(tmp_path / FILE)
    check(table.get(DIGESTS, DIMENSION, owner))
    table._env.close()  # as a kill does
    assert counts(tmp_path / FILE) == (0, 4, 4)
    table = opened(tmp_path / FILE)
    check(table.get(DIGESTS, DIMENSION, owner))
    table.close()


@pytest.mark.parametrize("how", ["erase", "delete"])
def test_what_is_erased_after_it_was_read_is_not_written(
    tmp_path: Path, owner: Owner, how: str
) -> None:
    table = opened(tmp_path / FILE)
    check(table.get(DIGESTS, DIMENSION, owner))
    if how == "erase":
        assert table.erase(set(DIGESTS[:2]), owner) == 2
    else:
        table.delete(DIGESTS[:2], owner)
    table.get(DIGESTS, DIMENSION, owner)
    table.close()
    assert counts(tmp_path / FILE) == (2, 0, 0)


def test_what_is_read_of_an_erased_user_makes_no_key(tmp_path: Path) -> None:
    """A thread may read rows until the key has gone, and they are written behind that."""

    class Leaving(Somebody):
        has_key = True

        def scope(self) -> KeyScope | None:
            return Mirrored() if self.has_key else None

        def scope_to_write(self) -> KeyScope:
            assert self.has_key
            return Mirrored()

    owner = Leaving()
    write_older(tmp_path / FILE, owner, model_of(tmp_path / FILE))
    table = opened(tmp_path / FILE)
    check(table.get(DIGESTS, DIMENSION, owner))
    owner.has_key = False
    table.close()
    assert counts(tmp_path / FILE) == (0, 4, 4)


def test_without_a_codebook_vectors_alone_are_read_and_rows_stay(
    tmp_path: Path, owner: Owner
) -> None:
    """Whoever reads on the loop must not load a model, nor install one for each row."""
    table = VectorTable(tmp_path / FILE)
    codebooks: list[Codebook | None] = [None]
    table.use_model("m", lambda: codebooks[-1])
    _, there = table.matrix(DIGESTS, DIMENSION, owner)
    assert there.all()
    found = table.get(DIGESTS, DIMENSION, owner)
    assert [one.tokens for one in found.values()] == [None] * 4
    table.flush()
    codebooks.append(PLAIN)
    check(table.get(DIGESTS, DIMENSION, owner))
    codebooks.append(None)
    table.close()
    assert counts(tmp_path / FILE) == (0, 4, 4)


def test_damaged_older_rows_are_named(tmp_path: Path) -> None:
    model = model_of(tmp_path / FILE)
    write_older(tmp_path / FILE, EVERYBODY, model)
    assert damaged_rows(tmp_path / FILE, encrypted=False) == {}
    env = Environment(tmp_path / FILE, TABLES)
    env.write(lambda txn: txn.put(model + DIGESTS[0], b"junk", db=txn.tables[OLD_TOKENS]))
    env.write(lambda txn: txn.put(model + DIGESTS[1], b"junk", db=txn.tables[OLD_VECTORS]))
    env.close()
    assert sorted(damaged_rows(tmp_path / FILE, encrypted=False)) == DIGESTS[:2]


async def test_an_older_store_answers_without_the_model(tmp_path: Path) -> None:
    """Nothing is embedded but the query."""
    words = [f"word{n} place{n % 7}" for n in range(40)]
    async with MemorySystem.open(tmp_path / "m", embedder=FakeEmbedder(), share=False) as memory:
        for word in words:
            await memory.user("u").add(word)
        before = await memory.user("u").retrieve("word3 place5", top_k=5)
    make_older(tmp_path / "m" / FILE)
    embedder = FakeEmbedder()
    async with MemorySystem.open(tmp_path / "m", embedder=embedder, share=False) as memory:
        after = await memory.user("u").retrieve("word3 place5", top_k=5)
        computed = memory.statistics().embeddings.computed
    assert [hit.content for hit in after] == [hit.content for hit in before]
    assert computed == 1
    assert counts(tmp_path / "m" / FILE)[1:] == (0, 0)
