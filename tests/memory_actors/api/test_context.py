"""Context documents of a whole system: sizes and messages, limits, the archive, many at once."""

import asyncio
import hashlib
from functools import partial
from typing import Any

import pytest
from support.given import pro

from memory_actors import (
    ContextLimitError,
    EditBlock,
    InsertBlock,
    InvalidInputError,
    Limits,
    MemoryType,
    NotFoundError,
    QuotaExceededError,
    StaleDocumentError,
)
from memory_actors.interchange import export_jsonl, import_jsonl

pytestmark = pytest.mark.anyio


@pytest.fixture
def open_memory(open_memory: Any) -> Any:
    """Open a store that counts words: their tokens are easily foretold."""
    return partial(open_memory, token_counter="words")


def words(count: int) -> str:
    return " ".join(["word"] * count)


class Characters:
    """A token a character."""

    name = "characters"

    def count(self, text: str) -> int:
        return len(text)


def digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:16]


# --- sizes, messages, limits


async def test_warning_and_refusal_begin_at_their_limits(open_memory) -> None:
    """At exactly 1,500 and 2,000 tokens."""
    async with open_memory(token_counter=Characters()) as memory:
        context = memory.user("u").context
        (entry_id,) = (await context.add("", "x" * (1_499 - len("- \n")))).entry_ids
        assert (await context.size()).tokens == 1_499
        assert (await context.size()).warning is None
        for tokens in (1_500, 1_999):
            receipt = await context.edit(entry_id, "x" * (tokens - len("- \n")))
            assert receipt.tokens == tokens
            assert receipt.warning.startswith("MEMORY.md approaching soft limit (1,500 tokens)")
        with pytest.raises(ContextLimitError, match=r"hard limit \(2,000 tokens\)"):
            await context.edit(entry_id, "x" * (2_000 - len("- \n")))
        assert (await context.size()).tokens == 1_999


async def test_an_archiving_that_moves_nothing_says_why(open_memory) -> None:
    async with open_memory(token_counter=Characters()) as memory:
        context = memory.user("u").context
        for n in range(9):
            await context.add("", f"{n}" * 97)
        receipt = await context.archive()
        assert (receipt.operation, receipt.archived, receipt.tokens) == ("unchanged", (), 900)
        assert receipt.warning == (
            "Nothing was archived: MEMORY.md has 900 tokens, and up to 900 there is room enough. "
            "Name entries to archive them all the same."
        )
        await context.add("", "x")
        receipt = await context.archive()
        assert (len(receipt.archived), receipt.tokens, receipt.warning) == (4, 504, None)
        everything = [one.entry_id for one in await context.entries()]
        await context.pin(*everything)
        await context.add("", "y" * 900, pinned=True)
        receipt = await context.archive()
        assert receipt.archived == ()
        assert receipt.warning == (
            "MEMORY.md still has 1,407 tokens of 1,407: "
            "what is left is pinned entries and headings. Unpin or remove some."
        )


async def test_over_the_soft_limit_a_write_warns_and_goes_on(memory) -> None:
    context = memory.user("u").context
    await context.add("", words(1152))
    receipt = await context.add("", words(1))
    assert receipt.tokens == 1502
    assert receipt.warning == (
        "MEMORY.md approaching soft limit (1,500 tokens). Consider archiving."
    )
    assert receipt.message.endswith("\nRemaining capacity: 0 tokens")
    assert len(await context.entries()) == 2


async def test_over_the_hard_limit_nothing_is_written(user) -> None:
    await user.context.add("", words(1500))
    before = await user.context.render()
    with pytest.raises(ContextLimitError) as caught:
        await user.context.add("", words(38))
    assert str(caught.value) == (
        "MEMORY.md exceeds hard limit (2,000 tokens). Archive before continuing"
    )
    assert isinstance(caught.value, QuotaExceededError)
    assert await user.context.render() == before
    (entry,) = await user.context.entries()
    assert (await user.context.edit(entry.entry_id, "short")).tokens == 3


async def test_a_lowered_limit_lets_a_document_shrink_but_not_grow(open_memory) -> None:
    async with open_memory() as memory:
        await memory.user("u").context.add("", words(1500))
    async with open_memory(context_soft_tokens=10, context_hard_tokens=20) as memory:
        context = memory.user("u").context
        (entry,) = await context.entries()
        assert (await context.edit(entry.entry_id, words(100))).tokens == 131
        with pytest.raises(ContextLimitError):
            await context.edit(entry.entry_id, words(101))


async def test_a_quota_limits_all_documents_and_raises_alerts(open_memory) -> None:
    limits = pro(Limits(context_entries=2))
    async with open_memory(tiers=limits) as memory:
        user = memory.user("u")
        await user.context.add("", "one")
        await user.context.document("b").add("", "two")
        with pytest.raises(QuotaExceededError, match="2 context entries"):
            await user.context.add("", "three")
        usage = (await user.usage()).kinds["context"]
        assert [(use.quota, use.used) for use in usage.quotas] == [
            ("entries", 2), ("documents", 2), ("bytes", 12),
        ]  # fmt: skip
        assert (await memory.usage()).counts["context"] == 2


# --- many at once


async def test_fifty_that_add_at_once_end_below_the_limit(memory, user) -> None:
    adds = [user.context.add("Work", f"{words(48)} {n}") for n in range(50)]
    receipts = await asyncio.gather(*adds, return_exceptions=True)
    written = [one for one in receipts if not isinstance(one, Exception)]
    refused = [one for one in receipts if isinstance(one, Exception)]
    assert all(isinstance(one, ContextLimitError) for one in refused)
    assert (len(written), len(refused)) == (30, 20)
    assert (await user.context.size()).tokens <= 2_000
    assert len(await user.context.entries()) == 30
    assert (await user.context.render()).count("## Work") == 1
    assert await memory.check_replay() == []


async def test_fifty_adds_at_once_that_may_archive_succeed(user) -> None:
    adds = [user.context.add("", f"{words(48)} {n}", auto_archive=True) for n in range(50)]
    receipts = await asyncio.gather(*adds)
    archived = [one for receipt in receipts for one in receipt.archived]
    assert all(receipt.tokens <= 2_000 for receipt in receipts)
    entries = await user.context.entries()
    assert len(entries) + len(archived) == len({*archived, *(e.entry_id for e in entries)})
    assert len(entries) + len(archived) == 50
    kept = [one.entry_id for one in await user.context.archived()]
    assert sorted(kept) == sorted(archived), "who comes first of those at once is not said"


async def test_two_editors_do_not_overwrite_each_other(memory) -> None:
    """Two that edit the text they saw do not overwrite each other."""
    context = memory.user("u").context
    await context.add("", "old")
    (block,) = await context.blocks()
    seen = digest(await context.render())
    both = [
        context.change([EditBlock(block.block_id, f"- {n}\n")], expected=seen) for n in range(2)
    ]
    results = await asyncio.gather(*both, return_exceptions=True)
    assert [type(one) for one in results if isinstance(one, Exception)] == [StaleDocumentError]


# --- entries


async def test_entries_are_edited_touched_pinned_and_removed(memory, clock) -> None:
    user = memory.user("u", agent_id="agent")
    entry_id = (await user.context.add("Tastes", "tea", pinned=True)).entry_ids[0]
    clock.move(10)
    await user.context.touch(entry_id)
    await user.context.pin(entry_id, pinned=False)
    await user.context.edit(entry_id, "coffee")
    entry = await user.context.get(entry_id)
    assert (entry.section, entry.text, entry.raw) == ("Tastes", "coffee", "- coffee\n")
    assert (entry.pinned, entry.archived) == (False, False)
    assert entry.touched_at.timestamp() * 1e6 == pytest.approx(clock.now_us)
    assert (await user.context.touch()).operation == "unchanged"
    await user.context.remove(entry_id)
    with pytest.raises(NotFoundError):
        await user.context.get(entry_id)
    tags = [one.event for one in await user.history(entry_id)]
    assert tags == ["context.inserted", "context.touched", "context.pinned", "context.edited",
                    "context.removed"]  # fmt: skip


async def test_an_entry_is_a_memory_like_others(user) -> None:
    receipt = await user.add("likes tea", MemoryType.CONTEXT, key="Tastes", metadata={"a": 1})
    assert await user.context.render() == "## Tastes\n\n- likes tea\n"
    got = await user.get(receipt.memory_id)
    assert (got.content, got.memory_type, got.metadata) == ("likes tea", "context", {"a": 1})
    assert got.data["document"] == "MEMORY.md"
    assert [one.memory_id for one in await user.list_memories()] == [receipt.memory_id]
    await user.delete(receipt.memory_id)
    assert await user.context.render() == "## Tastes\n\n"
    (restored,) = await user.restore([receipt.memory_id])
    assert (restored.operation, restored.memory_type) == ("restore", "context")


@pytest.mark.parametrize("section", ["a\nb", "#", " # ", "x" * 600, 1])
async def test_what_cannot_be_a_title_is_refused(memory, section) -> None:
    with pytest.raises(InvalidInputError):
        await memory.user("u").context.add(section, "x")


# --- archive


async def test_only_its_own_search_finds_the_archive(user) -> None:
    """The archive is found by meaning, and only by its own search."""
    ids = [
        (await user.context.add("Tastes", text)).entry_ids[0]
        for text in ("likes green tea", "plays the piano", "lives in Bern")
    ]
    other = (await user.context.document("n").add("", "green tea too")).entry_ids[0]
    await user.context.archive(ids[:2])
    await user.context.document("n").archive([other])
    hits = await user.context.search_archive("tea", top_k=2)
    assert [hit.entry_id for hit in hits] == ids[:2]
    assert (hits[0].section, hits[0].text, hits[0].archived) == (
        "Tastes", "likes green tea", True,
    )  # fmt: skip
    assert 0 <= hits[1].score < hits[0].score <= 1
    assert await user.retrieve("tea") == []
    named = await user.retrieve("tea", memory_types=["context"])
    assert {hit.memory_id for hit in named} == {*ids[:2], other}
    await user.context.restore(ids[:1])
    assert [hit.entry_id for hit in await user.context.search_archive("tea")] == ids[1:2]


async def test_archive_and_restore_give_the_bytes_and_the_history_back(open_memory) -> None:
    async with open_memory() as memory:
        user = memory.user("u")
        for section, text in (("A", "one"), ("A", "two\nlines"), ("B", "three")):
            await user.context.add(section, text)
        before = await user.context.render()
        archived = await user.context.archive([e.entry_id for e in await user.context.entries()])
        assert "one" not in await user.context.render()
        ids = archived.archived[::-1]
    async with open_memory() as memory:
        user = memory.user("u")
        assert [one.text for one in await user.context.archived()] == ["one", "two\nlines", "three"]
        for entry_id in ids:
            await user.context.restore([entry_id])
        assert await user.context.render() == before
        tags = [one.event for one in await user.history(ids[0])]
        assert tags == ["context.inserted", "context.archived", "context.restored"]


async def test_an_add_makes_room_and_says_what_went(memory, clock) -> None:
    """Room is made on the way, and the receipt says what went."""
    context = memory.user("u").context
    ids = []
    for n in range(10):
        clock.move(1)
        ids.append((await context.add("", f"{words(148)} {n}")).entry_ids[0])
    receipt = await context.add("", words(100), auto_archive=True)
    assert receipt.archived == tuple(ids[:7])
    assert receipt.tokens <= 900
    assert [one.entry_id for one in await context.archived()] == ids[:7]
    assert (await context.add("", "x", auto_archive=True)).archived == ()
    edited = await context.edit(ids[9], words(1400), auto_archive=True)
    assert (len(edited.archived), edited.tokens <= 2_000) == (2, True)


# --- documents


async def test_what_a_file_had_is_noted_in_the_same_append(memory) -> None:
    context = memory.user("u").context
    assert await context.synced() is None
    new = InsertBlock(context.new_entry_id(), "- x\n", None, None)
    base = [(new.block_id, digest("- x\n"))]
    await context._note_synced(base, [new], expected=digest(""))
    assert await context.synced() == tuple(base)
    assert await context.render() == "- x\n"
    assert (await context._note_synced(base)).operation == "unchanged"


async def test_an_export_carries_documents_and_archives_exactly(memory, tmp_path) -> None:
    source, target = "u", "v"
    user = memory.user(source)
    await user.context.create("n.md", "para\n\n# T\r\n* a\n  b\n\n```\n- c\n```\nlast")
    await user.context.create("empty.md")
    for n, section in enumerate(["", "A", "A", "B"]):
        await user.context.add(section, f"entry {n}", pinned=n == 1, metadata={"n": n})
    entries = await user.context.entries()
    await user.context.archive([entries[0].entry_id, entries[2].entry_id])
    await export_jsonl(user, tmp_path / "x.jsonl")
    copy = memory.user(target)
    report = await import_jsonl(copy, tmp_path / "x.jsonl")
    assert report.added > 0
    assert (await import_jsonl(copy, tmp_path / "x.jsonl")).added == 0
    for name in ("MEMORY.md", "n.md", "empty.md"):
        old, new = user.context.document(name), copy.context.document(name)
        assert await new.render() == await old.render()
        assert await new.blocks() == await old.blocks()
        assert await new.entries() == await old.entries()
        assert await new.archived() == await old.archived()
    assert [i.name for i in await copy.context.documents()] == ["MEMORY.md", "empty.md", "n.md"]
    hits = await copy.context.search_archive("entry 2", top_k=1)
    assert [hit.entry_id for hit in hits] == [entries[2].entry_id]
    await export_jsonl(copy, tmp_path / "y.jsonl")
    assert (tmp_path / "y.jsonl").read_bytes() == (tmp_path / "x.jsonl").read_bytes()
    await user.context.restore([entries[0].entry_id, entries[2].entry_id])
    await copy.context.restore([entries[0].entry_id, entries[2].entry_id])
    assert await copy.context.render() == await user.context.render()
