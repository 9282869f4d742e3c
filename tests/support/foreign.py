"""Files of other programs in their documented formats, written with the standard library alone."""

import json
import sqlite3
import zipfile
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from types import MappingProxyType
from typing import Any

AT = "2025-01-10T14:30:00+00:00"
ADA, BOB = "ada", "bob"


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), "utf-8")
    return path


# --- mem0


def mem0_json(folder: Path) -> Path:
    return write_json(
        folder / "mem0.json",
        {
            "results": [
                mem0_record(
                    "m1", "likes tea", ADA, metadata={"source": "wiki", "trust": "trusted"}
                ),
                mem0_record("m2", "lives in Rome", BOB, run_id="r1", role="user"),
                mem0_record("m3", "has a dog", ADA, categories=["pets"]),
            ]
        },
    )


def mem0_record(own_id: str, memory: str, user_id: str, **more: Any) -> dict[str, Any]:
    plain = {"id": own_id, "memory": memory, "user_id": user_id, "hash": "x", "created_at": AT}
    return {**plain, "updated_at": AT, **more}


# --- databases


def langgraph(folder: Path) -> Path:
    path = folder / "store.sqlite"
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(
            "CREATE TABLE store (prefix text NOT NULL, key text NOT NULL, value text NOT NULL, "
            "created_at TIMESTAMP, updated_at TIMESTAMP, expires_at TIMESTAMP, ttl_minutes REAL, "
            "PRIMARY KEY (prefix, key))"
        )
        for prefix, key, value, expires_at in [
            ("memories.ada", "k1", {"data": "likes tea", "mood": "good"}, None),
            ("memories.bob", "k2", {"city": "Rome", "since": 2020}, None),
            ("memories.ada", "k3", {"data": "is over"}, "2025-02-01 00:00:00+00:00"),
        ]:
            row = (prefix, key, json.dumps(value).encode(), "2025-01-10 14:30:00", expires_at)
            database.execute("INSERT INTO store VALUES (?, ?, ?, ?, NULL, ?, NULL)", row)
    return path


def chroma(folder: Path) -> Path:
    directory = folder / "chroma"
    directory.mkdir()
    with closing(sqlite3.connect(directory / "chroma.sqlite3")) as database, database:
        database.executescript(
            """
            CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
            CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT,
                seq_id BLOB, created_at TIMESTAMP);
            CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT,
                int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));
            CREATE TABLE embedding_metadata_array (id INTEGER, key TEXT, string_value TEXT,
                int_value INTEGER, float_value REAL, bool_value INTEGER);
            INSERT INTO collections VALUES ('c1', 'facts'), ('c2', 'others');
            INSERT INTO segments VALUES ('s1', '', 'METADATA', 'c1'), ('s2', '', 'METADATA', 'c2');
            INSERT INTO embeddings VALUES
                (1, 's1', 'a', 1, '2025-01-10 14:30:00'), (2, 's1', 'b', 2, '2025-01-10 14:30:00'),
                (3, 's2', 'a', 3, '2025-01-10 14:30:00'), (4, 's2', 'c', 4, '2025-01-10 14:30:00');
            INSERT INTO embedding_metadata VALUES
                (1, 'chroma:document', 'likes tea', NULL, NULL, NULL),
                (1, 'user_id', 'ada', NULL, NULL, NULL), (1, 'n', NULL, 7, NULL, NULL),
                (1, 'ok', NULL, NULL, NULL, 1), (1, 'f', NULL, NULL, 1.5, NULL),
                (2, 'chroma:document', 'lives in Rome', NULL, NULL, NULL),
                (2, 'user_id', 'bob', NULL, NULL, NULL),
                (2, 'created_at', '2024-05-01', NULL, NULL, NULL),
                (3, 'chroma:document', 'another a', NULL, NULL, NULL),
                (3, 'user_id', 'ada', NULL, NULL, NULL),
                (4, 'user_id', 'ada', NULL, NULL, NULL),
                (4, 'body', 'in a field', NULL, NULL, NULL);
            INSERT INTO embedding_metadata_array VALUES
                (1, 'tags', 'x', NULL, NULL, NULL), (1, 'tags', 'y', NULL, NULL, NULL);
            """
        )
    return directory


# --- graphs


def mcp_memory(folder: Path) -> Path:
    path = folder / "memory.jsonl"
    lines = [
        {"type": "relation", "from": "Alice", "to": "Acme", "relationType": "works_at"},
        {
            "type": "entity",
            "name": "Alice",
            "entityType": "person",
            "observations": ["likes tea", "has a dog"],
        },
        {"type": "entity", "name": "Rome", "entityType": "city", "observations": []},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), "utf-8")  # no line feed at the end
    return path


def zep(folder: Path) -> Path:
    return write_json(
        folder / "zep.json",
        {
            "edges": [
                {
                    "uuid": "e1", "user_id": ADA, "name": "WORKS_AT", "fact": "Ada works at Acme",
                    "source_node_uuid": "n1", "target_node_uuid": "n2", "created_at": AT,
                    "valid_at": "2024-05-01T00:00:00Z", "invalid_at": "2025-05-01T00:00:00Z",
                },
                {
                    "uuid": "e2", "user_id": ADA, "name": "KNOWS", "created_at": AT,
                    "source_node_uuid": "n1", "target_node_uuid": "nobody",
                },
            ],
            "nodes": [
                {
                    "uuid": "n1", "user_id": ADA, "name": "Ada", "labels": ["Entity", "Person"],
                    "summary": "Ada likes tea.", "attributes": {"age": 36}, "created_at": AT,
                },
                {"uuid": "n2", "user_id": ADA, "name": "Acme", "labels": ["Entity"],
                 "created_at": AT},
            ],
            "messages": [
                {"uuid": "x1", "user_id": BOB, "thread_id": "t1", "role": "user", "name": "Bob",
                 "content": "lives in Rome", "created_at": AT},
            ],
            "tasks": [1],
        },
    )  # fmt: skip


# --- agents and chats


def letta(folder: Path) -> Path:
    """Write an agent file: JSON in a JSON string, as the public ones are."""
    spoken = {"name": "send_message", "arguments": json.dumps({"message": "Hello, Ada."})}
    agent = {
        "name": "anna",
        "messages": [
            letta_message("1", "system", [{"type": "text", "text": "be kind"}]),
            letta_message("2", "user", [{"type": "text", "text": "likes tea"}]),
            letta_message("3", "assistant", [], tool_calls=[{"function": spoken}]),
            letta_message("4", "tool", [{"type": "text", "text": "42"}]),
        ],
    }
    block = {"label": "human", "value": "\nlives in Rome\n", "description": "about the user"}
    whole = {
        "agents": [agent],
        "blocks": [block],
        "tools": [{"name": "t"}],
        "metadata": {"revision": 1},
    }
    return write_json(folder / "anna.af", json.dumps(whole, indent=2))


def letta_message(own_id: str, role: str, content: Any, **more: Any) -> dict[str, Any]:
    return {"id": own_id, "role": role, "content": content, "created_at": AT, **more}


def chatgpt(folder: Path) -> Path:
    """Write the archive of an export: two files of conversations, one of them with a branch."""
    branched = {
        "title": "Tea",
        "conversation_id": "c1",
        "create_time": 1736519400.0,
        "current_node": "n3",
        "mapping": dict(
            [
                chatgpt_node("root", None, ["n1"], None),
                chatgpt_node("n1", "root", ["n2", "n3"], chatgpt_message("user", "likes tea")),
                chatgpt_node("n2", "n1", [], chatgpt_message("assistant", "edited away")),
                chatgpt_node("n3", "n1", [], chatgpt_message("assistant", "Noted.", {"asset": 1})),
            ]
        ),
    }
    other = {
        "title": None,
        "id": "c2",
        "create_time": 1736519400.0,
        "mapping": dict(
            [
                chatgpt_node("a", None, ["b"], chatgpt_message("system", "")),
                chatgpt_node("b", "a", ["c"], chatgpt_message("user", "lives in Rome")),
                chatgpt_node("c", "b", [], chatgpt_message("tool", "42")),
            ]
        ),
    }
    path = folder / "chatgpt.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations-000.json", json.dumps([branched]))
        archive.writestr("conversations-001.json", json.dumps([other]))
        archive.writestr("user.json", "{}")
        archive.writestr("chat.html", "<html>")
    return path


def chatgpt_message(role: str, *parts: Any) -> dict[str, Any]:
    form = "text" if all(isinstance(part, str) for part in parts) else "multimodal_text"
    content = {"content_type": form, "parts": list(parts)}
    return {"author": {"role": role}, "create_time": 1736519400.5, "content": content}


def chatgpt_node(name: str, parent: str | None, children: list[str], message: Any):
    said = message and {"id": name, **message}
    return name, {"id": name, "parent": parent, "children": children, "message": said}


def claude(folder: Path) -> Path:
    """Write the directory that the archive of an export unpacks to."""
    directory = folder / "claude"
    directory.mkdir()
    parts = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "Noted."},
        {"type": "tool_use", "name": "search"},
    ]
    messages = [
        claude_message("u1", "human", text="likes tea", attachments=[{"file_name": "a.txt"}]),
        claude_message("u2", "assistant", text="", content=parts),
    ]
    conversation = {"uuid": "c1", "name": "Tea", "account": {"uuid": "acc"}, "created_at": AT}
    write_json(directory / "conversations.json", [{**conversation, "chat_messages": messages}])
    noted = {"conversations_memory": "**Work**\n\nlives in Rome\n", "account_uuid": "acc"}
    write_json(directory / "memories.json", [noted])
    write_json(directory / "users.json", [{"uuid": "acc"}])
    return directory


def claude_message(own_id: str, sender: str, **more: Any) -> dict[str, Any]:
    return {"uuid": own_id, "sender": sender, "created_at": AT, "content": [], **more}


# --- notes

NOTE = """---
title: Coffee Brewing
type: guide
tags: [coffee, brewing]
permalink: notes/coffee
created: 2025-01-10
---
# Coffee Brewing

Ada likes tea more, see [[Tea]].

## Observations
- [method] Pour over gives clarity #brewing (tested)
- [x] a task that is done

## Relations
- requires [[Grinding]] (always)
- [[Tea]]
"""


def claude_mem(folder: Path) -> Path:
    """Write the tables of claude-mem's newest version, with the keys that programs index by."""
    path = folder / "claude-mem.db"
    with closing(sqlite3.connect(path)) as database, database:
        database.executescript(
            """
            CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY AUTOINCREMENT,
                content_session_id TEXT UNIQUE NOT NULL, memory_session_id TEXT UNIQUE,
                project TEXT NOT NULL, user_prompt TEXT, started_at TEXT NOT NULL,
                started_at_epoch INTEGER NOT NULL, status TEXT NOT NULL DEFAULT 'active');
            CREATE TABLE observations (id INTEGER PRIMARY KEY AUTOINCREMENT,
                memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
                type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT,
                concepts TEXT, files_read TEXT, files_modified TEXT, prompt_number INTEGER,
                created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL);
            CREATE TABLE session_summaries (id INTEGER PRIMARY KEY AUTOINCREMENT,
                memory_session_id TEXT NOT NULL, project TEXT NOT NULL, request TEXT,
                investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT,
                files_edited TEXT, notes TEXT, prompt_number INTEGER, created_at TEXT NOT NULL,
                created_at_epoch INTEGER NOT NULL);
            CREATE TABLE user_prompts (id INTEGER PRIMARY KEY AUTOINCREMENT,
                content_session_id TEXT NOT NULL, prompt_number INTEGER NOT NULL,
                prompt_text TEXT NOT NULL, created_at TEXT NOT NULL,
                created_at_epoch INTEGER NOT NULL);
            INSERT INTO sdk_sessions VALUES
                (1, 'c-1', 'm-1', 'shop', 'Fix the tea timer', '2025-01-10T14:30:00.000Z',
                 1736519400000, 'completed');
            INSERT INTO observations VALUES
                (1, 'm-1', 'shop', NULL, 'decision', 'LMDB for the cart', 'one writer',
                 '["A cart has one writer", "Readers never wait"]', 'We compared it with SQLite.',
                 '["trade-off"]', '[]', '["cart.py"]', 1, '2025-01-10T14:30:00.000Z',
                 1736519400000),
                (2, 'm-2', 'till', 'The till prints twice', 'bugfix', NULL, NULL, NULL, NULL, NULL,
                 'till.py', NULL, 1, '2025-01-10T14:30:00.000Z', 1736519400000);
            INSERT INTO session_summaries VALUES
                (1, 'm-1', 'shop', 'Fix the cart', NULL, 'Locks were held', 'Cart is fixed',
                 NULL, NULL, '["cart.py"]', NULL, 1, '2025-01-10T14:30:00.000Z', 1736519400000);
            INSERT INTO user_prompts VALUES
                (1, 'c-1', 1, 'Fix the tea timer', '2025-01-10T14:30:00.000Z', 1736519400000);
            """
        )
    return path


def mempalace(folder: Path) -> Path:
    """Write a palace: drawers and a closet in Chroma, and a graph beside it."""
    directory = folder / "mempalace"
    (directory / "palace").mkdir(parents=True)
    with closing(sqlite3.connect(directory / "palace" / "chroma.sqlite3")) as store, store:
        store.executescript(
            """
            CREATE TABLE collections (id TEXT PRIMARY KEY, name TEXT NOT NULL);
            CREATE TABLE segments (id TEXT PRIMARY KEY, type TEXT, scope TEXT, collection TEXT);
            CREATE TABLE embeddings (id INTEGER PRIMARY KEY, segment_id TEXT, embedding_id TEXT,
                seq_id BLOB, created_at TIMESTAMP);
            CREATE TABLE embedding_metadata (id INTEGER, key TEXT, string_value TEXT,
                int_value INTEGER, float_value REAL, bool_value INTEGER, PRIMARY KEY (id, key));
            INSERT INTO collections VALUES
                ('c1', 'mempalace_drawers'), ('c2', 'mempalace_closets');
            INSERT INTO segments VALUES ('s1', '', 'METADATA', 'c1'), ('s2', '', 'METADATA', 'c2');
            INSERT INTO embeddings VALUES
                (1, 's1', 'drawer_shop_cart_0', 1, '2026-01-10 14:30:00'),
                (2, 's1', 'drawer_till_printing_0', 2, '2026-01-10 14:30:00'),
                (3, 's2', 'closet_shop_cart_0', 3, '2026-01-10 14:30:00');
            INSERT INTO embedding_metadata VALUES
                (1, 'chroma:document', '> Which store?\nLMDB for the cart of tea.',
                 NULL, NULL, NULL),
                (1, 'wing', 'shop', NULL, NULL, NULL), (1, 'room', 'cart', NULL, NULL, NULL),
                (1, 'source_file', 'chat.jsonl', NULL, NULL, NULL),
                (1, 'chunk_index', NULL, 0, NULL, NULL),
                (1, 'added_by', 'claude', NULL, NULL, NULL),
                (1, 'filed_at', '2026-01-10T14:30:00', NULL, NULL, NULL),
                (1, 'authored_at', '2025-01-10T14:30:00', NULL, NULL, NULL),
                (2, 'chroma:document', 'The till prints twice', NULL, NULL, NULL),
                (2, 'wing', 'till', NULL, NULL, NULL), (2, 'room', 'printing', NULL, NULL, NULL),
                (2, 'filed_at', '2025-01-10T14:30:00', NULL, NULL, NULL),
                (3, 'chroma:document', 'cart|LMDB|drawer_shop_cart_0', NULL, NULL, NULL),
                (3, 'wing', 'shop', NULL, NULL, NULL);
            """
        )
    with closing(sqlite3.connect(directory / "knowledge_graph.sqlite3")) as graph, graph:
        graph.executescript(
            """
            CREATE TABLE entities (id TEXT PRIMARY KEY, name TEXT NOT NULL, type TEXT,
                properties TEXT, created_at TEXT);
            CREATE TABLE triples (id TEXT PRIMARY KEY, subject TEXT NOT NULL,
                predicate TEXT NOT NULL, object TEXT NOT NULL, valid_from TEXT, valid_to TEXT,
                confidence REAL, source_closet TEXT, source_file TEXT, extracted_at TEXT);
            INSERT INTO entities VALUES
                ('max', 'Max', 'person', '{"age": 11}', '2025-01-10 14:30:00'),
                ('alice', 'Alice', 'unknown', '{}', '2025-01-10 14:30:00'),
                ('chess', 'chess', 'unknown', '{}', '2025-01-10 14:30:00');
            INSERT INTO triples VALUES
                ('t1', 'max', 'child_of', 'alice', '2015-04-01', NULL, 1.0, NULL, NULL, NULL),
                ('t2', 'max', 'loves', 'chess', '2025-01-10', '2025-02-10', 0.8, NULL,
                 'chat.jsonl', NULL);
            """
        )
    return directory


def basic_memory(folder: Path) -> Path:
    directory = folder / "notes"
    (directory / "tea").mkdir(parents=True)
    (directory / "coffee.md").write_text(NOTE, "utf-8")
    (directory / "tea" / "Tea.md").write_text("- [taste] bitter\n", "utf-8")
    (directory / "picture.png").write_bytes(b"\x89PNG")
    return directory


MEMORY_MD = """<!-- generated -->
# Memory

## Preferences
- likes tea
  with milk
- has a dog

Lives in Rome,
near the river.
"""


def memory_md(folder: Path) -> Path:
    directory = folder / "agent"
    (directory / "memory").mkdir(parents=True)
    (directory / "MEMORY.md").write_text(MEMORY_MD, "utf-8")
    (directory / "memory" / "2025-01-10.md").write_text("- met Bob\n- met Bob\n", "utf-8")
    return directory


SAMPLES: Mapping[str, tuple[str, Callable[[Path], Path]]] = MappingProxyType(
    {
        "mem0": ("mem0", mem0_json),
        "zep": ("zep", zep),
        "letta": ("letta", letta),
        "langgraph": ("langgraph", langgraph),
        "chroma": ("chroma", chroma),
        "mcp-memory": ("mcp-memory", mcp_memory),
        "chatgpt": ("chatgpt", chatgpt),
        "claude": ("claude", claude),
        "claude-mem": ("claude-mem", claude_mem),
        "mempalace": ("mempalace", mempalace),
        "basic-memory": ("basic-memory", basic_memory),
        "memory-md": ("memory-md", memory_md),
    }
)
"""For each sample the program it is of, and what writes it into a directory."""
