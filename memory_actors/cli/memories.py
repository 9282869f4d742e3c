"""search, list, get, delete, restore."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

import click

from memory_actors.cli import options
from memory_actors.cli.options import App, Command, all_of, pass_app
from memory_actors.cli.output import print_json, print_table, say
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.cli.showing import memory_table, print_memory
from memory_actors.handles.user import UserMemory
from memory_actors.records import Hit, Memory, Order, Receipt


@click.command(cls=Command)
@click.argument("query")
@click.option("--top-k", type=int, default=5, show_default=True, help="How many at most.")
@options.types
@options.filters("fields of the metadata")
@click.option("--session", help="Short-term memory: only this session's.")
@click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    help="The best first, or kind by kind.  [default: kind if several types are named]",
)
@click.option("--exclude", "exclude_ids", metavar="ID", multiple=True, help="Not this memory.")
@click.option("--exclude-session", metavar="ID", help="Nothing of this session.")
@options.sources
@options.min_trust
@pass_app
def search(
    app: App,
    /,
    query: str,
    top_k: int,
    kinds: Sequence[str],
    filters: Sequence[dict[str, Any]],
    session: str | None,
    **narrowed: Any,
) -> None:
    """Find the memories closest in meaning to QUERY."""
    ensure_model(app)

    async def work(user: UserMemory) -> list[Hit]:
        return await user.retrieve(
            query,
            memory_types=kinds or None,
            top_k=top_k,
            filters=all_of(filters),
            session_id=session,
            order=narrowed["order"],
            exclude_ids=narrowed["exclude_ids"],
            exclude_session=narrowed["exclude_session"],
            sources=narrowed["sources"] or None,
            min_trust=narrowed["min_trust"],
        )

    hits = with_user(app, work)
    if app.json:
        print_json(hits)
    elif hits:
        print_table(memory_table(hits))
    else:
        say("Nothing found.")


@click.command("list", cls=Command)
@options.types
@options.filters("fields of the metadata")
@options.sources
@options.min_trust
@options.limit
@options.offset
@pass_app
def list_(
    app: App,
    /,
    kinds: Sequence[str],
    filters: Sequence[dict[str, Any]],
    limit: int,
    offset: int,
    **narrowed: Any,
) -> None:
    """List memories, newest first."""

    async def work(user: UserMemory) -> list[Memory]:
        chosen = all_of(filters)
        return await user.list_memories(
            kinds or None,
            filters=chosen,
            sources=narrowed["sources"] or None,
            min_trust=narrowed["min_trust"],
            limit=limit,
            offset=offset,
        )

    memories = with_user(app, work)
    if app.json:
        print_json(memories)
    elif memories:
        print_table(memory_table(memories))
        say_more(len(memories), limit, offset)
    else:
        say("Nothing there.")


def say_more(shown: int, limit: int, offset: int) -> None:
    """Say how to go on after a full page."""
    if shown == limit:
        say(f"More may follow: --offset {offset + limit}", "dim")


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
    else:
        print_memory(memory)


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


def _choosing(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options that choose memories as `list` does."""
    for option in (
        options.min_trust, options.sources, options.filters("fields of the metadata"), options.types
    ):  # fmt: skip
        command = option(command)
    return command


@click.command(cls=Command)
@_choosing
@pass_app
def count(
    app: App, /, kinds: Sequence[str], filters: Sequence[dict[str, Any]], **narrowed: Any
) -> None:
    """Say how many memories there are, or match."""

    async def work(user: UserMemory) -> int:
        return await user.count(all_of(filters), **_chosen(kinds, narrowed))

    found = with_user(app, work)
    if app.json:
        print_json({"count": found})
    else:
        say(f"{found:,}")


@click.command("delete-many", cls=Command)
@_choosing
@pass_app
def delete_many(
    app: App, /, kinds: Sequence[str], filters: Sequence[dict[str, Any]], **narrowed: Any
) -> None:
    """Delete the memories that match; `count` says how many do. `history` still shows them."""

    async def work(user: UserMemory) -> list[Receipt]:
        return await user.delete_many(all_of(filters) or {}, **_chosen(kinds, narrowed))

    receipts = with_user(app, work)
    if app.json:
        print_json(receipts)
    else:
        say(f"Deleted: {len(receipts):,}")


def _chosen(kinds: Sequence[str], narrowed: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "memory_types": kinds or None,
        "sources": narrowed["sources"] or None,
        "min_trust": narrowed["min_trust"],
    }


@click.command(cls=Command)
@click.argument("memory_ids", nargs=-1, required=True)
@pass_app
def restore(app: App, /, memory_ids: tuple[str, ...]) -> None:
    """Bring back what was pruned, evicted or deleted.

    All or none of those of one type. Working and short-term memory does not come back.
    """

    async def work(user: UserMemory) -> list[Receipt]:
        return await user.restore(memory_ids)

    receipts = with_user(app, work)
    if app.json:
        print_json(receipts)
    else:
        _say_restored(memory_ids, receipts)


def _say_restored(memory_ids: Sequence[str], receipts: Sequence[Receipt]) -> None:
    came = {receipt.memory_id for receipt in receipts}
    for memory_id in dict.fromkeys(memory_ids):
        say(f"{'Restored' if memory_id in came else 'Already there'}: {memory_id}")
