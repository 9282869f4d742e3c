"""Refusals of context documents: too much, before any work on it, and wrong arguments."""

import asyncio
from typing import Any

import pytest

from memory_actors import (
    ContextFileError,
    InvalidInputError,
    MemoryTool,
    NotFoundError,
    QuotaExceededError,
)
from memory_actors.api import user_context
from memory_actors.integrations.context_files import sync, watch
from memory_actors.integrations.memory_tool import tool
from memory_actors.users.handles.context_document import ContextDocument

pytestmark = pytest.mark.anyio
TOO_LARGE = "-\n" * 200_000


async def test_a_text_too_large_is_refused_before_parsing(open_memory, monkeypatch) -> None:
    """A text over the bytes of a document is refused before it is taken apart.

    That would hold up every other user for seconds.
    """
    async with open_memory() as memory:
        user = memory.user("u")
        await user.context.create("y", "- a\n")
        monkeypatch.setattr(user_context, "align", None)
        monkeypatch.setattr(tool, "align", None)
        with pytest.raises(QuotaExceededError, match="64 KB"):
            await user.context.create("x", TOO_LARGE[: 100 << 10])
        command = {"command": "insert", "path": "/memories/y", "insert_line": 0}
        said = await MemoryTool(user).call({**command, "insert_text": TOO_LARGE})
        assert said.startswith("Error: y would take more than 64 KB")
        assert said.endswith("Shorten or delete something first.")


async def test_too_many_entries_are_refused_by_what_was_asked_for(open_memory) -> None:
    async with open_memory(context_hard_tokens=100_000) as memory:
        with pytest.raises(QuotaExceededError, match="make 30,000 context entries of 0"):
            await memory.user("u").context.create("x", "-\n" * 30_000)


async def test_what_is_no_argument_is_refused_as_such(open_memory, tmp_path) -> None:
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    bad: Any = None
    async with open_memory() as memory:
        context = memory.user("u").context
        for call in (
            context.restore(bad), context.archive(5), context.edit([], "x"), context.change([5]),
            context.add("", "x", pinned="yes"), sync(context, bad),
            anext(watch(context, "x", interval_s=-1)), anext(watch(context, bad)),
        ):  # fmt: skip
            with pytest.raises(InvalidInputError):
                await call
        for path in ("a\0b", loop):
            with pytest.raises(ContextFileError, match="leads to no file"):
                await sync(context, path)


async def test_a_counter_that_counts_nothing_is_refused_at_the_start(open_memory) -> None:
    with pytest.raises(InvalidInputError, match="token_counter"):
        async with open_memory(token_counter=None):
            pass


async def test_an_archiving_that_frees_too_little_says_why(open_memory) -> None:
    async with open_memory(context_soft_tokens=10, context_hard_tokens=20) as memory:
        context = memory.user("u").context
        await context.add("", "one two three four five", pinned=True)
        receipt = await context.archive()
        assert (receipt.operation, receipt.archived) == ("unchanged", ())
        assert "pinned entries and headings" in (receipt.warning or "")
        await context.pin((await context.entries())[0].entry_id, pinned=False)
        assert (await context.archive()).warning is None


async def test_one_entry_is_got_without_the_texts_of_the_others(open_memory, monkeypatch) -> None:
    async with open_memory() as memory:
        context = memory.user("u").context
        ids = [(await context.add("S", text)).entry_ids[0] for text in ("a", "b", "c")]
        await context.archive(ids[:2])
        monkeypatch.setattr(ContextDocument, "archived", None)
        got = [await context.get(one) for one in ids]
        assert [(one.text, one.section, one.archived) for one in got] == [
            ("a", "S", True), ("b", "S", True), ("c", "S", False)
        ]  # fmt: skip
        with pytest.raises(NotFoundError):
            await context.document("other").get(ids[0])


async def test_several_documents_are_renamed_or_deleted_all_or_none(memory) -> None:
    context = memory.user("u").context
    for name in ("a", "b", "c"):
        await context.create(name, f"- {name}\n")
    for wrong in ({"a": "x", "b": "c"}, {"a": "x", "b": "x"}, {"a": "x", "none": "y"}):
        with pytest.raises((InvalidInputError, NotFoundError)):
            await context.rename_all(wrong)
    with pytest.raises(NotFoundError):
        await context.delete_all(["a", "none"])
    assert [one.name for one in await context.documents()] == ["a", "b", "c"]
    await context.rename_all({"a": "x", "b": "y"})
    await context.delete_all(["c", "x"])
    assert [one.name for one in await context.documents()] == ["y"]


@pytest.mark.no_http
async def test_who_comes_second_reads_the_documented_texts(memory) -> None:
    call = MemoryTool(memory.user("u")).call

    def create(path: str, text: str = "x") -> dict[str, str]:
        return {"command": "create", "path": path, "file_text": text}

    def rename(old: str, new: str) -> dict[str, str]:
        return {"command": "rename", "old_path": old, "new_path": new}

    said = await asyncio.gather(*(call(create("/memories/r")) for _ in range(3)))
    assert sorted(said)[:2] == ["Error: File /memories/r already exists"] * 2
    moves = [rename("/memories/r", f"/memories/q{n}") for n in range(3)]
    said = await asyncio.gather(*map(call, moves))
    assert sorted(said)[:2] == ["Error: The path /memories/r does not exist"] * 2
    assert "more than blanks" in await call(create("/memories/ "))


async def test_a_directory_moves_as_a_whole_or_not_at_all(user) -> None:
    call = MemoryTool(user).call
    for name in ("d/s", "d/" + "y" * 400):
        await call({"command": "create", "path": f"/memories/{name}", "file_text": "x"})
    before = await user.context.documents()
    to = "/memories/" + "z" * 300
    said = await call({"command": "rename", "old_path": "/memories/d", "new_path": to})
    assert said.startswith("Error: ")
    assert await user.context.documents() == before
