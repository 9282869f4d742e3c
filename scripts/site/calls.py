"""A call of each public method: the examples of the site's API page, which the tests run.

A line belongs to the method that it calls.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from memory_actors import (
    Conversation,
    EditBlock,
    Item,
    MemorySystem,
    Proposal,
    Settings,
    UserMemory,
)


def extractor(conversation: Conversation) -> list[Proposal]:
    """Propose two facts."""
    ids = (conversation.messages[0].memory_id,)
    facts = ("Ada asked for tea", "Ada was at home on Monday")
    return [Proposal(action="add", text=fact, message_ids=ids) for fact in facts]


async def of_a_user(user: UserMemory) -> None:
    receipt = await user.add("Ada likes green tea", metadata={"topic": "drinks"})
    old = datetime.now(UTC) - timedelta(days=200)
    walks = [f"Walked the dog at {hour} " + "in the park by the river " * 15 for hour in range(8)]
    await user.add_many([Item(content=walk, occurred_at=old) for walk in walks])
    await user.add_with_auto_prune("Ada moved to Leeds")
    await user.turn("Is there any tea left?", role="user", session_id="monday")
    hits = await user.retrieve("What does Ada drink?", top_k=3)
    prompt = await user.context("What does Ada drink?", token_budget=2_000)
    tea = await user.get(receipt.memory_id)
    memories = await user.list_memories(["long_term"], contains="tea", limit=20)
    number = await user.count({"topic": "drinks"})
    await user.update(receipt.memory_id, content="Ada likes black tea")
    steps = await user.history(receipt.memory_id)
    print((await user.why(receipt.memory_id)).says)
    memory_id = await user.full_id(receipt.memory_id[:24])
    await user.delete(receipt.memory_id)
    await user.restore([receipt.memory_id])
    await user.delete_many({"topic": "drinks"})
    used = await user.usage()
    print((await user.estimate_monthly_cost()).total_usd)
    await user.set_tier("pro")
    async for one in user.export():
        print(one.content)


async def of_what_is_kept(user: UserMemory) -> None:
    extraction = await user.extract("monday")
    pending = await user.pending()
    await user.approve([pending[0].memory_id])
    await user.reject([one.memory_id for one in await user.pending()])
    runs = await user.extractions(limit=10)
    await user.undo(extraction.extraction_id)
    await user.forget("Ada moved to Leeds")
    refused = await user.forgotten()
    await user.unforget("Ada moved to Leeds")
    await user.purge("https://example.org")
    deleted = await user.apply_retention(dry_run=True)
    hold = await user.hold("case 7")
    in_force = await user.holds()
    await user.release(hold.hold_id)
    await user.grant("agent:planner", "read")
    rights = await user.grants()
    mine = await user.right()
    await user.revoke("agent:planner")


async def of_working_memory(user: UserMemory) -> None:
    await user.working.set("goal", {"buy": "tea"})
    goal = await user.working.get("goal", default={})
    values = await user.working.items()
    await user.working.delete("goal")


async def of_a_session(user: UserMemory) -> None:
    await user.short_term.add_message("Is there tea?", role="user", session_id="monday")
    messages = await user.short_term.messages("monday", last=10)


async def of_entities(user: UserMemory) -> None:
    await user.entities.add_entity("Ada", "person", observations=["drinks tea"])
    await user.entities.add_entity("Leeds", "city")
    await user.entities.observe("Ada", "has a cat")
    relation = await user.entities.relate("Ada", "lives in", "Leeds", valid_from="2024-05-01")
    ada = await user.entities.get("Ada")
    lives = await user.entities.relationships("Ada", as_of="2025-01-01")
    near = await user.entities.neighbours("Ada", depth=2)
    await user.entities.end(relation.memory_id, at="2026-03-01")
    await user.entities.remove_observation("Ada", "has a cat")
    await user.entities.delete("Leeds")


async def of_episodes(user: UserMemory) -> None:
    episode = await user.episodes.start("book a train")
    await user.episodes.step(episode.memory_id, "search", observation="3 trains", outcome="ok")
    await user.episodes.finish(episode.memory_id, "booked", success=True)
    booked = await user.episodes.get(episode.memory_id)
    recent = await user.episodes.recent(limit=5)
    await user.delete(episode.memory_id)
    await user.episodes.put(booked)  # as it was exported


async def of_documents(user: UserMemory) -> None:
    await user.documents.put("teas", {"name": "Assam", "price": 7}, key="assam")
    assam = await user.documents.get("assam", "teas")
    cheap = await user.documents.find("teas", {"price": {"$lt": 10}}, order_by="price")
    how_many = await user.documents.count("teas", {"price": {"$lt": 10}})
    names = await user.documents.collections()
    await user.documents.delete("assam", "teas")


async def of_context(user: UserMemory) -> None:
    added = await user.context.add("Home", "Lives in Leeds")
    entry_id = (await user.context.entries())[0].entry_id
    entry = await user.context.get(entry_id)
    await user.context.edit(entry_id, "Lives in York")
    await user.context.pin(entry_id)
    await user.context.pin(entry_id, pinned=False)
    await user.context.touch(entry_id)
    await user.context.note_read(entry_id)
    blocks = await user.context.blocks()
    await user.context.change([EditBlock(blocks[0].block_id, "# At home\n\n")])
    await user.context.archive([entry_id])
    archived = await user.context.archived()
    found = await user.context.search_archive("Where does Ada live?")
    await user.context.restore([entry_id])
    text = await user.context.render()
    size = await user.context.size()
    checked = await user.context.check_text("# Home\n\n- Lives in York\n")
    synced = await user.context.synced()
    await user.context.remove(entry_id)
    await user.context.create("plans.md", "# Plans\n\n- Buy tea\n")
    documents = await user.context.documents()
    await user.context.rename("plans.md", "ideas.md")
    await user.context.rename_all({"ideas.md": "later.md"})
    await user.context.delete("later.md")
    await user.context.delete_all(["MEMORY.md"])


async def of_the_system(memory: MemorySystem, directory: Path) -> None:
    users = await memory.users()
    report = await memory.compact("ada", older_than="90d")
    print((await memory.compaction_stats("ada")).compression_ratio)
    user = memory.user("ada")
    summary = next(one for one in await user.list_memories() if one.source == "compressed")
    originals = await user.expand(summary.memory_id)
    await user.undo_compaction(summary.memory_id)
    async for entry in memory.events("ada"):
        print(entry.position, entry.event)
    changes = await memory.diff("ada", 1)
    searches = await memory.recalls("ada", limit=10)
    assert (await memory.verify()).ok
    assert await memory.check_replay() == []
    heads = await memory.heads()
    totals = await memory.usage()
    await memory.switch_model("default")  # or "multilingual"
    await memory.backup(directory / "backup")
    await memory.user("bob").add("Bob likes coffee")
    await memory.purge("https://example.org", dry_run=True)
    await memory.erase("bob")
    await memory.close()


async def every_call(directory: Path) -> None:
    """Run all of them on a store in a directory."""
    settings = Settings(review="extracted")
    memory = await MemorySystem.open(directory / "store", extractor=extractor, settings=settings)
    user = memory.user("ada", session_id="monday")
    for calls in (
        of_a_user, of_working_memory, of_a_session, of_what_is_kept, of_entities, of_episodes,
        of_documents, of_context,
    ):  # fmt: skip
        await calls(user)
    await of_the_system(memory, directory)
