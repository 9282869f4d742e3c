"""Every public call of a memory system, each with what it needs to have something to do.

`prepare` is run before, `call` is what is tried. Both get a number, so that each try has ids of its
own. An operation without arguments needs no entry here; one that is added to the API with arguments
does: this module cannot be imported before it has one.
"""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from inspect import isasyncgen
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import msgspec

from bench.faults.example import LIMIT, NOW_US
from memory_actors import Item, MemorySystem, MemoryType, UserMemory
from memory_actors.api.operations import OPERATIONS, Operation

Call = Callable[[MemorySystem, UserMemory, int], Awaitable[Any]]


async def nothing(_memory: MemorySystem, _user: UserMemory, _n: int) -> None:
    """Prepare nothing."""


class Command(NamedTuple):
    """A public call."""

    call: Call
    prepare: Call = nothing
    one_append: bool = True
    """True if its events come in one append: all of them are there, or none."""


async def _a_fact(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.add(f"before {n}", memory_id=f"fact {n}")


async def _a_numbered_fact(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.add(f"before {n}", memory_id=f"fact {n}", metadata={"n": n})


async def _a_pending_fact(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    """Add a fact that waits for a review where the settings say so."""
    await user.from_source("a page", "untrusted").add(f"pending {n}")


async def _pending(user: UserMemory) -> list[str]:
    return [one.memory_id for one in await user.pending()]


async def _approve(_memory: MemorySystem, user: UserMemory, _n: int) -> Any:
    return await user.approve(await _pending(user))


async def _reject(_memory: MemorySystem, user: UserMemory, _n: int) -> Any:
    return await user.reject(await _pending(user))


async def _a_poisoned_fact(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.add(f"before {n}", memory_id=f"fact {n}")
    page = user.from_source(f"page {n}")
    await page.update(f"fact {n}", content=f"poison {n}")
    await page.add(f"more poison {n}")
    await page.documents.put("things", {"n": n}, key=f"poison {n}")


async def _a_deleted_fact(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _a_fact(memory, user, n)
    await user.delete(f"fact {n}")


async def _a_forgotten_fact(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _a_fact(memory, user, n)
    await user.forget(f"fact {n}")


async def _an_entity(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.entities.add_entity(f"Name {n}", observations=["tall", "old"], memory_id=f"ent {n}")
    await user.entities.add_entity(f"Other {n}")


async def _a_relationship(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _an_entity(memory, user, n)
    await user.entities.relate(f"Name {n}", "likes", f"Other {n}", memory_id=f"rel {n}")


async def _an_episode(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.episodes.start("a goal", memory_id=f"ep {n}")


async def _a_document(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.documents.put("things", {"n": n}, key=f"key {n}", memory_id=f"doc {n}")


async def _a_key(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.working.set("key", n)


async def _old_facts(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    today = datetime.fromtimestamp(NOW_US / 1e6, UTC)
    items = [
        Item(
            content=f"diary {each} of {n} " + "of a year " * 30, memory_id=f"diary {n} {each}",
            occurred_at=today - timedelta(days=200 + each),
        )
        for each in range(8)
    ]  # fmt: skip
    await user.add_many(items)


async def _a_summary(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _old_facts(memory, user, n)
    await memory.compact(user.user_id)


async def _summary_of(user: UserMemory, n: int) -> str:
    (event, *_) = [e for e in await user.history(f"diary {n} 0") if e.event.endswith("compressed")]
    return str(event.data["memory_id"])


async def _expand(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    return await user.expand(await _summary_of(user, n))


async def _undo(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    return await user.undo_compaction(await _summary_of(user, n))


async def _a_conversation(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    # The next one contradicts none of these: a superseded fact is marked by an append of its own.
    about = f"a talk about {n}"
    await user.short_term.add_message(about, role="user", session_id=f"talk {n}")


async def _an_extraction(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _a_conversation(memory, user, n)
    await user.extract(f"talk {n}")


async def _undo_extraction(_memory: MemorySystem, user: UserMemory, _n: int) -> Any:
    (last,) = await user.extractions(limit=1)
    return await user.undo(str(last.extraction_id))


async def _put_summary(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    known = await user.list_memories(["long_term"], limit=LIMIT)
    summary = next(memory for memory in known if memory.source == "compressed")
    return await user._put_summary(  # noqa: SLF001 - as imports do
        msgspec.structs.replace(summary, memory_id=f"summary {n}")
    )


async def _put_episode(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    episode = await user.episodes.get(f"ep {n}")
    return await user.episodes.put(msgspec.structs.replace(episode, memory_id=f"copy {n}"))


async def _put_block(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    (block, *_) = await user.list_memories(["context"], limit=1)
    data = {**block.data, "document": f"put {n}.md"}
    item = Item(content=block.content)
    return await user.context._put_block(f"block {n}", item, data)  # noqa: SLF001 - as imports do


async def _an_entry(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.context.document(f"{n}.md").add("Notes", f"note {n}")


async def _an_archived_entry(memory: MemorySystem, user: UserMemory, n: int) -> None:
    await _an_entry(memory, user, n)
    await user.context.document(f"{n}.md").archive([await _entry(user, n)])


async def _entry(user: UserMemory, n: int, *, archived: bool = False) -> str:
    document = user.context.document(f"{n}.md")
    (entry, *_) = await (document.archived() if archived else document.entries())
    return entry.entry_id


def _of_entry(name: str, *arguments: Any) -> Call:
    async def call(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
        return await getattr(user.context.document(f"{n}.md"), name)(
            await _entry(user, n), *arguments
        )

    return call


def _of_document(name: str, *arguments: Any) -> Call:
    async def call(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
        return await getattr(user.context.document(f"{n}.md"), name)(*arguments)

    return call


async def _archive(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    return await user.context.document(f"{n}.md").archive([await _entry(user, n)])


async def _restore_entry(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
    entry_id = await _entry(user, n, archived=True)
    return await user.context.document(f"{n}.md").restore([entry_id])


async def _a_grant(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    await user.grant(f"person {n}")


async def _another_user(memory: MemorySystem, _user: UserMemory, n: int) -> None:
    await memory.user(f"another {n}").add(f"of another {n}")


async def _backup(memory: MemorySystem, _user: UserMemory, _n: int) -> Any:
    with TemporaryDirectory(ignore_cleanup_errors=True) as scratch:
        return await memory.backup(Path(scratch) / "backup")


async def _events(memory: MemorySystem, user: UserMemory, _n: int) -> Any:
    return [entry async for entry in memory.events(user.user_id)]


def _without_arguments(operation: Operation) -> Command:
    """Return the call of an operation that needs no arguments and no preparation.

    :raises LookupError: it needs some.
    """
    if needed := [one.name for one in operation.parameters if one.is_required]:
        raise LookupError(f"say in bench/faults/commands.py how to call {operation}: {needed}")
    owner, _, name = operation.name.rpartition(".")

    async def call(memory: MemorySystem, user: UserMemory, _n: int) -> Any:
        of = memory if owner == "system" else getattr(user, owner) if owner else user
        called = getattr(of, name)()
        return [one async for one in called] if isasyncgen(called) else await called

    return Command(call)


async def _a_hold(_memory: MemorySystem, user: UserMemory, n: int) -> None:
    if not await user.holds():
        await user.hold(f"case {n}")


async def _release(_memory: MemorySystem, user: UserMemory, _n: int) -> Any:
    (*_, newest) = await user.holds()
    return await user.release(newest.hold_id)


def _add(kind: MemoryType) -> Command:
    async def call(_memory: MemorySystem, user: UserMemory, n: int) -> Any:
        return await user.add(f"added {n}", kind, memory_id=f"added {n}")

    return Command(call)


_SAID: dict[str, Command] = {
    **{f"add {kind.value}": _add(kind) for kind in MemoryType},
    "add_many": Command(
        lambda m, u, n: u.add_many([Item(content=f"{i} of {n}") for i in range(3)])
    ),
    "turn": Command(lambda m, u, n: u.turn(f"turn {n}")),
    "add_with_auto_prune": Command(lambda m, u, n: u.add_with_auto_prune(f"pruning {n}")),
    "add with a key": Command(lambda m, u, n: u.add(f"once {n}", idempotency_key=f"request {n}")),
    "update": Command(lambda m, u, n: u.update(f"fact {n}", content=f"after {n}"), _a_fact),
    "delete": Command(lambda m, u, n: u.delete(f"fact {n}"), _a_fact),
    "update if": Command(
        lambda m, u, n: u.update(f"fact {n}", content=f"after {n}", filters={"n": n}),
        _a_numbered_fact,
    ),
    "delete if": Command(lambda m, u, n: u.delete(f"fact {n}", filters={"n": n}), _a_numbered_fact),
    "restore": Command(lambda m, u, n: u.restore([f"fact {n}"]), _a_deleted_fact),
    "grant": Command(lambda m, u, n: u.grant(f"person {n}", "write")),
    "revoke": Command(lambda m, u, n: u.revoke(f"person {n}"), _a_grant),
    "set_tier": Command(lambda m, u, n: u.set_tier(["pro", "enterprise"][n % 2])),
    "hold": Command(lambda m, u, n: u.hold(f"case {n}")),
    "release": Command(_release, _a_hold),
    "retrieve": Command(lambda m, u, n: u.retrieve(f"what is known of {n}")),
    "context": Command(lambda m, u, n: u.context(f"context {n}")),
    "expand": Command(_expand, _a_summary),
    "undo_compaction": Command(_undo, _a_summary),
    "get": Command(lambda m, u, n: u.get(f"fact {n}"), _a_fact),
    "count": Command(lambda m, u, n: u.count({"n": n})),
    "delete_many": Command(lambda m, u, n: u.delete_many({"n": n}), _a_numbered_fact),
    "history": Command(lambda m, u, n: u.history(f"fact {n}"), _a_fact),
    "working.set": Command(lambda m, u, n: u.working.set("key", n)),
    "working.get": Command(lambda m, u, n: u.working.get("key"), _a_key),
    "working.delete": Command(lambda m, u, n: u.working.delete("key"), _a_key),
    "short_term.add_message": Command(lambda m, u, n: u.short_term.add_message(f"message {n}")),
    "entities.add_entity": Command(lambda m, u, n: u.entities.add_entity(f"New {n}")),
    "entities.observe": Command(lambda m, u, n: u.entities.observe(f"Name {n}", "x"), _an_entity),
    "entities.remove_observation": Command(
        lambda m, u, n: u.entities.remove_observation(f"Name {n}", "tall"), _an_entity
    ),
    "entities.relate": Command(
        lambda m, u, n: u.entities.relate(f"Name {n}", "likes", f"Other {n}"), _an_entity
    ),
    "entities.end": Command(lambda m, u, n: u.entities.end(f"rel {n}"), _a_relationship),
    "entities.delete": Command(lambda m, u, n: u.entities.delete(f"ent {n}"), _a_relationship),
    "entities.get": Command(lambda m, u, n: u.entities.get(f"Name {n}"), _an_entity),
    "entities.relationships": Command(
        lambda m, u, n: u.entities.relationships(f"Name {n}"), _a_relationship
    ),
    "entities.neighbours": Command(
        lambda m, u, n: u.entities.neighbours(f"Name {n}"), _a_relationship
    ),
    "episodes.start": Command(lambda m, u, n: u.episodes.start(f"goal {n}")),
    "episodes.step": Command(lambda m, u, n: u.episodes.step(f"ep {n}", "act"), _an_episode),
    "episodes.finish": Command(lambda m, u, n: u.episodes.finish(f"ep {n}", "done"), _an_episode),
    "episodes.put": Command(_put_episode, _an_episode),
    "episodes.get": Command(lambda m, u, n: u.episodes.get(f"ep {n}"), _an_episode),
    "documents.put": Command(lambda m, u, n: u.documents.put("things", {"n": n}, key=f"new {n}")),
    "documents.get": Command(lambda m, u, n: u.documents.get(f"key {n}", "things"), _a_document),
    "documents.find": Command(lambda m, u, n: u.documents.find("things", {"n": {"$gt": 1}})),
    "documents.count": Command(lambda m, u, n: u.documents.count("things", {"n": {"$gt": 1}})),
    "documents.delete": Command(
        lambda m, u, n: u.documents.delete(f"key {n}", "things"), _a_document
    ),
    "full_id": Command(lambda m, u, n: u.full_id(f"fact {n}"), _a_fact),
    "why": Command(lambda m, u, n: u.why(f"fact {n}"), _a_fact),
    "approve": Command(_approve, _a_pending_fact),
    "reject": Command(_reject, _a_pending_fact),
    "purge": Command(lambda m, u, n: u.purge(f"page {n}"), _a_poisoned_fact),
    "system.purge": Command(lambda m, u, n: m.purge(f"page {n}"), _a_poisoned_fact),
    "forget": Command(lambda m, u, n: u.forget(f"fact {n}"), _a_fact),
    "forgotten": Command(lambda m, u, n: u.forgotten()),
    "unforget": Command(lambda m, u, n: u.unforget(f"before {n}"), _a_forgotten_fact),
    "extract": Command(lambda m, u, n: u.extract(f"talk {n}"), _a_conversation),
    "undo": Command(_undo_extraction, _an_extraction),
    "context.add": Command(lambda m, u, n: u.context.document(f"{n}.md").add("Notes", "x")),
    "context.edit": Command(_of_entry("edit", "other words"), _an_entry),
    "context.remove": Command(_of_entry("remove"), _an_entry),
    "context.touch": Command(_of_entry("touch"), _an_entry),
    "context.pin": Command(_of_entry("pin"), _an_entry),
    "context.get": Command(_of_entry("get"), _an_entry),
    "context.note_read": Command(_of_entry("note_read"), _an_entry),
    "context.archive": Command(_archive, _an_entry),
    "context.restore": Command(_restore_entry, _an_archived_entry),
    "context.archived": Command(_of_document("archived"), _an_archived_entry),
    "context.search_archive": Command(_of_document("search_archive", "x"), _an_archived_entry),
    "context.change": Command(_of_document("change", []), _an_entry),
    "context.synced": Command(_of_document("synced"), _an_entry),
    "context.render": Command(_of_document("render"), _an_entry),
    "context.size": Command(_of_document("size"), _an_entry),
    "context.entries": Command(_of_document("entries"), _an_entry),
    "context.blocks": Command(_of_document("blocks"), _an_entry),
    "context.create": Command(lambda m, u, n: u.context.create(f"new {n}.md", "# A\n\n- b\n")),
    "context.rename": Command(
        lambda m, u, n: u.context.rename(f"{n}.md", f"renamed {n}.md"), _an_entry
    ),
    "context.rename_all": Command(
        lambda m, u, n: u.context.rename_all({f"{n}.md": f"renamed {n}.md"}), _an_entry
    ),
    "context.delete_all": Command(lambda m, u, n: u.context.delete_all([f"{n}.md"]), _an_entry),
    "context.check_text": Command(_of_document("check_text", "- a\n"), _an_entry),
    "context.delete": Command(lambda m, u, n: u.context.delete(f"{n}.md"), _an_entry),
    "system.erase": Command(
        lambda m, u, n: m.erase(f"another {n}"), _another_user, one_append=False
    ),
    "system.backup": Command(_backup),
    "system.diff": Command(lambda m, u, n: m.diff(u.user_id, 0)),
    "system.events": Command(_events),
    "system.recalls": Command(lambda m, u, n: m.recalls(u.user_id)),
    "system.compact": Command(lambda m, u, n: m.compact(), _old_facts, one_append=False),
}
"""Operations with their arguments; a second word tells several calls of one apart."""

PRIVATE = {
    "private.put_summary": Command(_put_summary),
    "private.put_block": Command(_put_block, _an_entry),
    "private.note_synced": Command(
        lambda m, u, n: u.context.document(f"{n}.md")._note_synced([]),  # noqa: SLF001 - as syncs do
        _an_entry,
    ),
    "private.archive_digest": Command(
        lambda m, u, n: u.context.document(f"{n}.md")._archive_digest(),  # noqa: SLF001 - as syncs do
        _an_archived_entry,
    ),
}
"""The calls of imports and of syncing that are no operations."""

ELSEWHERE = {"system.close", "system.switch_model"}
"""Calls that are cancelled elsewhere."""


def _commands() -> dict[str, Command]:
    said = {name.split(" ")[0] for name in _SAID}
    if unknown := said - OPERATIONS.keys():
        raise LookupError(f"there are no operations {unknown}: see memory_actors/api/operations.py")
    unsaid = OPERATIONS.keys() - said - ELSEWHERE
    return _SAID | PRIVATE | {name: _without_arguments(OPERATIONS[name]) for name in sorted(unsaid)}


COMMANDS = _commands()
"""Every operation of an open memory system, at least once."""
