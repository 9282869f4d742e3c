"""`--tools files`: the six commands of the memory tool."""

import pytest

from memory_actors import MemorySystem

pytestmark = pytest.mark.anyio
SIX = ["view", "create", "str_replace", "insert", "delete", "rename"]


async def test_files_are_made_changed_and_removed(serve, memory: MemorySystem) -> None:
    async with serve("files") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == SIX

        async def call(name: str, **given: object) -> str:
            done = await client.call_tool(name, given)
            assert not done.is_error, done.content
            assert done.structured_content == {"result": done.content[0].text}
            return done.content[0].text

        await call("create", path="/memories/ann.md", file_text="- likes tea\n")
        await call("insert", path="/memories/ann.md", insert_line=1, insert_text="- lives in Oslo")
        await call("str_replace", path="/memories/ann.md", old_str="tea", new_str="coffee")
        await call("rename", old_path="/memories/ann.md", new_path="/memories/people/ann.md")
        text = await call("view", path="/memories/people/ann.md", view_range=[1, 1])
        assert "- likes coffee" in text
        assert "Oslo" not in text
        assert "people/ann.md" in {one.name for one in await memory.user("ada").context.documents()}
        await call("delete", path="/memories/people")
        assert "ann.md" not in await call("view", path="/memories")


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("view", {"path": "/etc/passwd"}, "/memories"),
        ("view", {}, "missing required field `path`"),
        ("create", {"path": "/memories/../x", "file_text": ""}, ""),
        ("delete", {"path": "/memories/none.md"}, "does not exist"),
    ],
)
async def test_bad_input_is_an_error_that_the_model_reads(serve, name, given, said) -> None:
    async with serve("files") as client:
        done = await client.call_tool(name, given)
    assert done.is_error
    assert said in done.content[0].text
