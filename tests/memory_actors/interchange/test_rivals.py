"""Stores that the rivals' own packages make. Not installed by CI (extra `peers`)."""

import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from support.fakes import FakeEmbedder

from memory_actors.interchange import export_to, import_from

pytestmark = [
    pytest.mark.anyio,
    # What these packages warn of is theirs.
    pytest.mark.filterwarnings("ignore"),
]


def package(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{error}: pip install 'memory-actors[peers]'")


async def texts(memory: Any) -> dict[str, list[str]]:
    return {
        user: sorted([one.content async for one in memory.user(user).export()])
        for user in await memory.users()
    }


# --- Chroma


@pytest.fixture
def chroma(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("ANONYMIZED_TELEMETRY", "False")
    chromadb = package("chromadb")

    class Lengths(chromadb.EmbeddingFunction):
        def __init__(self) -> None:
            pass

        def __call__(self, texts: list[str]) -> list[list[float]]:
            return [[float(len(text)), 1.0] for text in texts]

    client = chromadb.PersistentClient(str(tmp_path / "chroma"))
    return client.create_collection("facts", embedding_function=Lengths())


async def test_a_collection_of_chroma(memory, tmp_path: Path, chroma: Any) -> None:
    chroma.add(
        ids=["a", "b", "c"],
        documents=["likes tea", "lives in Rome", "gone"],
        metadatas=[{"user_id": "ada", "n": 1, "ok": True, "tags": ["x", "y"]}, {"user_id": "bob"},
                   {"user_id": "bob"}],
    )  # fmt: skip
    chroma.update(ids=["a"], documents=["likes green tea"])
    chroma.delete(ids=["c"])
    await import_from(memory, "chroma", tmp_path / "chroma")
    assert await texts(memory) == {"ada": ["likes green tea"], "bob": ["lives in Rome"]}
    (one,) = await memory.user("ada").list_memories()
    assert one.metadata == {
        "n": 1, "ok": True, "tags": ["x", "y"], "collection": "facts", "chroma_id": "a"
    }  # fmt: skip


async def test_chroma_takes_what_is_exported_for_it(store, tmp_path: Path, chroma: Any) -> None:
    async with store() as memory:
        user = memory.user("ada")
        await user.add("likes tea", metadata={"tags": ["x"], "n": 1, "none": None})
        await user.entities.add_entity("Ada", "person", ["likes tea"])
        await user.add("hello", "short_term", session_id="s1", role="user")
        await export_to(user, "chroma", tmp_path / "x.jsonl")
        for line in (tmp_path / "x.jsonl").read_text().splitlines():
            chroma.add(**json.loads(line))
        async with store("other") as other:
            await import_from(other, "chroma", tmp_path / "chroma")
            assert await texts(other) == await texts(memory)


# --- LangGraph


async def test_a_store_of_langgraph(store, tmp_path: Path) -> None:
    sqlite = package("langgraph.store.sqlite")
    path = tmp_path / "store.sqlite"
    with sqlite.SqliteStore.from_conn_string(str(path)) as theirs:
        theirs.setup()
        theirs.put(("memories", "ada"), "k1", {"data": "likes tea"})
        theirs.put(("memories", "ada"), "k1", {"data": "likes green tea"})
        theirs.put(("profiles", "bob"), "k2", {"city": "Rome"})
        async with store() as memory:  # while it is open
            report = await import_from(memory, "langgraph", path, user_field="namespace.1")
            assert await texts(memory) == {
                "ada": ['{"data":"likes green tea"}'], "bob": ['{"city":"Rome"}']
            }  # fmt: skip
    assert report.left_out == 0


@pytest.mark.parametrize(("place", "field"), [(0, "namespace.0"), (1, "namespace.1"), ("me", None)])
async def test_our_store_for_langgraph_serves_what_was_imported(
    store, tmp_path: Path, place: int | str, field: str | None
) -> None:
    sqlite = package("langgraph.store.sqlite")
    ours = package("memory_actors.integrations.langgraph")
    path = tmp_path / "store.sqlite"
    items = [
        (("memories", "ada"), "k1", {"data": "likes tea"}),
        (("short",), "k2", {"city": "Rome"}),
        (("memories", "bob", "work"), "k3", {"a": 1}),
    ]
    with sqlite.SqliteStore.from_conn_string(str(path)) as theirs:
        theirs.setup()
        for namespace, key, value in items:
            theirs.put(namespace, key, value)
        names = theirs.list_namespaces()
    async with store() as memory:
        await import_from(memory, "langgraph", path, user_id="me", user_field=field)
        served = ours.MemoryActorsStore(memory, user=place)
        for namespace, key, value in items:
            item = await served.aget(namespace, key)
            assert (item.value, item.namespace) == (value, namespace)
        assert sorted(await served.alist_namespaces()) == sorted(names)
        assert [one.key for one in await served.asearch(("memories", "ada"))] == ["k1"]


# --- mem0


@pytest.fixture
def mem0(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("MEM0_TELEMETRY", "False")
    monkeypatch.setenv("MEM0_DIR", str(tmp_path / "home"))
    package("qdrant_client")
    factory = package("mem0.utils.factory")

    class Lengths:
        class config:  # noqa: N801 - its name there
            embedding_dims = 4

        def embed(self, text: str, *_: Any, **__: Any) -> list[float]:
            return [float(len(text)), 1.0, 2.0, 3.0]

        def embed_batch(self, texts: list[str], *_: Any, **__: Any) -> list[list[float]]:
            return [self.embed(text) for text in texts]

    monkeypatch.setattr(factory.EmbedderFactory, "create", lambda *_, **__: Lengths())
    monkeypatch.setattr(factory.LlmFactory, "create", lambda *_, **__: object())
    vectors = {"path": str(tmp_path / "qdrant"), "embedding_model_dims": 4, "on_disk": True}
    config = {
        "vector_store": {"provider": "qdrant", "config": vectors},
        "history_db_path": str(tmp_path / "history.db"),
    }
    memory = package("mem0").Memory.from_config(config)
    yield memory
    memory.vector_store.client.close()
    memory.close()


async def test_a_store_of_mem0(store, tmp_path: Path, mem0: Any) -> None:
    (added,) = mem0.add("likes tea", user_id="ada", metadata={"mood": "good"}, infer=False)[
        "results"
    ]
    mem0.add("lives in Rome", user_id="bob", run_id="r1", infer=False)
    (gone,) = mem0.add("gone", user_id="bob", infer=False)["results"]
    mem0.update(added["id"], "likes green tea")
    mem0.delete(gone["id"])
    everything = {"ada": ["likes green tea"], "bob": ["lives in Rome"]}
    exported = [
        record
        for user in everything
        for record in mem0.get_all(filters={"user_id": user})["results"]
    ]
    (tmp_path / "x.json").write_text(json.dumps({"results": exported}))
    async with store() as memory:
        report = await import_from(memory, "mem0", tmp_path / "x.json")
        assert await texts(memory) == everything
        assert report.notes == ()
    served = package("memory_actors.integrations.mem0")
    async with served.AsyncMemory(tmp_path / "memory", embedder=FakeEmbedder()) as ours:
        for user in everything:
            filters = {"user_id": user}
            assert await ours.get_all(filters=filters) == mem0.get_all(filters=filters)


async def test_mem0_takes_what_is_exported_for_it(store, tmp_path: Path, mem0: Any) -> None:
    async with store() as memory:
        await memory.user("ada").add("likes tea", metadata={"mood": "good"})
        await export_to(memory.user("ada"), "mem0", tmp_path / "x.json")
    for one in json.loads((tmp_path / "x.json").read_text())["results"]:
        mem0.add(one["memory"], user_id=one["user_id"], metadata=one["metadata"], infer=False)
    (got,) = mem0.get_all(filters={"user_id": "ada"})["results"]
    assert (got["memory"], got["metadata"]["mood"]) == ("likes tea", "good")
