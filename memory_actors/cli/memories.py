"""search, list, get, delete, restore."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, get_args

import click
import msgspec

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Hit, Memory, MemoryType, Order, Receipt
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, all_of, pass_app
from memory_actors.cli.output import print_json, print_table, say
from memory_actors.cli.running import ensure_model, whole_id, with_user
from memory_actors.cli.showing import memory_table, print_memory
from memory_actors.search.weights import Weights

ALL_TYPES = tuple(MemoryType)
SEARCHED_TYPES = tuple(kind for kind in ALL_TYPES if kind != MemoryType.CONTEXT)


@click.command(cls=Command)
@click.argument("query")
@click.option("--top-k", type=int, default=5, show_default=True, help="How many at most.")
@options.types
@options.filters("fields of the metadata")
@click.option("--session", "session_id", help="Short-term memory: only this session's.")
@options.a_time("--since", help="Only what was true from then on.")
@options.a_time("--until", help="Only what was true up to then.")
@options.a_time("--as-of", help="Only what was recorded by then.")
@click.option(
    "--min-score", type=click.FloatRange(0, 1), default=0.0, show_default=True,
    help="Leave out what scores less.",
)  # fmt: skip
@click.option(
    "--token-budget", type=options.Count(min=0), metavar="N",
    help="As many as fit so many tokens, instead of --top-k.",
)  # fmt: skip
@click.option(
    "--diversity", type=click.FloatRange(0, 1), default=0.0, show_default=True,
    help="How far results that repeat better ones give way.",
)  # fmt: skip
@click.option("--explain", is_flag=True, help="Say what each signal adds to a score.")
@click.option(
    "--weights", type=options.json_object, metavar="JSON",
    help="""What signals count for, such as '{"words": 0}'.  [default: as measured]""",
)  # fmt: skip
@options.a_time(
    "--reference-time", help="What `last week` in QUERY is relative to.  [default: now]"
)
@click.option(
    "--summaries/--no-summaries", "compressed", default=True, show_default=True,
    help="Whether summaries of compressed memories follow.",
)  # fmt: skip
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
    kinds: Sequence[str],
    filters: Sequence[dict[str, Any]],
    **asked: Any,
) -> None:
    """Find the memories closest in meaning to QUERY."""
    asked["sources"] = asked["sources"] or None
    asked["weights"] = _weights(asked["weights"])
    ensure_model(app)

    async def work(user: UserMemory) -> list[Hit]:
        return await user.retrieve(
            query, memory_types=kinds or None, filters=all_of(filters), **asked
        )

    hits = with_user(app, work)
    if app.json:
        print_json(hits)
    elif hits:
        print_table(memory_table(hits))
    else:
        say(f"Nothing found {_where(app, kinds or SEARCHED_TYPES)}.")


def _weights(given: dict[str, Any] | None) -> Weights | None:
    if given is None:
        return None
    if unknown := given.keys() - set(Weights.__struct_fields__):
        known = ", ".join(Weights.__struct_fields__)
        raise click.BadParameter(f"--weights: no signal {', '.join(sorted(unknown))}; use {known}")
    try:
        return msgspec.convert(given, Weights)
    except msgspec.ValidationError as error:
        raise click.BadParameter(f"--weights: {error}") from error


def _where(app: App, kinds: Iterable[str]) -> str:
    """Return whose memory was looked at, and which kinds of it."""
    return f"for user {app.user_id} in {', '.join(kinds)}"


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
        say(f"Nothing there {_where(app, kinds or ALL_TYPES)}.")


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
        return await user.get(await whole_id(user, memory_id))

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
        return await user.delete(await whole_id(user, memory_id))

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

    async def work(user: UserMemory) -> tuple[list[str], list[Receipt]]:
        ids = [await whole_id(user, one) for one in memory_ids]
        return ids, await user.restore(ids)

    ids, receipts = with_user(app, work)
    if app.json:
        print_json(receipts)
    else:
        _say_restored(ids, receipts)


def _say_restored(memory_ids: Sequence[str], receipts: Sequence[Receipt]) -> None:
    came = {receipt.memory_id for receipt in receipts}
    for memory_id in dict.fromkeys(memory_ids):
        say(f"{'Restored' if memory_id in came else 'Already there'}: {memory_id}")
