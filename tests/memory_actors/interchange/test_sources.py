"""The files of each program, as its documentation and its own code have them."""

import ast
import hashlib
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
import zipfile
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support import foreign
from support.fakes import FakeEmbedder
from support.foreign import AT, write_json

import memory_actors
from memory_actors import InvalidInputError, MemorySystem
from memory_actors.integrations.mem0 import AsyncMemory
from memory_actors.interchange import ImportReport, adding, files, import_from, plan_import
from memory_actors.interchange.sources import chroma, langgraph, zep

pytestmark = pytest.mark.anyio

WHEN = datetime.fromisoformat(AT)


class Got:
    """What came of an import: the report, and all memories of each user."""

    def __init__(self, report: ImportReport, users: dict[str, list[Any]]):
        self.report, self.users = report, users

    def texts(self, user: str) -> list[str]:
        return [one.content for one in self.users[user]]

    def said(self) -> dict[str, int]:
        return {note.says: note.lines for note in self.report.notes}


@pytest.fixture
def imported(store) -> Any:
    async def work(program: str, path: Path, **more: Any) -> Got:
        async with store() as memory:
            report = await import_from(memory, program, path, **{"user_id": "me", **more})
            users = {
                user: [one async for one in memory.user(user).export()]
                for user in await memory.users()
            }
        return Got(report, users)

    return work


# --- mem0


async def test_mem0_as_json(imported, tmp_path: Path) -> None:
    got = await imported("mem0", foreign.mem0_json(tmp_path))
    tea, dog = got.users["ada"]
    (rome,) = got.users["bob"]
    assert (tea.content, tea.occurred_at) == ("likes tea", WHEN)
    times = {"created_at": AT, "updated_at": AT, "user_id": "ada"}
    assert tea.metadata == {"source": "wiki", "trust": "trusted", "mem0_id": "m1", **times}
    assert dog.metadata == {"categories": ["pets"], "mem0_id": "m3", **times}
    assert (rome.session_id, rome.role) == ("r1", "user")
    assert got.report.notes == ()


UUID = "6d20fe15-73c6-4608-97ad-dd8da786a19f"


async def test_our_stand_in_for_mem0_serves_what_was_imported(tmp_path: Path) -> None:
    record = foreign.mem0_record(
        UUID, "likes tea", "ada", metadata={"mood": "good"}, run_id="r1", role="user"
    )  # fmt: skip
    record["hash"] = hashlib.md5(b"likes tea").hexdigest()
    path = write_json(tmp_path / "x.json", {"results": [record]})
    async with MemorySystem.open(tmp_path / "memory", embedder=FakeEmbedder()) as memory:
        await import_from(memory, "mem0", path)
    async with AsyncMemory(tmp_path / "memory", embedder=FakeEmbedder()) as served:
        for filters in ({"user_id": "ada"}, {"run_id": "r1"}, {"user_id": "ada", "mood": "good"}):
            assert await served.get_all(filters=filters) == {"results": [record]}
        assert {**await served.get(UUID), "score": 1} == {**record, "score": 1}
        (event,) = await served.history(UUID)
        assert (event["event"], event["created_at"]) == ("ADD", AT)


async def test_a_memory_of_mem0_that_changed_is_another_one(memory, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    for text in ("likes tea", "likes green tea", "likes green tea"):
        write_json(path, [foreign.mem0_record(UUID, text, "ada")])
        report = await import_from(memory, "mem0", path)
    assert (report.added, report.unchanged, report.left_out) == (0, 1, 0)
    assert (await memory.user("ada").get(UUID)).content == "likes tea"
    assert len(await memory.user("ada").list_memories()) == 2


async def test_expired_memories_of_mem0_are_left_behind(imported, tmp_path: Path) -> None:
    one = foreign.mem0_record("1", "over", "ada", expiration_date="2025-02-01")
    other = foreign.mem0_record("2", "holds", "ada", expiration_date="2999-01-01")
    got = await imported("mem0", write_json(tmp_path / "x.json", [one, other]))
    assert got.texts("ada") == ["holds"]


# --- databases


async def test_chroma_as_a_directory(imported, tmp_path: Path) -> None:
    got = await imported("chroma", foreign.chroma(tmp_path))
    tea, other = got.users["ada"]
    (rome,) = got.users["bob"]
    assert tea.metadata == {
        "n": 7, "ok": True, "f": 1.5, "tags": ["x", "y"], "collection": "facts", "chroma_id": "a"
    }  # fmt: skip
    assert (tea.occurred_at, rome.occurred_at.year) == (WHEN, 2024)
    assert (other.content, other.metadata["collection"]) == ("another a", "others")
    assert got.report.left_out == 1


async def test_chroma_as_json(imported, tmp_path: Path) -> None:
    batch = {"ids": ["a", "b"], "embeddings": None, "documents": ["likes tea", "x"],
             "metadatas": [{"user_id": "ada"}, None]}  # fmt: skip
    got = await imported("chroma", write_json(tmp_path / "x.json", batch))
    assert (got.texts("ada"), got.texts("me")) == (["likes tea"], ["x"])


async def test_langgraph(imported, tmp_path: Path) -> None:
    got = await imported("langgraph", foreign.langgraph(tmp_path), user_field="namespace.1")
    (tea,), (city,) = got.users["ada"], got.users["bob"]
    assert (tea.memory_type, tea.occurred_at) == ("structured", WHEN)
    assert (tea.data["collection"], tea.data["key"]) == ("langgraph@1/memories", "k1")
    assert tea.data["value"] == {"data": "likes tea", "mood": "good"}
    assert city.data["value"] == {"city": "Rome", "since": 2020}
    about = {"namespace": ["memories", "ada"], "created_us": int(WHEN.timestamp() * 1e6)}
    assert tea.metadata == {"langgraph": about}
    assert got.said() == {langgraph.EXPIRED: 1}


async def test_a_changed_item_of_langgraph_is_the_same_document(memory, tmp_path: Path) -> None:
    path = foreign.langgraph(tmp_path)
    await import_from(memory, "langgraph", path, user_id="me")
    with sqlite3.connect(path) as database:
        database.execute("UPDATE store SET value = '{\"city\": \"Porto\"}' WHERE key = 'k2'")
    real = await import_from(memory, "langgraph", path, user_id="me")
    assert (real.added, real.unchanged) == (1, 1)
    documents = await memory.user("me").documents.find("langgraph/memories.bob")
    assert [one.value for one in documents] == [{"city": "Porto"}]


@pytest.mark.parametrize("program", ["langgraph", "chroma"])
async def test_a_database_is_left_as_it_is(tmp_path: Path, program: str) -> None:
    """Reading makes no file beside it, and changes no byte; also where nothing may be written."""
    write = {"langgraph": foreign.langgraph, "chroma": foreign.chroma}
    path = write[program](tmp_path)
    before = {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()}
    await plan_import(program, path)
    assert {one: one.read_bytes() for one in tmp_path.rglob("*") if one.is_file()} == before


async def test_a_log_beside_a_database_is_read(imported, tmp_path: Path) -> None:
    path = foreign.langgraph(tmp_path)
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("""INSERT INTO store (prefix, key, value) VALUES ('a', 'k', '{"x": 1}')""")
        database.commit()
        assert (tmp_path / "store.sqlite-wal").stat().st_size
        assert (await imported("langgraph", path)).report.added == 3
    database.close()


async def test_a_view_in_place_of_a_table_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "x.sqlite") as database:
        database.execute(
            "CREATE VIEW store AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
            "SELECT x AS prefix, x AS key, '{}' AS value, x AS created_at FROM n"
        )
    database.close()
    with pytest.raises(InvalidInputError, match="has no table 'store'"):
        await plan_import("langgraph", tmp_path / "x.sqlite")


@pytest.mark.parametrize(
    "table",
    [
        "CREATE TABLE store (prefix, key, created_at, value AS (hex(zeroblob(10000000))))",
        "CREATE TABLE store (prefix, key, created_at, value AS (hex(zeroblob(10000000))) STORED)",
        "CREATE VIRTUAL TABLE store USING fts5 (prefix, key, value, created_at, updated_at)",
    ],
)
async def test_a_table_that_computes_its_values_is_refused(tmp_path: Path, table: str) -> None:
    """A file of 8 KB would have any number of bytes in it."""
    with closing(sqlite3.connect(tmp_path / "x.sqlite")) as database, database:
        database.execute(table)
    with pytest.raises(InvalidInputError, match="has no table 'store'"):
        await plan_import("langgraph", tmp_path / "x.sqlite")


async def test_rows_are_bounded_by_the_size_of_their_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A default stands in any number of rows, and in the file once."""
    monkeypatch.setattr(files, "UNPACKED_BYTES_MIN", 1 << 20)
    path = foreign.langgraph(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        rows = [("a", str(number), "{}") for number in range(1000)]
        database.executemany("INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)", rows)
        database.execute(f"ALTER TABLE store ADD COLUMN x TEXT DEFAULT '{'x' * 50_000}'")
        database.execute("ALTER TABLE store RENAME COLUMN updated_at TO y")
        database.execute("ALTER TABLE store RENAME COLUMN x TO updated_at")
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInputError, match="unpacks to over 100 times its size"):
            await plan_import("langgraph", path)
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("make", "queries"),
    [
        (foreign.chroma, (chroma.COLLECTIONS, chroma.RECORDS)),
        (foreign.langgraph, (langgraph.ITEMS, langgraph.ITEMS_WITHOUT_END)),
    ],
)
def test_no_query_stores_rows_before_they_are_counted(
    tmp_path: Path, make: Any, queries: tuple[str, ...]
) -> None:
    """SQLite would take gigabytes to sort what a small file repeats."""
    make(tmp_path)
    path = min(one for one in tmp_path.rglob("*.sqlite*") if one.is_file())
    with closing(sqlite3.connect(path)) as database:
        for query in queries:
            values = ("x",) * query.count("?")
            plan = str(database.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall())
            assert not re.search("TEMP|LIST SUBQUERY|AUTOMATIC|MATERIALIZE", plan), plan


async def test_a_query_of_endless_steps_is_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an index each of many records looks at all of many segments."""
    monkeypatch.setattr(files, "UNPACKED_BYTES_MIN", 1 << 20)
    path = foreign.chroma(tmp_path) / "chroma.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE more AS SELECT * FROM segments")
        database.execute("DROP TABLE segments")
        database.execute("ALTER TABLE more RENAME TO segments")
        numbers = "WITH RECURSIVE n(x) AS (SELECT 9 UNION ALL SELECT x + 1 FROM n LIMIT 5000)"
        database.execute(f"{numbers} INSERT INTO segments (id) SELECT x FROM n")
        database.execute(f"{numbers} INSERT INTO embeddings (id, segment_id) SELECT x, -x FROM n")
    with pytest.raises(InvalidInputError, match="unpacks to over 100 times its size"):
        await plan_import("chroma", path)


async def test_documents_are_added_few_at_a_time_where_they_are_large(tmp_path: Path) -> None:
    path = foreign.langgraph(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        large = json.dumps({"a": "x" * 400_000})
        rows = [("a", str(number), large) for number in range(100)]
        database.executemany("INSERT INTO store (prefix, key, value) VALUES (?, ?, ?)", rows)
    tracemalloc.start()
    try:
        assert (await plan_import("langgraph", path)).records == 102
        assert tracemalloc.get_traced_memory()[1] < 24_000_000
    finally:
        tracemalloc.stop()


async def test_a_join_of_many_equal_rows_has_each_record_once(imported, tmp_path: Path) -> None:
    path = foreign.chroma(tmp_path) / "chroma.sqlite3"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("CREATE TABLE more AS SELECT * FROM segments")
        database.execute("DROP TABLE segments")
        database.execute("CREATE TABLE segments AS SELECT m.* FROM more m, more, more n")
    assert (await imported("chroma", path)).report.added == 3


def test_nothing_is_unpickled() -> None:
    """No module of the product imports `pickle`, `marshal` or `shelve`, nor what reads by them."""
    for module in Path(memory_actors.__file__).parent.rglob("*.py"):
        names = {
            name.name.partition(".")[0]
            for node in ast.walk(ast.parse(module.read_text()))
            if isinstance(node, ast.Import)
            for name in node.names
        }
        assert not names & {"pickle", "_pickle", "marshal", "shelve", "dill"}, module


# --- graphs


async def test_mcp_memory(imported, tmp_path: Path) -> None:
    got = await imported("mcp-memory", foreign.mcp_memory(tmp_path))
    assert got.texts("me") == [
        "Alice (person):\nlikes tea\nhas a dog",
        "Rome (city)",
        "Acme (entity)",
        "Alice works at Acme",
    ]
    assert list(got.said().values()) == [1]


async def test_zep(imported, tmp_path: Path) -> None:
    got = await imported("zep", foreign.zep(tmp_path))
    ada, acme, works = got.users["ada"]
    assert ada.content == "Ada (Person):\nAda likes tea."
    assert (ada.metadata["age"], acme.data["type"], ada.occurred_at) == (36, "entity", WHEN)
    assert works.content == "Ada works at Acme"
    assert (works.data["relation"], works.data["valid_to"][:4]) == ("WORKS_AT", "2025")
    assert works.occurred_at.year == 2024
    (rome,) = got.users["bob"]
    assert (rome.content, rome.session_id, rome.role) == ("lives in Rome", "t1", "user")
    assert rome.metadata["speaker"] == "Bob"
    assert got.report.left_out == 1  # an edge to a node that is not there
    assert any("'tasks'" in says for says in got.said())


async def test_an_edge_of_zep_relates_nodes_by_id(imported, tmp_path: Path) -> None:
    graph = {
        "nodes": [
            {"uuid": "1", "name": "Alex", "labels": ["Person"]},
            {"uuid": "2", "name": "Alex", "labels": ["Dog"]},
        ],
        "edges": [{"uuid": "e", "name": "HAS", "source_node_uuid": "1", "target_node_uuid": "2"}],
    }
    got = await imported("zep", write_json(tmp_path / "x.json", graph))
    person, dog, has = got.users["me"]
    assert (has.data["source_id"], has.data["target_id"]) == (person.memory_id, dog.memory_id)
    assert got.report.left_out == 0


async def test_a_renamed_node_of_zep(memory, tmp_path: Path) -> None:
    """A node of Zep that was renamed gets what is new of it."""
    path = tmp_path / "x.json"
    node = {"uuid": "1", "name": "Ada", "labels": ["Entity"], "summary": "likes tea"}
    for more in ({}, {"labels": ["Entity", "Person"], "summary": "has a dog"}):
        write_json(path, {"nodes": [node | more]})
        real = await import_from(memory, "zep", path, user_id="me")
        assert (real.added, real.left_out) == (1, 0)
    assert (await memory.user("me").entities.get("Ada")).observations == (
        "likes tea", "has a dog"
    )  # fmt: skip
    assert [note.says for note in real.notes] == [adding.OTHER_NAME]


async def test_several_facts_of_one_relationship_of_zep_are_all_kept(
    memory, tmp_path: Path
) -> None:
    edge = {"name": "KNOWS", "source_node_uuid": "1", "target_node_uuid": "2"}
    graph = {
        "nodes": [{"uuid": "1", "name": "Ada"}, {"uuid": "2", "name": "Bob"}],
        "edges": [
            edge | {"uuid": "a", "fact": "met at school", "valid_at": "2020-01-01",
                    "invalid_at": "2021-01-01"},
            edge | {"uuid": "b", "fact": "play chess", "valid_at": "2020-06-01"},
            edge | {"uuid": "c", "fact": "met again", "valid_at": "2023-01-01"},
        ],
    }  # fmt: skip
    path = write_json(tmp_path / "x.json", graph)
    first = await import_from(memory, "zep", path, user_id="me")
    again = await import_from(memory, "zep", path, user_id="me")
    kinds = {one.content: one.memory_type async for one in memory.user("me").export()}
    assert kinds["met at school"] == kinds["met again"] == "entity"
    assert kinds["play chess"] == "long_term"
    assert (first.added, again.added, again.unchanged) == (5, 0, 5)
    assert {note.says: note.lines for note in again.notes}[zep.ANOTHER_FACT] == 1


async def test_entities_of_one_name_and_several_types_are_all_added(
    imported, tmp_path: Path
) -> None:
    """A relation that names them is of the first, and the case of a name makes no other one."""
    path = tmp_path / "memory.jsonl"
    lines = [
        {"type": "entity", "name": "Alice", "entityType": "person", "observations": ["a"]},
        {"type": "entity", "name": "Alice", "entityType": "cat", "observations": ["b"]},
        {"type": "relation", "from": "alice", "to": "Acme", "relationType": "works_at"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    got = await imported("mcp-memory", path)
    assert got.texts("me") == [
        "Alice (person):\na", "Alice (cat):\nb", "Acme (entity)", "Alice works at Acme"
    ]  # fmt: skip
    assert (got.report.added, got.report.left_out) == (4, 0)


async def test_notes_of_one_title_stay_several(store, tmp_path: Path) -> None:
    for name in ("a/index.md", "b/index.md"):
        (tmp_path / "notes" / name).parent.mkdir(parents=True)
        (tmp_path / "notes" / name).write_text(f"- [is] {name}\n- in [[index]]\n")
    async with store() as memory:
        await import_from(memory, "basic-memory", tmp_path / "notes", user_id="me")
        again = await import_from(memory, "basic-memory", tmp_path / "notes", user_id="me")
        texts = [one.content async for one in memory.user("me").export()]
    assert texts[:2] == [
        "index (entity):\n[is] a/index.md", "index (b/index.md) (entity):\n[is] b/index.md"
    ]  # fmt: skip
    assert (len(texts), again.added) == (4, 0)


HOSTILE_NOTES = (
    "- a" + "\t " * 100_000 + "x",
    "<!--" * 65_000,
    "- [[a]]" + " " * 120_000 + ")" * 120_000 + "x",
)


@pytest.mark.parametrize("program", ["basic-memory", "memory-md"])
def test_hostile_notes_take_linear_time(tmp_path: Path, program: str) -> None:
    """What takes a time that grows with the square of a note takes an hour for one of these."""
    for number, text in enumerate(HOSTILE_NOTES):
        (tmp_path / f"{number}.md").write_text(text)
    code = (
        "import asyncio; from memory_actors.interchange import plan_import; "
        f"print(asyncio.run(plan_import({program!r}, {str(tmp_path)!r})).records)"
    )
    done = subprocess.run([sys.executable, "-c", code], timeout=50, check=True, capture_output=True)
    assert int(done.stdout) >= len(HOSTILE_NOTES)


async def test_basic_memory(imported, tmp_path: Path) -> None:
    got = await imported("basic-memory", foreign.basic_memory(tmp_path))
    texts = got.texts("me")
    assert "Coffee Brewing (guide):\n[method] Pour over gives clarity #brewing (tested)" in texts
    assert "Tea (entity):\n[taste] bitter" in texts
    assert {"Coffee Brewing requires Grinding", "Coffee Brewing links to Tea",
            "Coffee Brewing relates to Tea"} < set(texts)  # fmt: skip
    assert "Ada likes tea more, see [[Tea]]." in texts
    assert "[x] a task that is done" in texts
    (coffee,) = (one for one in got.users["me"] if one.content.startswith("Coffee Brewing (guide)"))
    assert coffee.metadata["tags"] == ["coffee", "brewing"]
    assert coffee.occurred_at == datetime(2025, 1, 10, tzinfo=UTC)
    assert len(got.report.notes) == 2  # a note that is not there, a file that is none


# --- agents and chats


async def test_claude_mem(imported, tmp_path: Path) -> None:
    got = await imported("claude-mem", foreign.claude_mem(tmp_path))
    prompt, decision, summary = got.users["shop"]
    assert (prompt.content, prompt.role, prompt.session_id) == ("Fix the tea timer", "user", "c-1")
    assert decision.content == (
        "LMDB for the cart: one writer\nWe compared it with SQLite.\n"
        "- A cart has one writer\n- Readers never wait"
    )
    assert (decision.session_id, decision.occurred_at) == ("c-1", WHEN)
    assert decision.metadata == {
        "kind": "observation", "type": "decision", "concepts": ["trade-off"],
        "files_modified": ["cart.py"],
    }  # fmt: skip
    assert summary.content == (
        "Request: Fix the cart\nLearned: Locks were held\nCompleted: Cart is fixed"
    )
    (till,) = got.users["till"]
    assert (till.content, till.session_id) == ("The till prints twice", "m-2")
    assert till.metadata["files_read"] == ["till.py"]


async def test_claude_mem_keeps_a_list_with_half_of_a_surrogate_pair(imported, tmp_path) -> None:
    path = foreign.claude_mem(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("UPDATE observations SET facts = ?", [r'["half \ud83d", "whole"]'])
    got = await imported("claude-mem", path)
    assert "\n- half \ufffd\n- whole" in got.users["shop"][1].content


async def test_claude_mem_of_an_older_version(imported, tmp_path: Path) -> None:
    """Its sessions had other names, and it kept no prompts."""
    path = foreign.claude_mem(tmp_path)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("DROP TABLE user_prompts")
        for table in ("sdk_sessions", "observations", "session_summaries"):
            database.execute(
                f"ALTER TABLE {table} RENAME COLUMN memory_session_id TO sdk_session_id"
            )
        database.execute(
            "ALTER TABLE sdk_sessions RENAME COLUMN content_session_id TO claude_session_id"
        )
    got = await imported("claude-mem", path)
    assert [one.session_id for one in got.users["shop"]] == ["c-1", "c-1"]


async def test_the_graph_of_a_palace_belongs_to_the_user_of_the_import(
    imported, tmp_path: Path
) -> None:
    got = await imported("mempalace", foreign.mempalace(tmp_path))
    assert (got.report.added, got.report.left_out) == (7, 0)
    people = {one.data["name"]: one for one in got.users["me"] if "name" in one.data}
    assert set(people) == {"Max", "Alice", "chess"}
    assert people["Max"].data["type"] == "person"
    assert people["Max"].metadata["age"] == 11
    child, loves = (one for one in got.users["me"] if "relation" in one.data)
    assert (child.data["source"], child.data["relation"], child.data["target"]) == (
        "Max", "child_of", "Alice",
    )  # fmt: skip
    assert loves.metadata == {"confidence": 0.8, "source_file": "chat.jsonl"}
    assert str(loves.data["valid_to"]).startswith("2025-02-10")


async def test_drawers_of_a_palace_belong_to_their_wings(imported, tmp_path: Path) -> None:
    got = await imported("mempalace", foreign.mempalace(tmp_path))
    (cart,), (till,) = got.users["shop"], got.users["till"]
    assert cart.content == "> Which store?\nLMDB for the cart of tea."
    assert cart.occurred_at == till.occurred_at == WHEN
    assert cart.metadata["room"] == "cart"
    assert cart.metadata["chroma_id"] == "drawer_shop_cart_0"
    assert [note.lines for note in got.report.notes if "closet" in note.says] == [1]


async def test_letta(imported, tmp_path: Path) -> None:
    got = await imported("letta", foreign.letta(tmp_path), user_field="agent")
    tea, hello, answer, block = got.users["anna"]
    assert (tea.content, tea.role, tea.session_id) == ("likes tea", "user", "anna")
    assert (hello.content, hello.role, hello.occurred_at) == ("Hello, Ada.", "assistant", WHEN)
    assert (block.data["collection"], block.data["key"]) == ("letta", "human")
    assert block.data["value"]["text"] == "lives in Rome"
    assert (answer.content, answer.role) == ("42", "tool")
    assert sum(got.said().values()) == 2  # the system, the tools


def two_agents(folder: Path) -> Path:
    """Write a file of two agents with a block each of one label, and one that they share."""
    agents = [
        {"id": "agent-0", "name": "anna", "block_ids": ["b0", "b2"], "messages": []},
        {"id": "agent-1", "name": "bert", "block_ids": ["b1", "b2"], "messages": []},
    ]
    blocks = [
        {"id": "b0", "label": "human", "value": "lives in Rome"},
        {"id": "b1", "label": "human", "value": "lives in Oslo"},
        {"id": "b2", "label": "shared", "value": "be kind"},
    ]
    return write_json(folder / "two.af", {"agents": agents, "blocks": blocks})


def blocks_of(got: Got, user: str) -> dict[tuple[str, str], str]:
    return {
        (one.data["collection"], one.data["key"]): one.data["value"]["text"]
        for one in got.users[user]
    }


async def test_the_blocks_of_several_agents_of_letta_stay_several(imported, tmp_path: Path) -> None:
    got = await imported("letta", two_agents(tmp_path))
    assert blocks_of(got, "me") == {
        ("letta/anna", "human"): "lives in Rome",
        ("letta/bert", "human"): "lives in Oslo",
        ("letta/anna", "shared"): "be kind",
        ("letta/bert", "shared"): "be kind",
    }


async def test_agents_and_blocks_of_one_name(imported, tmp_path: Path) -> None:
    """Agents and blocks of Letta of one name are told apart."""
    own = [{"label": "human", "value": one} for one in ("first", "second")]
    said = [letta_said("yes"), letta_said("yes")]
    agents = [{"id": f"agent-{n}", "name": "anna", "memory_blocks": own, "messages": said}
              for n in range(3)]  # fmt: skip
    path = write_json(tmp_path / "x.af", {"agents": agents, "blocks": [{"label": 1}]})
    got = await imported("letta", path, user_field="agent")
    assert list(got.users) == ["anna", "anna (agent-1)", "anna (agent-2)"]
    for user in got.users:
        assert [one.content for one in got.users[user] if one.role] == ["yes", "yes"]
        assert {one.data["value"]["text"] for one in got.users[user] if one.data} == {
            "first", "second"
        }  # fmt: skip
    assert got.report.left_out == 1


async def test_an_agent_is_not_told_apart_by_the_name_of_another(imported, tmp_path: Path) -> None:
    agents = [{"name": name, "messages": [letta_said("yes")]} for name in ("a", "a (4)", "a", "a")]
    got = await imported(
        "letta", write_json(tmp_path / "x.af", {"agents": agents}), user_field="agent"
    )
    assert list(got.users) == ["a", "a (3)", "a (4)", "a (4) (4)"]


def letta_said(text: str) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": text}]}


async def test_chatgpt(imported, tmp_path: Path) -> None:
    got = await imported("chatgpt", foreign.chatgpt(tmp_path))
    tea, noted, rome, answer = got.users["me"]
    assert (answer.content, answer.role) == ("42", "tool")
    assert (tea.content, tea.role, tea.session_id) == ("likes tea", "user", "c1")
    assert (noted.content, noted.role) == ("Noted.", "assistant")
    assert tea.metadata == {"title": "Tea", "chatgpt_id": "n1"}
    assert tea.occurred_at == datetime.fromtimestamp(1736519400.5, UTC)
    assert (rome.content, rome.session_id) == ("lives in Rome", "c2")
    assert len(got.said()) == 3  # a branch, a picture, the system


async def test_an_archive_may_be_unpacked(store, tmp_path: Path) -> None:
    path = foreign.chatgpt(tmp_path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "unpacked")
    one = shutil.copy(tmp_path / "unpacked/conversations-000.json", tmp_path / "any name")
    async with store() as memory:
        assert (await import_from(memory, "chatgpt", path, user_id="me")).added == 4
        for again in (tmp_path / "unpacked", Path(one)):
            assert (await import_from(memory, "chatgpt", again, user_id="me")).added == 0


@pytest.mark.parametrize(
    "mapping",
    [
        {"a": {"parent": "a", "message": foreign.chatgpt_message("user", "hi"), "id": "a"}},
        {"a": {"parent": "b", "id": "a", "message": foreign.chatgpt_message("user", "hi")},
         "b": {"parent": "a", "id": "b", "message": None}},
    ],
)  # fmt: skip
async def test_a_conversation_in_a_circle_ends(imported, tmp_path: Path, mapping: Any) -> None:
    conversation = {"id": "c", "mapping": mapping, "current_node": "a"}
    got = await imported("chatgpt", write_json(tmp_path / "x.json", [conversation]))
    assert got.texts("me") == ["hi"]


async def test_claude(imported, tmp_path: Path) -> None:
    got = await imported("claude", foreign.claude(tmp_path))
    tea, noted, *facts = got.users["me"]
    assert (tea.content, tea.role, tea.session_id) == ("likes tea", "user", "c1")
    assert (noted.content, noted.role, noted.occurred_at) == ("Noted.", "assistant", WHEN)
    assert [one.content for one in facts] == ["**Work**", "lives in Rome"]
    assert sum(got.said().values()) == 3  # an attachment, a thought, a tool


async def test_a_part_whose_type_is_no_text_is_left_behind(imported, tmp_path: Path) -> None:
    said = {"sender": "human", "content": [{"type": ["text"], "text": "hello"}], "text": "hi"}
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps([{"uuid": "1", "chat_messages": [said]}]))
    got = await imported("claude", path)
    assert got.report.added == 1


@pytest.mark.parametrize("program", ["chatgpt", "claude"])
async def test_an_archive_of_something_else_is_refused(tmp_path: Path, program: str) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        archive.writestr("a.txt", "a")
    with pytest.raises(InvalidInputError, match="has no file that is understood"):
        await plan_import(program, tmp_path / "x.zip")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InvalidInputError, match="has no file that is understood"):
        await plan_import(program, tmp_path / "empty")


# --- notes


async def test_memory_md(imported, tmp_path: Path) -> None:
    got = await imported("memory-md", foreign.memory_md(tmp_path))
    bob, again, milk, _dog, rome = got.users["me"]
    assert (milk.content, milk.metadata) == (
        "likes tea\nwith milk", {"section": "Memory > Preferences", "file": "MEMORY.md"}
    )  # fmt: skip
    assert rome.content == "Lives in Rome,\nnear the river."
    assert (bob.content, again.content) == ("met Bob", "met Bob")
    assert bob.occurred_at == datetime(2025, 1, 10, tzinfo=UTC)


async def test_a_link_is_not_followed(tmp_path: Path) -> None:
    """What a directory links to was not exported with it."""
    (tmp_path / "notes").mkdir()
    (tmp_path / "secret.md").write_text("- a secret\n")
    (tmp_path / "notes/link.md").symlink_to(tmp_path / "secret.md")
    with pytest.raises(InvalidInputError, match="has no Markdown files"):
        await plan_import("memory-md", tmp_path / "notes")
