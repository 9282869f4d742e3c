"""`--tools graph`: the reference memory server's tools, on a user's entities."""

from typing import Any

import anyio
import pytest
from suites.npm.differences import DIFFERENCES
from suites.npm.reference import both, compare, ordered
from suites.obtaining import NotObtainedError

from memory_actors import MemorySystem, UserMemory

pytestmark = pytest.mark.anyio
NINE = {
    "create_entities", "create_relations", "add_observations", "delete_entities",
    "delete_observations", "delete_relations", "read_graph", "search_nodes", "open_nodes",
}  # fmt: skip
ANN = {"name": "Ann", "entityType": "person", "observations": ["likes tea"]}
BOB = {"name": "Bob", "entityType": "person", "observations": []}
KNOWS = {"from": "Ann", "to": "Bob", "relationType": "knows"}
SEQUENCES, SEED = 25, 7


@pytest.fixture
async def graph(serve):
    async with serve("graph") as client:

        async def call(name: str, **given: Any) -> Any:
            done = await client.call_tool(name, given)
            return None if done.is_error else ordered(done.structured_content)

        call.client = client  # type: ignore[attr-defined]
        yield call


async def test_there_are_the_nine(graph) -> None:
    assert {tool.name for tool in (await graph.client.list_tools()).tools} == NINE


async def test_the_graph_is_written_and_read(graph) -> None:
    assert await graph("create_entities", entities=[ANN, BOB]) == {"entities": [ANN, BOB]}
    assert await graph("create_relations", relations=[KNOWS]) == {"relations": [KNOWS]}
    found = await graph("search_nodes", query="TEA")
    assert found == {"entities": [ANN], "relations": [KNOWS]}
    assert await graph("open_nodes", names=["Bob"]) == {"entities": [BOB], "relations": [KNOWS]}


async def test_it_is_the_graph_of_the_other_tools_too(graph, memory: MemorySystem) -> None:
    user = memory.user("ada")
    await graph("create_entities", entities=[ANN])
    assert (await user.entities.get("Ann")).observations == ("likes tea",)
    (hit, *_) = await user.retrieve("likes tea")
    assert "likes tea" in hit.content
    await user.entities.add_entity("Bob", "person")
    assert await graph("read_graph") == {"entities": [ANN, BOB], "relations": []}


async def test_a_name_that_is_only_mentioned_is_no_entity_until_it_is_created(graph) -> None:
    await graph("create_relations", relations=[KNOWS])
    assert await graph("read_graph") == {"entities": [], "relations": [KNOWS]}
    assert await graph("open_nodes", names=["Ann"]) == {"entities": [], "relations": []}
    await graph("create_entities", entities=[ANN])
    assert await graph("open_nodes", names=["Ann"]) == {"entities": [ANN], "relations": [KNOWS]}
    await graph("create_entities", entities=[BOB])
    assert await graph("read_graph") == {"entities": [ANN, BOB], "relations": [KNOWS]}


async def test_what_is_mentioned_no_more_is_gone(graph, memory: MemorySystem) -> None:
    await graph("create_relations", relations=[KNOWS])
    await graph("delete_relations", relations=[KNOWS])
    assert await memory.user("ada").count() == 0


async def test_searches_say_where_they_looked_beside_the_shape(graph) -> None:
    done = await graph.client.call_tool("search_nodes", {"query": "nothing like it"})
    assert done.structured_content == {"entities": [], "relations": []}
    assert done.meta["memory-actors/searched"] == {
        "user": "ada", "kinds": ["entity"], "filters": {"query": "nothing like it"},
    }  # fmt: skip
    assert "user 'ada', kind entity" in done.content[1].text


async def test_observations_of_an_unknown_entity_add_nothing_at_all(graph) -> None:
    await graph("create_entities", entities=[BOB])
    given = [{"entityName": "Bob", "contents": ["x"]}, {"entityName": "Ann", "contents": ["y"]}]
    done = await graph.client.call_tool("add_observations", {"observations": given})
    assert done.is_error
    assert done.content[0].text == "Entity with name Ann not found"
    assert await graph("read_graph") == {"entities": [BOB], "relations": []}


class Failing:
    """A user whose entities take so many writes, and then fail."""

    def __init__(self, user: UserMemory, writes: int):
        self._user, self.left = user, writes
        self.entities = self

    def __getattr__(self, name: str) -> Any:
        if name in ("add_entity", "relate", "observe"):
            self.left -= 1
            if self.left < 0:
                raise OSError("a disk")
        if name in ("restore", "delete", "list_memories", "why", "count"):
            return getattr(self._user, name)
        return getattr(self._user.entities, name, None) or getattr(self._user, name)


@pytest.mark.parametrize("writes", range(5))
async def test_a_call_that_fails_half_way_leaves_all_as_it_was(
    serve, memory: MemorySystem, writes: int
) -> None:
    """Also where it had begun to give a mentioned name its entity."""
    async with serve("graph") as client:
        mentions = [{"from": "Cy", "to": "Ann", "relationType": "likes"}, {**KNOWS, "from": "Cy"}]
        await client.call_tool("create_entities", {"entities": [{**BOB, "name": "Cy"}]})
        await client.call_tool("create_relations", {"relations": mentions})
        before = (await client.call_tool("read_graph", {})).structured_content
    async with serve("graph", user=Failing(memory.user("ada"), writes)) as client:
        third = {"name": "Third", "entityType": "t", "observations": []}
        done = await client.call_tool("create_entities", {"entities": [ANN, BOB, third]})
        assert done.is_error
    async with serve("graph") as client:
        after = (await client.call_tool("read_graph", {})).structured_content
    assert ordered(after) == ordered(before)


@pytest.mark.filterwarnings("ignore:resources/subscribe is removed")
async def test_subscribers_are_told_of_changes(serve) -> None:
    told = anyio.Event()

    async def hear(message: Any) -> None:
        if type(message).__name__ == "ResourceUpdatedNotification":
            told.set()

    async with serve("graph", mode="legacy", message_handler=hear) as client:
        await client.subscribe_resource("memory://knowledge-graph")
        await client.call_tool("read_graph", {})
        assert not told.is_set()
        await client.call_tool("create_entities", {"entities": [ANN]})
        with anyio.fail_after(5):
            await told.wait()


async def test_listeners_are_told_of_changes(serve) -> None:
    uri = "memory://knowledge-graph"
    async with serve("graph") as client, client.listen(resource_subscriptions=[uri]) as heard:
        await client.call_tool("create_entities", {"entities": [ANN]})
        with anyio.fail_after(5):
            assert (await anext(aiter(heard))).uri == uri


async def test_the_resource_is_the_graph(graph) -> None:
    await graph("create_entities", entities=[ANN])
    read = await graph.client.read_resource("memory://knowledge-graph")
    assert '"likes tea"' in read.contents[0].text
    assert read.contents[0].mime_type == "application/json"


# --- beside the reference


async def test_random_sequences_are_answered_as_the_reference_answers() -> None:
    """`./scripts/contracts mcp-server-memory` runs 500."""
    try:
        assert await compare(SEQUENCES, SEED) == []
    except NotObtainedError as error:
        pytest.skip(str(error))


async def test_differences_are_what_they_are_said_to_be() -> None:
    try:
        async with both() as servers:
            for one in DIFFERENCES:
                servers.begin(one.name)
                answers = [await servers.call(*call) for call in one.calls]
                assert one.theirs != one.ours
                assert answers[-1] == (ordered(one.theirs), ordered(one.ours)), one.name
    except NotObtainedError as error:
        pytest.skip(str(error))
