"""User ids are data: never a path, a prefix or a pattern, and no two of them share anything."""

import tempfile
import unicodedata
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError, MemorySystem
from memory_actors.base.validation import NAME_BYTES_MAX

pytestmark = [pytest.mark.anyio, pytest.mark.contract]

PIECES = [
    "a",
    "b",
    "/",
    "..",
    "\\",
    "\0",
    "*",
    "%2e",
    ":",
    "user:",
    "recall:",
    "\n",
    " ",
    "é",
    "e\u0301",
]
hostile = st.lists(st.sampled_from(PIECES), min_size=1, max_size=6).map("".join).filter(str.strip)
pairs = st.one_of(
    st.tuples(hostile, hostile),
    hostile.map(lambda one: (one, one + "/")),
    hostile.map(lambda one: (one, f"user:{one}")),
    hostile.map(lambda one: (unicodedata.normalize("NFC", one), unicodedata.normalize("NFD", one))),
).filter(lambda pair: pair[0] != pair[1])


@pytest.mark.no_node
@pytest.mark.no_http
@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pair=pairs)
@example(pair=("a", "a\0"))
@example(pair=("../a", "a"))
@example(pair=("\u00e9", "e\u0301"))
async def test_two_ids_share_nothing_however_alike_they_are(pair: tuple[str, str]) -> None:
    mine, theirs = pair
    with tempfile.TemporaryDirectory() as scratch:
        store = Path(scratch) / "inner" / "store"
        async with MemorySystem.open(store, embedder=FakeEmbedder(), alerts=[]) as memory:
            added = await memory.user(mine).add("a secret of mine")
            await memory.user(theirs).add("something of theirs")
        async with MemorySystem.open(store, embedder=FakeEmbedder(), alerts=[]) as memory:
            other = memory.user(theirs)
            assert [hit.content for hit in await other.retrieve("secret")] == [
                "something of theirs"
            ]
            assert [m.content for m in await other.list_memories()] == ["something of theirs"]
            with pytest.raises(LookupError):
                await other.get(added.memory_id)
            assert await memory.users() == sorted(pair)
            await memory.erase(theirs)
            assert await memory.users() == [mine]
            assert (await memory.user(mine).get(added.memory_id)).content == "a secret of mine"
        outside = [path for path in Path(scratch).rglob("*") if not path.is_relative_to(store)]
        assert outside == [store.parent]


@pytest.mark.parametrize("name", ["", "x" * (NAME_BYTES_MAX + 1), "x" * 10_240, "\ud800", 7, None])
async def test_what_is_no_name_is_refused(name: object, tmp_path: Path) -> None:
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder(), alerts=[]) as memory:
        with pytest.raises(InvalidInputError):
            memory.user(name)  # type: ignore[arg-type]
