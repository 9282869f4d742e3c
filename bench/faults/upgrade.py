"""A store of the older form is killed at random moments while it is opened, read and written.

Its embeddings lie in two tables, and are brought into form as they are read (see vector_table.py).
Each round opens it in a process of its own, asks and adds, and is killed at a random moment. Then
each embedding that there was must be there in either form, with the bytes that a store gives that
nobody killed; each memory that was acknowledged must be found; the log must verify, and the state
be a replay's. A store that is in form gives way to an older one again.
"""

import asyncio
import json
import os
import random
import shutil
import struct
import time
import zlib
from functools import partial
from pathlib import Path

import numpy as np

from bench.faults.row import Counts, Row
from bench.faults.trials import in_child, in_loop
from bench.hashed import HashedTokens
from bench.opened import UNLIMITED_BYTES, opened, services_of
from eventlog import Environment
from eventlog.lmdb.file import Transaction
from memory_actors import Item, Limits
from memory_actors.search.embedding.protocol import Embedded
from memory_actors.search.embedding.rows import (
    MODEL_BYTES,
    OLD_TOKENS,
    OLD_VECTORS,
    PLACES,
    ROWS,
    TABLES,
)
from memory_actors.search.embedding.token_states import PLAIN, states_of, unpack
from memory_actors.search.embedding.vector_table import FILE, VectorTable

KILLS = {"quick": 6, "middle": 50, "full": 200}
USER = "ada"
MEMORIES = 250
ADDED_MAX = 100_000
LIMITS = Limits(long_term_memories=ADDED_MAX, long_term_bytes=UNLIMITED_BYTES)
QUESTIONS = 3
CHECK_S_MAX = 120.0
OLDER, STORE, COPY, FACTS, SAID = "older", "store", "copy", "facts.json", "acknowledged"


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Kill processes that bring a store into form, and see what is lost."""
    row, rng = Row(fault="kill -9 while an older store is brought into form"), random.Random(seed)
    ended = in_loop(partial(_prepare, scratch), CHECK_S_MAX)
    if ended.kind != "survived":
        row.fail(ended.kind, f"no store to begin with: {ended.detail}")
        return row
    _begin(scratch)
    started_s = time.monotonic()
    in_child(partial(_use, scratch, "measured", QUESTIONS), CHECK_S_MAX)
    life_s = time.monotonic() - started_s
    _begin(scratch)
    for number in range(KILLS[counts]):
        in_child(partial(_use, scratch, f"round {number}", ADDED_MAX), rng.uniform(0, 1.5 * life_s))
        ended = in_child(partial(_check, scratch), CHECK_S_MAX)
        if ended.kind != "survived":
            row.fail(ended.kind, ended.detail, lost=ended.kind == "lost")
            _begin(scratch)
            continue
        row.survive(f"killed with {_share(int(ended.detail))} in form")
        if ended.detail == "0":
            _begin(scratch)
    row.count("memories of the older store", MEMORIES)
    return row


def _share(left: int) -> str:
    return "none" if left == MEMORIES else "some" if left else "all"


def _begin(scratch: Path) -> None:
    """Put the older store in the place of the one that was in use."""
    shutil.rmtree(scratch / STORE, ignore_errors=True)
    shutil.copytree(scratch / OLDER, scratch / STORE)
    (scratch / SAID).write_bytes(b"")


# --- the older store


async def _prepare(scratch: Path) -> tuple[str, str]:
    store = scratch / OLDER
    async with opened(store, HashedTokens(), LIMITS) as memory:
        items = [Item(content=f"note {n} of what was said then") for n in range(MEMORIES)]
        await memory.user(USER).add_many(items)
        recipe = services_of(memory).embeddings.recipe
    shutil.rmtree(store / "indexes", ignore_errors=True)  # those of older stores fit no more
    digests = make_older(store / FILE, recipe)
    (scratch / FACTS).write_text(json.dumps({"recipe": recipe, "digests": digests}))
    assert len(digests) == MEMORIES
    return "survived", ""


def make_older(path: Path, recipe: str) -> list[str]:
    """Put the rows of a table of embeddings into the two tables of older stores."""
    env = Environment(path, TABLES)
    with env.read() as txn, txn.cursor(txn.tables[PLACES]) as cursor:
        places = [(bytes(key), bytes(number)) for key, number in cursor]
    env.close()
    found = read(path, recipe, [key[MODEL_BYTES:] for key, _ in places])
    env = Environment(path, TABLES)

    def put(txn: Transaction) -> None:
        for key, number in places:
            one = found[key[MODEL_BYTES:]]
            vector = one.vector.astype(np.float16).tobytes()
            for table, data in ((OLD_VECTORS, vector), (OLD_TOKENS, _older_states(one))):
                txn.put(key, struct.pack(">I", zlib.crc32(data)) + data, db=txn.tables[table])
            txn.delete(key, db=txn.tables[PLACES])
            txn.delete(number, db=txn.tables[ROWS])

    env.write(put)
    env.close()
    return [key[MODEL_BYTES:].hex() for key, _ in places]


def read(path: Path, recipe: str, digests: list[bytes]) -> dict[bytes, Embedded]:
    """Return the embeddings of a file, by digest. Of a copy: reading brings them into form."""
    copy = path.with_suffix(".read")
    shutil.copyfile(path, copy)
    table = VectorTable(copy)
    table.use_model(recipe)
    found = table.get(digests, HashedTokens().dimension)
    table.close()
    for file in path.parent.glob(f"{copy.name}*"):
        file.unlink()
    return found


def _older_states(one: Embedded) -> bytes:
    """Return token states as version 1 had them: the ids, then the states as int8."""
    assert one.tokens is not None
    ids, states = unpack(one.tokens).token_ids, states_of(one.tokens, PLAIN)
    head = struct.pack("<BBH", 1, PLAIN.dimensions, len(ids))
    return head + ids.astype("<u2").tobytes() + states[:, : PLAIN.dimensions].tobytes()


# --- a life, and what is looked at afterwards


def _use(scratch: Path, name: str, calls: int) -> tuple[str, str]:
    asyncio.run(_live(scratch, name, calls))
    return "survived", ""


async def _live(scratch: Path, name: str, calls: int) -> None:
    said = os.open(scratch / SAID, os.O_WRONLY | os.O_APPEND)
    async with opened(scratch / STORE, HashedTokens(), LIMITS) as memory:
        user = memory.user(USER)
        for n in range(calls):
            await user.retrieve(f"what was note {n}")
            content = f"{name}: {n}"
            await user.add(content)
            os.write(said, f"{content}\n".encode())


def _check(scratch: Path) -> tuple[str, str]:
    missing, left = _embeddings(scratch)
    if missing:
        return "lost", f"{missing} embeddings"
    return asyncio.run(_memories(scratch, left))


def _embeddings(scratch: Path) -> tuple[int, int]:
    """Return how many embeddings are lost or changed, and how many are not in form yet."""
    facts = json.loads((scratch / FACTS).read_text())
    digests = list(map(bytes.fromhex, facts["digests"]))
    expected, now = (
        read(scratch / store / FILE, facts["recipe"], digests) for store in (OLDER, STORE)
    )
    missing = sum(
        one not in now
        or now[one].tokens != expected[one].tokens
        or not np.array_equal(now[one].vector, expected[one].vector)
        for one in digests
    )
    env = Environment(scratch / STORE / FILE, TABLES)
    with env.read() as txn:
        left = txn.stat(txn.tables[OLD_VECTORS])["entries"]
    env.close()
    return missing, left


async def _memories(scratch: Path, left: int) -> tuple[str, str]:
    said = (scratch / SAID).read_text().splitlines()
    expected = {f"note {n} of what was said then" for n in range(MEMORIES)} | set(said)
    shutil.rmtree(scratch / COPY, ignore_errors=True)
    without = shutil.ignore_patterns("*.sock", "*.read*")
    shutil.copytree(scratch / STORE, scratch / COPY, ignore=without)  # opened, it would get in form
    async with opened(scratch / COPY, HashedTokens(), LIMITS) as memory:
        ok = (await memory.verify()).ok
        diverged = await memory.check_replay()
        found = await memory.user(USER).list_memories(["long_term"], limit=ADDED_MAX)
    there = {one.content for one in found}
    if not expected <= there:
        return "lost", f"{len(expected - there)} memories"
    if diverged or not ok:
        return "damaged", f"verified: {ok}, diverged: {diverged}"
    return "survived", str(left)
