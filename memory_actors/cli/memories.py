"""add, search, list, get, delete, restore."""

import sys
from collections.abc import Sequence
from typing import Any

import click
from rich.text import Text

from memory_actors.cli.options import (
    MEMORY_TYPE,
    App,
    Command,
    json_object,
    key_value,
    local_time,
    pass_app,
)
from memory_actors.cli.output import (
    local,
    print_json,
    print_table,
    say,
    shortened,
    size,
    table,
    text,
)
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.handles.user import UserMemory
from memory_actors.records import Hit, Memory, MemoryType, Receipt

CONTENT_CHARACTERS_MAX = 300  # of a memory in a table; `get` shows all of it
WORKING_LACKS = ("session", "role", "at")


@click.command(cls=Command)
@click.argument("content")
@click.option("--type", "kind", type=MEMORY_TYPE, default="long_term", show_default=True)
@click.option("--key", help="Working memory: the key to keep it under.")
@click.option("--session", help="The session it belongs to.")
@click.option("--role", help="Who said it.")
@click.option("--metadata", type=json_object, metavar="JSON", help="A JSON object to filter by.")
@click.option("--at", type=local_time, metavar="TIME", help="When it was true.  [default: now]")
@click.option("--prune", is_flag=True, help="Make room if there is none: the oldest go.")
@pass_app
def add(app: App, /, content: str, kind: str, key: str | None, prune: bool, **given: Any) -> None:
    """Add a memory. CONTENT is its text, or - to read it from stdin."""
    _check_options(kind, key, given)
    if content == "-":
        content = sys.stdin.buffer.read().decode(errors="surrogateescape").removesuffix("\n")
    fields: dict[str, Any] = {
        "metadata": given["metadata"],
        "occurred_at": given["at"],
        "session_id": given["session"],
        "role": given["role"],
        "key": key,
    }
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        adding = user.add_with_auto_prune if prune else user.add
        return await adding(content, kind, **fields)

    receipt = with_user(app, work, create=True)
    if app.json:
        print_json(receipt)
    else:
        _say_added(receipt)


def _check_options(kind: str, key: str | None, given: dict[str, Any]) -> None:
    if kind != MemoryType.WORKING and key is not None:
        raise click.UsageError("--key goes with --type working only")
    for name in WORKING_LACKS:
        if kind == MemoryType.WORKING and given[name] is not None:
            raise click.UsageError(f"--{name} does not go with --type working")


def _say_added(receipt: Receipt) -> None:
    done = "Already there" if receipt.operation == "unchanged" else "Added"
    room = f"{receipt.memory_type}, room for {receipt.quota_remaining:,} more"
    say(f"{done}: {receipt.memory_id}  ({room})")
    if receipt.evicted or receipt.pruned:
        say(f"Removed to make room: {len(receipt.evicted) + len(receipt.pruned):,}")
    if not receipt.indexed:
        say("Kept, but not searchable until the model works: `memory-actors doctor`", "yellow")


@click.command(cls=Command)
@click.argument("query")
@click.option("--top-k", type=int, default=5, show_default=True, help="How many at most.")
@click.option(
    "--type", "kinds", type=MEMORY_TYPE, multiple=True, help="Only these; may be repeated."
)
@click.option(
    "--filter",
    "filters",
    type=key_value,
    metavar="KEY=VALUE",
    multiple=True,
    help="Only with this metadata; may be repeated.",
)
@click.option("--session", help="Short-term memory: only this session's.")
@pass_app
def search(
    app: App,
    /,
    query: str,
    top_k: int,
    kinds: Sequence[str],
    filters: Sequence[tuple[str, Any]],
    session: str | None,
) -> None:
    """Find the memories closest in meaning to QUERY."""
    ensure_model(app)

    async def work(user: UserMemory) -> list[Hit]:
        return await user.retrieve(
            query,
            memory_types=kinds or None,
            top_k=top_k,
            filters=dict(filters),
            session_id=session,
        )

    hits = with_user(app, work)
    if app.json:
        print_json(hits)
    elif hits:
        _print_hits(hits)
    else:
        say("Nothing found.")


def _print_hits(hits: Sequence[Hit]) -> None:
    found = table("score", "when", "who", "memory", right=("score",))
    for hit in hits:
        found.add_row(f"{hit.score:.3f}", local(hit.occurred_at), text(hit.role), _described(hit))
    print_table(found)


@click.command("list", cls=Command)
@click.option(
    "--type", "kinds", type=MEMORY_TYPE, multiple=True, help="Only these; may be repeated."
)
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@click.option("--offset", type=click.IntRange(min=0), default=0, show_default=True)
@pass_app
def list_(app: App, /, kinds: Sequence[str], limit: int, offset: int) -> None:
    """List memories, newest first."""

    async def work(user: UserMemory) -> list[Memory]:
        return await user.list_memories(kinds or None, limit=limit, offset=offset)

    memories = with_user(app, work)
    if app.json:
        print_json(memories)
    elif memories:
        _print_memories(memories, limit, offset)
    else:
        say("Nothing there.")


def _print_memories(memories: Sequence[Memory], limit: int, offset: int) -> None:
    listed = table("when", "who", "memory")
    for memory in memories:
        listed.add_row(local(memory.occurred_at), text(memory.role), _described(memory))
    print_table(listed)
    if len(memories) == limit:
        say(f"More may follow: --offset {offset + limit}", "dim")


def _described(memory: Memory) -> Text:
    """Return a memory's text, with its id and what else it is under it."""
    other = "" if memory.memory_type == MemoryType.LONG_TERM else memory.memory_type
    facts = [memory.memory_id, other, memory.key and f"key {memory.key}", memory.session_id]
    content = text(shortened(memory.content, CONTENT_CHARACTERS_MAX))
    return content + text("\n" + "  ".join(fact for fact in facts if fact), "dim")


@click.command(cls=Command)
@click.argument("memory_id")
@pass_app
def get(app: App, /, memory_id: str) -> None:
    """Show one memory with all there is to it."""

    async def work(user: UserMemory) -> Memory:
        return await user.get(memory_id)

    memory = with_user(app, work)
    if app.json:
        print_json(memory)
        return
    say(memory.content)
    facts = table("", "")
    for name, value in _facts(memory).items():
        if value:
            facts.add_row(text(name, "dim"), text(value))
    print_table(facts)


def _facts(memory: Memory) -> dict[str, Any]:
    return {
        "id": memory.memory_id,
        "type": memory.memory_type,
        "key": memory.key,
        "when": local(memory.occurred_at),
        "added": local(memory.created_at),
        "session": memory.session_id,
        "role": memory.role,
        "pinned": "yes" if memory.pinned else "",
        "metadata": memory.metadata,
        "size": f"{size(memory.size_bytes)} ({size(memory.stored_bytes)} in the log)",
    }


@click.command(cls=Command)
@click.argument("memory_id")
@pass_app
def delete(app: App, /, memory_id: str) -> None:
    """Delete a memory. `history` still shows what it was."""

    async def work(user: UserMemory) -> Receipt:
        return await user.delete(memory_id)

    receipt = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        say(f"Deleted: {receipt.memory_id}")


@click.command(cls=Command)
@click.argument("memory_ids", nargs=-1, required=True)
@pass_app
def restore(app: App, /, memory_ids: tuple[str, ...]) -> None:
    """Bring back memories that were pruned or deleted."""

    async def work(user: UserMemory) -> list[Receipt]:
        return await user.restore(memory_ids)

    receipts = with_user(app, work)
    if app.json:
        print_json(receipts)
    else:
        say(f"Restored: {', '.join(receipt.memory_id for receipt in receipts) or 'nothing'}")
