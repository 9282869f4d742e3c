"""mem0's interface over this memory. test_mem0_parity.py holds it to mem0's own."""

import asyncio
import hashlib
import json
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeEmbedder
from support.llm_server import Server
from support.pages import blocks, check_printed, printed_by

from memory_actors import (
    Conversation,
    ExtractorError,
    MemorySystem,
    Proposal,
    Settings,
    SystemClosedError,
)
from memory_actors.integrations.mem0 import AsyncMemory, Memory, ValidationError
from memory_actors.integrations.mem0 import MemoryError as Mem0Error
from memory_actors.integrations.mem0.shapes import may_own, new_id
from memory_actors.interchange.sources.mem0 import owner_of

PARTS: Any = {
    "embedder": FakeEmbedder(), "alerts": [], "settings": Settings(latency_targets_ms={}),
}  # fmt: skip


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with Memory(tmp_path / "memory", **PARTS) as made:
        yield made


def kept(memory: Any, text: str = "likes tea", **scope: Any) -> str:
    (one,) = memory.add(text, infer=False, **(scope or {"user_id": "u"}))["results"]
    return str(one["id"])


def texts(found: dict[str, Any]) -> list[str]:
    return sorted(one["memory"] for one in found["results"])


# --- one memory


def test_a_message_is_told_in_mem0s_shape(memory: Memory) -> None:
    said = {"role": "user", "content": "likes tea", "name": "bob"}
    scope = {"user_id": "u", "agent_id": "a", "run_id": "r"}
    added = memory.add(said, metadata={"about": "food"}, infer=False, **scope)
    (result,) = added["results"]
    told = {"memory": "likes tea", "event": "ADD", "actor_id": "bob", "role": "user"}
    assert result == {"id": result["id"], **told}
    assert uuid.UUID(result["id"]).version == 8
    one = memory.get(result["id"])
    assert one is not None
    assert one == {
        "id": result["id"], "memory": "likes tea", "hash": hashlib.md5(b"likes tea").hexdigest(),
        "metadata": {"about": "food"}, "score": None, "created_at": one["created_at"],
        "updated_at": one["created_at"], "role": "user", "actor_id": "bob", **scope,
    }  # fmt: skip
    (hit,) = memory.search("tea", filters={"user_id": "u"})["results"]
    assert {**hit, "score": None} == one
    assert 0 <= hit["score"] <= 1
    (listed,) = memory.get_all(filters={"user_id": "u"})["results"]
    assert {**listed, "score": None} == one


def test_an_update_adds_to_metadata(memory: Memory) -> None:
    """An update adds to metadata and leaves scope and first time."""
    memory_id = kept(memory, user_id="u", metadata={"a": 1})
    before: Any = memory.get(memory_id)
    assert memory.update(memory_id, "likes cake", {"b": 2, "user_id": "x"}) == {
        "message": "Memory updated successfully!"
    }
    after: Any = memory.get(memory_id)
    assert (after["memory"], after["metadata"]) == ("likes cake", {"a": 1, "b": 2})
    assert (after["user_id"], after["created_at"]) == ("u", before["created_at"])
    assert after["updated_at"] > before["updated_at"]
    memory.update(memory_id, metadata={"b": 3})
    assert memory.search("cake", filters={"user_id": "u", "b": 3})["results"]


def test_history_tells_of_a_memory_that_is_gone(memory: Memory) -> None:
    memory_id = kept(memory)
    memory.update(memory_id, "likes cake")
    memory.delete(memory_id)
    told = memory.history(memory_id)
    assert [(one["event"], one["old_memory"], one["new_memory"]) for one in told] == [
        ("ADD", None, "likes tea"),
        ("UPDATE", "likes tea", "likes cake"),
        ("DELETE", "likes cake", None),
    ]
    assert [one["is_deleted"] for one in told] == [False, False, True]
    assert len({one["id"] for one in told}) == 3
    assert memory.get(memory_id) is None
    assert memory.history("nobody's") == []


# --- scopes and filters


def test_scopes_narrow_and_a_user_is_not_needed_to_ask(memory: Memory) -> None:
    kept(memory, "one", user_id="u", agent_id="a")
    kept(memory, "two", user_id="v", agent_id="a", run_id="r")
    kept(memory, "three", agent_id="a")
    kept(memory, "four", run_id="r")
    for filters, found in (
        ({"user_id": "u"}, ["one"]),
        ({"user_id": "u", "agent_id": "b"}, []),
        ({"agent_id": "a"}, ["one", "three", "two"]),
        ({"run_id": "r"}, ["four", "two"]),
    ):
        assert texts(memory.get_all(filters=filters)) == found
        assert texts(memory.search("one two three four", filters=filters)) == found
    memory.delete_all(run_id="r")
    assert texts(memory.get_all(filters={"agent_id": "a"})) == ["one", "three"]
    assert len(memory.get_all(filters={"agent_id": "a"}, top_k=1)["results"]) == 1


def test_users_of_two_names_are_never_one() -> None:
    named = [{"user_id": "x"}, {"agent_id": "x"}, {"run_id": "x"}, {"user_id": "agent_id=x"}]
    assert len({owner_of(scope) for scope in named}) == len(named)
    assert owner_of({"user_id": "x", "agent_id": "y"}) == "x"


def test_an_id_tells_whose_memory_it_is() -> None:
    ids = {new_id("ada") for _ in range(100)}
    assert len(ids) == 100
    assert all(may_own("ada", one) and not may_own("bob", one) for one in ids)
    assert may_own("bob", "mem_1") is may_own("bob", str(uuid.uuid4())) is True


def test_what_has_expired_is_shown_only_on_request(memory: Memory) -> None:
    today = datetime.now(UTC).date()
    for text, days in (("old", -2), ("new", 2)):
        memory.add(text, user_id="u", infer=False, expiration_date=today + timedelta(days=days))
    kept(memory, "ever")
    filters = {"user_id": "u"}
    assert texts(memory.get_all(filters=filters)) == ["ever", "new"]
    assert texts(memory.search("old", filters=filters)) == ["ever", "new"]
    assert texts(memory.get_all(filters=filters, show_expired=True)) == ["ever", "new", "old"]
    (one,) = memory.search("old", filters=filters, show_expired=True, top_k=1)["results"]
    memory.update(one["id"], expiration_date=None)
    assert texts(memory.get_all(filters=filters)) == ["ever", "new", "old"]


@pytest.mark.parametrize("wild", ["*", " * "])
def test_a_wildcard_never_reaches_memories_of_others(memory: Memory, wild: str) -> None:
    ids = [kept(memory, name, user_id=name, agent_id="a") for name in ("u", "v")]
    others = kept(memory, "run", run_id="r")
    for scope in ({"user_id": wild}, {"agent_id": wild}, {"run_id": wild}):
        for call in (memory.get_all, lambda **asked: memory.search("u", **asked)):
            with pytest.raises(ValueError, match="nobody's name"):
                call(filters=scope)
        for call in (memory.delete_all, lambda **named: memory.add("x", infer=False, **named)):
            with pytest.raises(ValueError, match="nobody's name"):
                call(**scope)
    with pytest.raises(ValueError, match="nobody's name"):
        memory.delete_all(user_id="u", agent_id=wild)
    assert texts(memory.get_all(filters={"user_id": "u", "agent_id": wild})) == ["u"]
    assert texts(memory.get_all(filters={"user_id": "u", "run_id": wild})) == ["u"]
    assert all(memory.get(one) for one in (*ids, others))


# --- refused


def test_errors_are_of_mem0s_classes(memory: Memory) -> None:
    with pytest.raises(ValidationError) as caught:
        memory.add("x", infer=False)
    assert isinstance(caught.value, Mem0Error)
    assert caught.value.error_code == "VALIDATION_001"
    for wrong in (5, ["x"], [{"role": "user", "content": ""}], [{"role": "user", "content": 5}]):
        with pytest.raises(ValidationError):
            memory.add(wrong, user_id="u", infer=False)
    with pytest.raises(ValueError, match="Top-level"):
        memory.search("x", user_id="u")
    with pytest.raises(TypeError, match="limit"):
        memory.search("x", filters={"user_id": "u"}, limit=5)
    with pytest.raises(NotImplementedError, match="episodes"):
        memory.add("x", user_id="u", agent_id="a", memory_type="procedural_memory")
    assert memory.get_all(filters={"user_id": "u"}) == {"results": []}


# --- facts


def facts(conversation: Conversation) -> list[Proposal]:
    found = [Proposal(text=f"Fact: {one.text}") for one in conversation.messages]
    forgotten = [one.memory_id for one in conversation.facts if "forget me" in one.text]
    return found + [Proposal(action="forget", replaces=one) for one in forgotten]


def test_facts_are_inferred_by_an_extractor_and_scoped(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory", extractor=facts, **PARTS) as memory:
        gone = kept(memory, "forget me")
        scope = {"user_id": "u", "agent_id": "a", "run_id": "r"}
        with pytest.raises(ValidationError):
            memory.add("I like tea")
        added = memory.add("I like tea", metadata={"n": 1}, **scope)["results"]
        assert [(one["event"], one["memory"]) for one in added] == [("ADD", "Fact: I like tea")]
        one: Any = memory.get(added[0]["id"])
        assert {name: one[name] for name in scope} == scope
        assert one["metadata"] == {"n": 1}
        assert texts(memory.get_all(filters=scope)) == ["Fact: I like tea"]
        assert memory.get(gone) is not None, "what has a role is a message, and no fact"
        assert memory.history(one["id"])[0]["event"] == "ADD"


class Slow:
    """Finds a fact in each message, in time; fails where a message says so."""

    name = "slow"

    async def extract(self, conversation: Conversation) -> list[Proposal]:
        await asyncio.sleep(0.01)
        if any("fail" in one.text for one in conversation.messages):
            raise RuntimeError("out of order")
        return facts(conversation)


async def test_adds_at_once_keep_their_own_scope_and_metadata(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "memory", extractor=Slow(), **PARTS) as memory:
        adds = [
            memory.add(f"fact {n}", user_id="u", agent_id=f"a{n}", metadata={"n": n})
            for n in range(8)
        ]
        for n, added in enumerate(await asyncio.gather(*adds)):
            (result,) = added["results"]
            assert result["memory"] == f"Fact: fact {n}"
            one: Any = await memory.get(result["id"])
            assert (one["agent_id"], one["metadata"]) == (f"a{n}", {"n": n})


async def test_updates_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "memory", **PARTS) as memory:
        added = await memory.add("likes tea", user_id="u", metadata={"first": 1}, infer=False)
        memory_id = added["results"][0]["id"]
        names = [f"n{number}" for number in range(8)]
        await asyncio.gather(*(memory.update(memory_id, metadata={name: 1}) for name in names))
        told = await memory.get(memory_id)
        assert told is not None
        assert told["metadata"] == dict.fromkeys(["first", *names], 1)


async def test_a_failed_add_leaves_no_message_to_the_next(tmp_path: Path) -> None:
    async with AsyncMemory(tmp_path / "memory", extractor=Slow(), **PARTS) as memory:
        with pytest.raises(ExtractorError):
            await memory.add("fail", user_id="u", metadata={"n": 1})
        added = (await memory.add("I like tea", user_id="u", metadata={"n": 2}))["results"]
        assert [one["memory"] for one in added] == ["Fact: I like tea"]
        native = (await memory._opened()).user("u")
        kept = await native.list_memories(["short_term"])
        assert [one.content for one in kept] == ["I like tea"]


def test_more_messages_than_a_session_holds_are_all_read(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory", extractor=facts, **PARTS) as memory:
        said = [{"role": "user", "content": f"fact {n}"} for n in range(130)]
        added = memory.add(said, user_id="u")["results"]
        assert [one["memory"] for one in added] == [f"Fact: fact {n}" for n in range(130)]
        long = [{"role": "user", "content": f"{n}" * 15_000} for n in range(3)]
        with Memory(tmp_path / "other", extractor=lambda _: ["one fact"], **PARTS) as other:
            assert len(other.add(long, user_id="u")["results"]) == 1


def test_a_fact_said_again_is_doubled_only_in_another_scope(tmp_path: Path) -> None:
    with Memory(tmp_path / "memory", extractor=facts, **PARTS) as memory:
        for scope in ({"agent_id": "a"}, {"agent_id": "b"}):
            counts = [
                len(memory.add("I like tea", user_id="u", metadata={"n": n}, **scope)["results"])
                for n in range(2)
            ]
            assert counts == [1, 0]
        assert memory.add("I like tea", user_id="u")["results"] == []
        assert len(memory.get_all(filters={"user_id": "u"})["results"]) == 2


def test_delete_all_drops_the_messages_of_a_scope_as_well(tmp_path: Path) -> None:
    shown: list[str] = []

    def listens(conversation: Conversation) -> list[str]:
        shown.extend(one.text for one in conversation.before)
        return []

    with Memory(tmp_path / "memory", extractor=listens, **PARTS) as memory:
        memory.add("a secret", user_id="u", agent_id="a")
        memory.add("I like tea", user_id="u", agent_id="b")
        memory.delete_all(user_id="u", agent_id="a")
        memory.add("and cake", user_id="u", agent_id="a")
        memory.add("and cake", user_id="u", agent_id="b")
        assert shown == ["I like tea"]


def test_a_configuration_of_mem0s_names_the_place_and_the_model(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("openai", reason="openai is not installed")
    fact = {"action": "add", "text": "User likes tea", "fact": None, "messages": [1]}
    server.script = [("says", json.dumps({"proposals": [fact]}))]
    asked = {"model": "tiny", "api_key": "k", "openai_base_url": server.url}
    config = {
        "vector_store": {"provider": "qdrant", "config": {"path": str(tmp_path / "qdrant")}},
        "llm": {"provider": "openai", "config": asked},
        "embedder": {"provider": "openai", "config": {}},
    }
    with Memory({**config}, **PARTS) as memory:
        (added,) = memory.add("I like tea", user_id="u")["results"]
        assert added["memory"] == "User likes tea"
    assert (tmp_path / "qdrant.memory-actors").is_dir()
    assert "'embedder' is passed over" in caplog.text
    assert isinstance(Memory.from_config(config), Memory)
    assert isinstance(AsyncMemory.from_config(config), AsyncMemory)


# --- the store


def test_it_is_the_memory_that_the_api_has(tmp_path: Path) -> None:
    async def native() -> str:
        async with MemorySystem.open(tmp_path / "memory", **PARTS) as opened:
            receipt = await opened.user("u").add("likes rain", metadata={"n": 1})
            return receipt.memory_id

    memory_id = asyncio.run(native())
    with Memory(tmp_path / "memory", **PARTS) as memory:
        one: Any = memory.get(memory_id)
        assert (one["memory"], one["user_id"], one["metadata"]) == ("likes rain", "u", {"n": 1})
        other = kept(memory)
        assert texts(memory.get_all(filters={"user_id": "u"})) == ["likes rain", "likes tea"]
        memory.delete(memory_id)
    with Memory(tmp_path / "memory", **PARTS) as memory:
        assert memory.get(other) is not None
        memory.reset()
        assert memory.get(other) is None
        assert memory.history(other) == []
    with pytest.raises(SystemClosedError):
        memory.get(other)
    memory.close()


async def test_the_async_one_opens_itself_and_opens_again(tmp_path: Path) -> None:
    memory = AsyncMemory(tmp_path / "memory", **PARTS)
    (one,) = (await memory.add("likes tea", user_id="u", infer=False))["results"]
    await memory.close()
    async with memory:
        assert await memory.get(one["id"])
        several = [memory.add(f"fact {n}", user_id="u", infer=False) for n in range(5)]
        await asyncio.gather(*several)
        assert len((await memory.get_all(filters={"user_id": "u"}))["results"]) == 6


pytestmark = pytest.mark.anyio


def test_the_examples_of_the_page_print_what_they_say(tmp_path: Path) -> None:
    for program in blocks("docs/integrations/mem0.md"):
        check_printed(program, printed_by(tmp_path, "-c", program))
