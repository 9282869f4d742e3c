"""A document's blocks stay its blocks: whatever leaves, comes back, is edited or synced."""

from pathlib import Path
from typing import Any

import pytest

from memory_actors import (
    EditBlock,
    InsertBlock,
    InvalidInputError,
    MemoryTool,
    RemoveBlock,
    text_digest,
)
from memory_actors.integrations.context_files import sync

pytestmark = pytest.mark.anyio


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "MEMORY.md"


async def test_archive_sync_and_restore_give_back_the_same_bytes(open_memory, file) -> None:
    """The blank line between two neighbours left with the entry that stood between them."""
    before = "- w\n- x\n\nparagraph\n"
    file.write_text(before)
    async with open_memory() as memory:
        context = memory.user("u").context
        await sync(context, file)
        w, x, paragraph = [entry.entry_id for entry in await context.entries()]
        await context.pin(w)
        await context.archive([x])
        assert (await sync(context, file)).changes == 0
        assert file.read_text() == "- w\n\nparagraph\n"
        assert [one.entry_id for one in await context.entries()] == [w, paragraph]
        await context.restore([x])
        await sync(context, file)
        assert file.read_text() == await context.render() == before
        assert [one.pinned for one in await context.entries()] == [True, False, False]


async def test_an_edit_keeps_what_stands_beside_a_removed_entry(user) -> None:
    context = user.context
    await context.create("r.md", "- w\n- x\n\nNever on Fridays\n")
    rules = context.document("r.md")
    _, x, pinned = [entry.entry_id for entry in await rules.entries()]
    await rules.pin(pinned)
    await rules.remove(x)
    command = {"command": "insert", "path": "/memories/r.md", "insert_line": 0}
    await MemoryTool(user).call({**command, "insert_text": "- top"})
    assert (await rules.get(pinned)).pinned
    assert await rules.render() == "- top\n- w\n\nNever on Fridays\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("```\ncode", "close the fence"),
        ("# a heading", "does not read as one entry"),
        ("one\n\ntwo", "does not read as one entry"),
        ("- one\n- two", "does not read as one entry"),
    ],
)
async def test_a_paragraph_is_edited_to_one_closed_entry(memory, text: str, said: str) -> None:
    context = memory.user("u").context
    await context.create("n.md", "para\n\n- item\n")
    notes = context.document("n.md")
    para, item = [entry.entry_id for entry in await notes.entries()]
    with pytest.raises(InvalidInputError, match=said):
        await notes.edit(para, text)
    await notes.edit(item, text)
    await notes.edit(para, "```\ncode\n```")
    assert [one.text for one in await notes.entries()] == ["```\ncode\n```", text]


async def test_changes_are_public_and_say_what_they_were_made_for(memory) -> None:
    context = memory.user("u").context
    one, two = context.new_entry_id(), context.new_entry_id()
    seen = text_digest(await context.render())
    inserts = [InsertBlock(one, "# T\n", "T", None), InsertBlock(two, "- a\n", None, one)]
    await context.change(inserts, expected=seen)
    await context.change([EditBlock(two, "- b\n"), RemoveBlock(one)])
    assert await context.render() == "- b\n"


NO_CHANGES: tuple[Any, ...] = (
    InsertBlock("i", "- a\n", "Title", None),
    InsertBlock("i", "# T\n", None, None),
    InsertBlock("i", "# T\n- a\n", "T", None),
    InsertBlock("i", 5, None, None),  # type: ignore[arg-type]
    InsertBlock(5, "- a\n", None, None),  # type: ignore[arg-type]
    EditBlock("i", "- a\n- b\n"),
    5,
)


async def test_a_change_that_is_not_one_block_is_refused(memory) -> None:
    context = memory.user("u").context
    for change in NO_CHANGES:
        with pytest.raises(InvalidInputError):
            await context.change([change])
    assert await context.documents() == []


async def test_a_byte_order_mark_hides_no_heading(memory) -> None:
    context = memory.user("u").context
    await context.create("n.md", "\ufeff# Title\n- x\n")
    notes = context.document("n.md")
    await notes.add("Title", "y")
    assert await notes.render() == "\ufeff# Title\n- x\n- y\n"
