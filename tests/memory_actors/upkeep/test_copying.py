"""Copying a store from its directory to a database: the same memory, opened there."""

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec
import pytest
from click.testing import CliRunner, Result
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.postgres import fresh_url

from eventlog import EncryptionMismatch, LogLocked
from memory_actors import Item, MemorySystem, NotFoundError, Settings, copy_store
from memory_actors.base.api_keys import KeyStore
from memory_actors.cli import App, main
from memory_actors.server import settings_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def url() -> str:
    return fresh_url()


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def opened(store: str | Path, **more: Any) -> Any:
    settings = Settings(latency_targets_ms={}, recall_audit="hashed", check_replay=True)
    return MemorySystem.open(store, embedder=FakeEmbedder(), settings=settings, **more)


async def filled(directory: Path) -> tuple[str, str]:
    """Make a store; return an API key of it, and the id of a memory."""
    async with opened(directory) as memory:
        ada = memory.user("ada", session_id="s1", source="web")
        await ada.add_many([Item(content=f"Ada skis in Davos {n}") for n in range(20)])
        added = await ada.add("Ada enjoys skiing", idempotency_key="once")
        await ada.entities.add_entity("Tea", "thing")
        await ada.retrieve("skiing")
        await memory.user("bob").add("Bob rows")
        await memory.user("eve").add("Eve is to be forgotten")
        await memory.erase("eve")
    token, _ = KeyStore(directory).create("ada")
    return token, added.memory_id


async def test_a_copied_store_is_the_same_memory(tmp_path, url):
    directory = tmp_path / "memory"
    token, memory_id = await filled(directory)
    async with opened(directory) as memory:
        before = await told(memory, memory_id)
        heads = await memory.heads()

    done = await _copied(directory, url)

    assert done.position == heads.position
    assert found_in_database(url, "user:eve", "Eve is") == set()
    async with opened(url) as memory:
        assert (await memory.verify(against=heads)).ok
        assert await told(memory, memory_id) == before
        keys = KeyStore(settings_of(memory))
        await keys.refresh()
        assert keys.find(token) is not None
        ada = memory.user("ada", session_id="s1", source="web")
        assert (await ada.add("Ada enjoys skiing", idempotency_key="once")).memory_id == memory_id
        await ada.add("Ada lives in Davos")
        assert (await ada.retrieve("where does Ada live"))[0].content
        assert await memory.user("eve").count() == 0


async def _copied(directory: Path, url: str) -> Any:
    return await anyio.to_thread.run_sync(copy_store, directory, url)


async def told(memory: MemorySystem, memory_id: str) -> dict[str, Any]:
    ada = memory.user("ada")
    async with memory.replay("ada", 10) as past:
        then = await past.list_memories(limit=100)
    return {
        "users": sorted(await memory.users()),
        "memories": await ada.list_memories(limit=100),
        "one": await ada.get(memory_id),
        "history": await ada.history(memory_id),
        "usage": msgspec.structs.replace(await ada.usage(), at=None),
        "all": (await memory.usage()).counts,
        "entity": await ada.entities.get("Tea"),
        "recalls": await memory.recalls("ada", query="skiing"),
        "then": then,
    }


async def test_what_cannot_be_copied_is_refused(tmp_path, url):
    with pytest.raises(NotFoundError, match="no store in the directory"):
        await _copied(tmp_path / "none", url)
    assert not (tmp_path / "none").exists()
    async with opened(tmp_path / "open") as memory:
        await memory.user("ada").add("Ada rows")
        with pytest.raises(LogLocked):
            await _copied(tmp_path / "open", url)
    async with opened(tmp_path / "secret", encrypt=True) as memory:
        await memory.user("ada").add("Ada rows")
    with pytest.raises(EncryptionMismatch, match="a database has no file of keys"):
        await _copied(tmp_path / "secret", url)


def copied(*arguments: str) -> Result:
    app = App(embedder=FakeEmbedder())
    return CliRunner().invoke(main, ["copy", *arguments], obj=app)


def test_the_command_copies_and_says_so(tmp_path, url):
    directory = str(tmp_path / "memory")
    added = ["--data", directory, "add", "Ada rows", "--user", "ada"]
    assert CliRunner().invoke(main, added, obj=App(embedder=FakeEmbedder())).exit_code == 0

    result = copied(directory, url)
    assert result.exit_code == 0, result.output
    assert f"are in {url}, verified" in result.stdout.replace("\n", "")
    again = copied(directory, url)
    assert (again.exit_code, "there is a store in schema" in again.stderr) == (1, True)
    listed = ["--data", url, "list", "--user", "ada", "--json"]
    there = CliRunner().invoke(main, listed, obj=App(embedder=FakeEmbedder()))
    assert [one["content"] for one in json.loads(there.stdout)] == ["Ada rows"]


def test_the_command_refuses_other_urls_and_what_is_no_store(tmp_path):
    for places in ((tmp_path / "none", "/elsewhere"), (tmp_path, "mysql://host/db")):
        assert copied(*map(str, places)).exit_code == 1
    assert not list(tmp_path.iterdir())
