"""Files and the memory tool over a real log: what the handle promises is what they rely on."""

import random
from pathlib import Path

import anyio
import pytest

from memory_actors import ContextLimitError, MemoryTool, UserMemory
from memory_actors.integrations.context_files.syncing import sync

pytestmark = pytest.mark.anyio

TEXT = "# Memory\n\n## People\n\n- Ann likes tea\n- Bob plays chess\n\n## Work\n\n- Uses uv\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "MEMORY.md"


async def in_step(user: UserMemory, file: Path) -> str:
    text = file.read_bytes().decode() if file.exists() else ""
    assert text == await user.context.render()
    return text


async def test_both_sides_reach_the_other_and_a_restart_forgets_nothing(open_memory, file) -> None:
    file.write_text(TEXT)
    async with open_memory() as memory:
        user = memory.user("u")
        assert (await sync(user.context, file)).changes == 6
        ids = [entry.entry_id for entry in await user.context.entries()]
        await user.context.add("People", "Cy is new")
        await user.context.edit(ids[2], "Uses uv daily")
    async with open_memory() as memory:
        user = memory.user("u")
        file.write_text(file.read_text().replace("- Ann likes tea\n", "- Ann likes green tea\n"))
        report = await sync(user.context, file)
        text = await in_step(user, file)
        assert "- Ann likes green tea\n" in text
        assert "- Cy is new\n" in text
        assert "- Uses uv daily\n" in text
        assert report.conflicts == ()
        assert [entry.entry_id for entry in await user.context.entries()][:2] == ids[:2]
        assert len(await user.history(ids[0])) == 2
        assert (await sync(user.context, file)).quiet


async def test_a_removed_line_is_removed_and_can_be_restored(user, file) -> None:
    file.write_text(TEXT)
    await sync(user.context, file)
    (bob,) = [one for one in await user.context.entries() if "Bob" in one.text]
    file.write_text(TEXT.replace("- Bob plays chess\n\n", "\n"))
    await sync(user.context, file)
    assert "Bob" not in await in_step(user, file)
    await user.context.restore([bob.entry_id])
    await sync(user.context, file)
    assert "- Bob plays chess\n" in await in_step(user, file)


async def test_archived_entries_come_back_to_the_byte(user, file) -> None:
    mirror = file.with_name("MEMORY-archive.md")
    file.write_text(TEXT)
    await sync(user.context, file)
    ids = [entry.entry_id for entry in await user.context.entries()]
    await user.context.archive(ids)
    await sync(user.context, file)
    assert "- " not in await in_step(user, file)
    assert mirror.read_text().endswith(
        "## People\n\n- Ann likes tea\n- Bob plays chess\n\n## Work\n\n- Uses uv\n"
    )
    await user.context.restore(ids)
    await sync(user.context, file)
    assert await in_step(user, file) == TEXT
    assert mirror.read_text().count("\n") == 1


async def test_the_hard_limit_changes_neither_file_nor_log(user, file) -> None:
    file.write_text(TEXT)
    await sync(user.context, file)
    larger = TEXT + "".join(f"- this is entry number {n} of many\n" for n in range(400))
    file.write_text(larger)
    with pytest.raises(ContextLimitError, match="exceeds hard limit"):
        await sync(user.context, file)
    assert (await user.context.render(), file.read_text()) == (TEXT, larger)
    report = await sync(user.context, file, auto_archive=True)
    assert report.archived
    await in_step(user, file)
    size = await user.context.size()
    assert size.tokens <= size.hard_limit
    assert (await sync(user.context, file)).quiet


async def test_two_syncs_and_a_writer_at_once_end_in_step(user, file) -> None:
    file.write_text(TEXT)
    async with anyio.create_task_group() as tasks:
        for n in range(3):
            tasks.start_soon(sync, user.context, file)
            tasks.start_soon(user.context.add, "Work", f"entry {n}")
    await sync(user.context, file)
    text = await in_step(user, file)
    assert [text.count(f"- entry {n}\n") for n in range(3)] == [1, 1, 1]
    assert text.count("- Ann likes tea\n") == 1


@pytest.mark.parametrize("seed", range(5))
async def test_any_edits_of_both_sides_converge_and_lose_nothing(
    open_memory, file, seed: int
) -> None:
    chance = random.Random(seed)
    async with open_memory(check_replay=False) as memory:
        user = memory.user("u")
        owed: set[str] = set()
        for n in range(40):
            entries = await user.context.entries()
            lines = file.read_text().splitlines(keepends=True) if file.exists() else []
            match chance.randrange(6):
                case 0:
                    await user.context.add(chance.choice(["", "A", "B"]), f"own{n}")
                    owed.add(f"own{n}")
                case 1 if entries:
                    one = chance.choice(entries)
                    await user.context.edit(one.entry_id, f"{one.text} own{n}")
                    owed.add(f"own{n}")
                case 2 if entries and not owed:
                    await user.context.archive([chance.choice(entries).entry_id])
                case 3:
                    lines.insert(chance.randint(0, len(lines)), f"- theirs{n}\n")
                    file.write_text("".join(lines))
                    owed.add(f"theirs{n}")
                case 4 if lines and not owed:
                    del lines[chance.randrange(len(lines))]
                    file.write_text("".join(lines))
                case _:
                    await sync(user.context, file)
                    text = await in_step(user, file)
                    assert all(word in text for word in owed)
                    owed.clear()
                    assert (await sync(user.context, file)).quiet


# --- the memory tool


async def test_the_six_commands_work_on_context_documents(memory, user) -> None:
    tool = MemoryTool(user)

    async def call(command: str, **more: object) -> str:
        return await tool.call({"command": command, **more})

    path = "/memories/trips/rome.md"
    assert "successfully" in await call("create", path=path, file_text="# Rome\n\n- a\n")
    assert "edited" in await call("str_replace", path=path, old_str="- a", new_str="- b")
    assert "edited" in await call("insert", path=path, insert_line=3, insert_text="- c")
    assert "Successfully" in await call("rename", old_path=path, new_path="/memories/r.md")
    assert await user.context.document("r.md").render() == "# Rome\n\n- b\n- c\n"
    assert "16B\t/memories/r.md" in await call("view", path="/memories")
    assert "already exists" in await call("create", path="/memories/r.md", file_text="")
    assert "Successfully" in await call("delete", path="/memories/r.md")
    assert await user.context.documents() == []
    assert await MemoryTool(memory.user("v")).call({"command": "view", "path": path}) == (
        f"The path {path} does not exist. Please provide a valid path."
    )


async def test_the_tool_names_the_limit_and_writes_nothing(user) -> None:
    tool = MemoryTool(user)
    long = "word " * 2_000
    for command in (
        {"command": "create", "path": "/memories/MEMORY.md", "file_text": long},
        {"command": "create", "path": "/memories/MEMORY.md", "file_text": "- a\n"},
        {
            "command": "insert", "path": "/memories/MEMORY.md", "insert_line": 0,
            "insert_text": long,
        },
    ):  # fmt: skip
        said = await tool.call(command)
        assert "hard limit (2,000 tokens)" in said or said.startswith("File created")
    assert await user.context.render() == "- a\n"


@pytest.mark.parametrize("text", ["", "a\r\n\r\n b", "\n\n# T\n- a\n\n```\n", "é\u2028\x0c", "  "])
async def test_a_file_of_the_tool_reads_back_byte_for_byte(open_memory, text: str) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        command = {"command": "create", "path": "/memories/a.md", "file_text": text}
        assert (
            await MemoryTool(user).call(command) == "File created successfully at: /memories/a.md"
        )
    async with open_memory() as memory:
        assert await memory.user("u").context.document("a.md").render() == text
