"""The default tools: what a model reads of them, and what it gets."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError, MemorySystem, Settings, UserMemory
from memory_actors.integrations.mcp.memory_tools import MANY_MAX, TOOLS
from memory_actors.integrations.mcp.serving import TOOL_SETS
from memory_actors.integrations.mcp.tool import Tool, schema

pytestmark = pytest.mark.anyio
NAME = re.compile(r"[a-z][a-z_]{2,30}")
CHARACTERS_MAX = 12_000  # of all tools together: a model reads them again and again
DESCRIPTION_MAX = 500


def example_of(tool: Tool) -> dict[str, Any]:
    return json.loads(tool.description.partition("\nExample: ")[2])


async def test_ten_tools_with_all_schemas_take_at_most_12_000_characters(serve) -> None:
    async with serve() as client:
        listed = (await client.list_tools()).tools
    assert len({tool.name for tool in listed}) == len(listed) <= 10
    said = [json.dumps(tool.model_dump(by_alias=True, exclude_none=True)) for tool in listed]
    assert sum(map(len, said)) <= CHARACTERS_MAX


def parts_of(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield a schema and all schemas in it."""
    yield schema
    for one in [*schema.get("properties", {}).values(), *filter(None, [schema.get("items")])]:
        yield from parts_of(one)


@pytest.mark.parametrize("tool_set", list(TOOL_SETS))
async def test_schemas_keep_to_the_subset_that_all_clients_take(serve, tool_set: str) -> None:
    """One type each, no union, no reference, typed items; nothing that is not looked at."""
    async with serve(tool_set) as client:
        listed = (await client.list_tools()).tools
    for tool in listed:
        for part in [*parts_of(tool.input_schema), *parts_of(tool.output_schema)]:
            assert isinstance(part["type"], str)
            assert part.keys() <= {
                "type", "description", "enum", "items", "properties", "required",
            }  # fmt: skip
            assert (part["type"] == "array") == ("items" in part)


async def test_the_same_thing_has_the_same_name_in_each_tool(serve) -> None:
    async with serve() as client:
        listed = (await client.list_tools()).tools
        takes = {tool.name: tool.input_schema["properties"] for tool in listed}
        assert all("limit" in takes[name] for name in ("recall", "list_memories", "look_up"))
        assert not {"top_k", "memory_id", "entity_ref"} & {n for one in takes.values() for n in one}
        stored = (
            await client.call_tool("remember", {"content": "Ann likes tea"})
        ).structured_content
        related = {"source": "Ann", "relation": "works_at", "target": "Acme"}
        await client.call_tool("relate", related)
        for name, given in (("recall", {"query": "tea"}), ("list_memories", {})):
            found = (await client.call_tool(name, given)).structured_content["memories"]
            assert stored["id"] in [one["id"] for one in found]
        known = (await client.call_tool("look_up", {"id": "Ann", "limit": 1})).structured_content
        assert (await client.call_tool("look_up", {"id": known["id"]})).structured_content[
            "name"
        ] == "Ann"
        for one in (stored["id"], known["id"], known["relationships"][0]["id"]):
            assert not (await client.call_tool("get_memory", {"id": one})).is_error


@pytest.mark.parametrize(("name", "given"), [("recall", {"query": "tea"}), ("list_memories", {})])
async def test_what_one_agent_wrote_is_asked_for_alone(
    serve, memory: MemorySystem, name: str, given: dict[str, Any]
) -> None:
    for agent in ("cook", "nurse"):
        await memory.user("ada", agent_id=agent).add(f"{agent} says: tea is fine")
    async with serve() as client:
        found = await client.call_tool(name, {**given, "agent_id": "nurse"})
        none = await client.call_tool(name, {**given, "agent_id": "nobody"})
    assert [one["agent_id"] for one in found.structured_content["memories"]] == ["nurse"]
    assert none.structured_content["memories"] == []
    assert none.structured_content["searched"]["agent_id"] == "nobody"


@pytest.mark.parametrize(
    ("name", "given", "plain"),
    [
        ("recall", {"query": "tea", "limit": 3.0}, {"query": "tea", "limit": 3}),
        ("recall", {"query": "tea", "limit": "3"}, {"query": "tea", "limit": 3}),
        ("recall", {"query": "tea", "top_k": 3, "since": None}, {"query": "tea", "limit": 3}),
        (
            "recall", {"query": "tea", "memory_types": '["long_term"]', "filters": '{"a": null}'},
            {"query": "tea", "memory_types": ["long_term"], "filters": {"a": None}},
        ),
        (
            "recall", {"query": "[1]", "memory_types": "long_term"},
            {"query": "[1]", "memory_types": ["long_term"]},
        ),
        ("list_memories", {"limit": 1e1, "offset": "0"}, {"limit": 10, "offset": 0}),
        (
            "remember", {"content": "null", "metadata": None, "occurred_at": None, "pinned": None},
            {"content": "null"},
        ),
        ("remember", {"content": "x", "pinned": "true"}, {"content": "x", "pinned": True}),
        (
            "remember_many", {"items": '[{"content": "x", "metadata": "{\\"a\\": 1}"}]'},
            {"items": [{"content": "x", "metadata": {"a": 1}}]},
        ),
        ("remember_many", {"items": {"content": "x"}}, {"items": [{"content": "x"}]}),
        ("delete_memory", {"memory_id": "mem_0123"}, {"id": "mem_0123"}),
        ("look_up", {"id": "Ann", "ended": "false"}, {"id": "Ann", "ended": False}),
        (
            "recall", {"query": "tea", "limit": " ", "filters": "", "memory_types": "null"},
            {"query": "tea"},
        ),
        ("recall", {"query": "tea", "limit": " 3 "}, {"query": "tea", "limit": 3}),
        ("remember", {"content": " null", "pinned": ""}, {"content": " null"}),
    ],
)  # fmt: skip
def test_arguments_are_read_as_clients_write_them(name: str, given: Any, plain: Any) -> None:
    """Whole floats, numbers as text, nothing for optional fields, arrays and objects as JSON."""
    (tool,) = [one for one in TOOLS if one.name == name]
    assert tool.arguments(given) == tool.arguments(plain)


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("recall", {"query": "x", "max": 3}, "there is no argument `max`: did you mean `"),
        ("recall", {"query": "x", "limits": 3}, "`limits`: did you mean `limit`? It takes query, "),
        ("remember_many", {"items": [{"contents": "x"}]}, "`contents`: did you mean `content`?"),
        ("create_entities", {"entity": []}, "`entity`: did you mean `entities`? It takes entities"),
        ("recall", {"query": "x", "topK": 3}, "`topK`: did you mean `limit`?"),
        ("recall", {"query": "x", "memoryTypes": []}, "did you mean `memory_types`?"),
        ("delete_memory", {"memoryId": "mem_0123"}, "`memoryId`: did you mean `id`?"),
        ("remember", {"content": None}, "Expected `str`, got `null`"),
        ("recall", {"query": "x", "limit": 3.5}, "Expected `int"),
        ("recall", {"query": "x", "limit": "many"}, "Expected `int"),
    ],
)
def test_an_argument_that_is_refused_is_named_with_the_closest_one(name, given, said) -> None:
    (tool,) = [one for tools in TOOL_SETS.values() for one in tools if one.name == name]
    with pytest.raises(InvalidInputError) as refused:
        tool.arguments(given)
    assert str(refused.value).startswith(f"{name}: ")
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("get_memory", {"id": "mem_none"}), ("delete_memory", {"id": "mem_none"}),
        ("recall", {"query": "x", "limit": -1}), ("recall", {"query": ""}),
        ("explain_memory", {"id": "mem_none"}), ("look_up", {"id": "Ann", "limit": 0}),
        ("update_memory", {"id": "mem_none", "content": "x"}), ("remember", {"content": ""}),
        ("list_memories", {"filters": {"$x": 1}}),
    ],
)  # fmt: skip
async def test_an_error_names_the_tool_and_not_the_python_call(serve, memory, name, given) -> None:
    await memory.user("ada").entities.add_entity("Ann")
    async with serve() as client:
        done = await client.call_tool(name, given)
    assert done.is_error
    said = done.content[0].text
    assert said.startswith(f"{name}: ")
    assert not re.search(r"top_k|memory_id|entity_ref|`why`|add_entity|\(\)", said), said


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)
def test_a_model_is_told_what_when_and_how(tool: Tool) -> None:
    what, when, example = tool.description.split("\n")
    assert NAME.fullmatch(tool.name)
    assert len(tool.description) <= DESCRIPTION_MAX
    assert what.endswith(".")
    assert when.startswith("Use when ")
    assert example.startswith("Example: {")
    tool.arguments(example_of(tool))  # it would be accepted
    described = schema(tool.takes)
    assert described["type"] == "object"
    for name, one in described["properties"].items():
        assert one["description"], name


async def test_every_example_works(serve, memory: MemorySystem) -> None:
    """The examples, with an id that is there, are no errors; results fit the schemas."""
    async with serve() as client:
        await client.list_tools()  # from then on the client checks results by their schemas
        for tool in TOOLS:
            known = await memory.user("ada").add(f"A fact for {tool.name}")
            given = example_of(tool)
            given |= {"id": known.memory_id} if str(given.get("id")).startswith("mem_") else {}
            done = await client.call_tool(tool.name, given)
            assert not done.is_error, (tool.name, done.content)
            assert json.loads(done.content[0].text) == done.structured_content


@pytest.mark.parametrize("name", ["recall", "list_memories"])
async def test_an_empty_answer_says_where_was_searched(serve, memory, name: str) -> None:
    await memory.user("ada").add("Ann likes tea", metadata={"topic": "drinks"})
    given = {"memory_types": ["long_term", "entity"], "filters": {"topic": "cars"}}
    query = {"query": "tea", "since": "2020-01-01"} if name == "recall" else {}
    async with serve() as client:
        found = (await client.call_tool(name, {**given, **query})).structured_content
    assert found["memories"] == []
    searched = found["searched"]
    assert searched["user"] == "ada"
    assert searched["kinds"] == ["long_term", "entity"]
    assert searched["filters"] == {"topic": "cars"}
    assert searched.get("query") == query.get("query")
    assert searched.get("since") == query.get("since")
    assert "1 memories of these kinds" in found["note"]


async def test_looking_up_an_unknown_name(serve) -> None:
    """Looking up a name that is not there says what is near."""
    async with serve() as client:
        given = {"source": "Ann", "relation": "works_at", "target": "Acme"}
        await client.call_tool("relate", given)
        known = (await client.call_tool("look_up", {"id": "Ann"})).structured_content
        unknown = (await client.call_tool("look_up", {"id": "Anne"})).structured_content
    (link,) = known["relationships"]
    assert [link[name] for name in ("source", "relation", "target")] == [*given.values()]
    assert known["searched"]["user"] == "ada"
    assert "name" not in unknown
    assert unknown["searched"]["kinds"] == ["entity"]
    assert any("Ann" in one for one in unknown["similar"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"valid_from": "never"}, {"relation": " "}, {"fact": ""}, {"valid_to": "2020-01-01"},
        {"valid_from": "2021-01-01", "valid_to": "2020-01-01"}, {"target": " "},
    ],
)  # fmt: skip
async def test_a_relation_that_is_refused_adds_no_names(serve, memory, wrong) -> None:
    given = {"source": "Ann", "relation": "works_at", "target": "Acme", **wrong}
    async with serve() as client:
        assert (await client.call_tool("relate", given)).is_error
    assert await memory.user("ada").count() == 0


async def test_an_id_that_nothing_has_is_no_name(serve, memory) -> None:
    """A slip in an id would else make an entity that is named so."""
    user = memory.user("ada")
    ann = (await user.entities.add_entity("Ann")).memory_id
    fact = (await user.add("Ann likes tea")).memory_id
    given = {"source": ann, "relation": "works_at"}
    async with serve() as client:
        for target in (ann[:-1], ann + "0", ann.replace("0", "o", 1), ann[:-1] + "x", fact):
            done = await client.call_tool("relate", {**given, "target": target})
            assert done.is_error
            assert f"no entity has the id '{target}'" in done.content[0].text
        done = await client.call_tool("relate", {**given, "target": "mem_cache"})
        assert not done.is_error
    known = await user.list_memories(["entity"])
    assert {one.data.get("name", "a relation") for one in known} == {
        "Ann",
        "mem_cache",
        "a relation",
    }


async def test_the_log_knows_which_program_wrote(serve, memory) -> None:
    from mcp import Implementation

    info = Implementation(name="Claude Code", version="1")
    async with serve(client_info=info) as client:
        done = await client.call_tool("remember", {"content": "Ann likes tea"})
        recalled = await client.call_tool("recall", {"query": "tea"})
    why = await memory.user("ada").why(done.structured_content["id"])
    assert why.steps[0].agent_id == "Claude Code"
    assert recalled.structured_content["memories"][0]["agent_id"] == "Claude Code"


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("remember", {}, "missing required field `content`"),
        ("remember", {"content": 7}, "Expected `str`, got `int`"),
        ("remember", {"content": "x", "contnet": "red"}, "did you mean `content`?"),
        ("remember", {"content": " "}, "content is empty"),
        ("recall", {"query": "x", "memory_types": ["dreams"]}, "Invalid enum value 'dreams'"),
        ("recall", {"query": "x", "since": "yesterday"}, "is not ISO 8601"),
        ("recall", {"query": "x", "limit": 0}, "recall: limit must be"),
        ("list_memories", {"filters": {"or": 3}}, "or"),
        ("get_memory", {"id": "mem_none"}, "explain_memory tells what became of it"),
        ("update_memory", {"id": "mem_none"}, "give what changes, such as content"),
        ("remember_many", {"items": []}, "length"),
        ("remember_many", {"items": [{"content": "x"}] * (MANY_MAX + 1)}, "length"),
    ],
)  # fmt: skip
async def test_bad_input_is_an_error_that_the_model_reads(serve, name, given, said) -> None:
    async with serve() as client:
        done = await client.call_tool(name, given)
        assert done.is_error
        assert said in done.content[0].text
        again = await client.call_tool("remember", {"content": "Ann likes tea"})
        assert not again.is_error


async def test_what_is_wrong_on_this_side_is_told_without_details(serve) -> None:
    class Broken:
        user_id = "ada"

        async def add(self, **_given: Any) -> None:
            raise RuntimeError("/home/ada/secret.key")

    async with serve(user=Broken()) as client:
        done = await client.call_tool("remember", {"content": "x"})
    assert done.is_error
    assert "secret" not in done.content[0].text


# --- progress, cancellation, all or none

MANY = [{"content": f"Fact number {number}"} for number in range(40)]


class Watched:
    """A user whose batches say that they begin."""

    def __init__(self, user: UserMemory):
        self._user = user
        self.begins = anyio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._user, name)

    async def add_many(self, items: Any) -> Any:
        self.begins.set()
        return await self._user.add_many(items)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_cancelled_call_leaves_all_or_nothing(serve, memory, mode: str) -> None:
    user, counts = Watched(memory.user("ada")), set()
    async with serve(user=user, mode=mode) as client, anyio.create_task_group() as tasks:
        tasks.start_soon(client.call_tool, "remember_many", {"items": MANY})
        with anyio.fail_after(10):
            await user.begins.wait()
        tasks.cancel_scope.cancel()
    for _ in range(20):
        counts.add(await user.count())
        await anyio.sleep(0.01)
    assert counts <= {0, 40}


async def test_what_waits_is_reviewed_with_tools_of_their_own(serve, tmp_path: Path) -> None:
    settings = Settings(review="untrusted")
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder(), settings=settings) as memory:
        user = memory.user("ada")
        for text in ("Ann likes tea", "Ann is rich"):
            await user.from_source("mail", "untrusted").add(text)
        async with serve("memory", user=user) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert not names & {tool.name for tool in TOOL_SETS["review"]}
        async with serve("review", user=user) as client:
            waiting = await client.call_tool("pending_memories", {})
            rich, tea = [one["id"] for one in waiting.structured_content["memories"]]
            await client.call_tool("approve_memories", {"memory_ids": [tea]})
            await client.call_tool("reject_memories", {"memory_ids": [rich]})
            assert (await client.call_tool("approve_memories", {"memory_ids": [rich]})).is_error
        assert [one.content for one in await user.list_memories()] == ["Ann likes tea"]
        assert await user.pending() == []
