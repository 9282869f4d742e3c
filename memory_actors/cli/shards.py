"""shards, shards move: which users are in which of several databases."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import click

from memory_actors.base.errors import InvalidInputError
from memory_actors.cli.options import App, Group, SharedCommand, pass_app
from memory_actors.cli.output import (
    print_for_programs,
    print_table,
    progress_bar,
    say,
    size,
    table,
    text,
)
from memory_actors.cli.running import check_store, run
from memory_actors.sharing.shards import SHARDS, shard_of

if TYPE_CHECKING:
    from eventlog.postgres.shard_move import ShardMoved
    from eventlog.postgres.shards import ShardsAt

_WAYS = {"arriving": "from", "left": "to", "cleared": "to"}
OF_SHARDS = ("data", "json", "debug")


@click.group(cls=Group, shared=OF_SHARDS, invoke_without_command=True)
@pass_app
@click.pass_context
def shards(context: click.Context, app: App, /) -> None:
    """Show which shards, users and bytes are in each database of a memory that is in several.

    A user is in one of 4,096 shards, by the hash of their id, and each shard in one database.
    """
    if context.invoked_subcommand is None:
        _show(app, run(lambda: _found(app)))


async def _found(app: App) -> "list[ShardsAt]":
    from memory_actors.sharing.moving import shards_in  # with it comes the engine

    return await shards_in(_urls(app))


def _urls(app: App) -> list[str]:
    """Return the URLs of the databases.

    :raises InvalidInputError: there are no several.
    """
    urls = app.urls
    if urls is None or len(urls) == 1:
        raise InvalidInputError(
            f"{app.shown} is one place, and has all shards: name the URLs of several databases "
            "with --data, apart by spaces"
        )
    check_store(app)
    return urls


def _show(app: App, found: "Sequence[ShardsAt]") -> None:
    from eventlog.postgres.shards import ranges

    told = [
        {
            "store": one.store, "name": one.name, "shards": ranges(one.here),
            "count": len(one.here), "moving": one.moving, "others": one.others,
            "users": one.streams, "stored_bytes": one.stored_bytes, "nodes": len(one.nodes),
        }
        for one in found
    ]  # fmt: skip
    if print_for_programs(app, told):
        return
    shown = table("database", "shards", "in all", "users", "bytes", right=("in all", "users"))
    names = {one.store: one.name for one in found}
    for row, one in zip(told, found, strict=True):
        moving = "".join(f"\n{told}" for told in _ways(one, names))
        shown.add_row(
            text(one.name), text(f"{row['shards'] or '-'}{moving}"), f"{len(one.here):,}",
            f"{one.streams:,}", size(one.stored_bytes),
        )  # fmt: skip
    print_table(shown)
    if any(one.moving for one in found):
        say("A move is under way, or was cut off: run it again, and it goes on.", "yellow")
        say("To give it up instead, move the shards back to where they came from.", "yellow")


def _ways(one: "ShardsAt", names: Mapping[str, str]) -> list[str]:
    """Return what is on its way from a place, or to it, in words."""
    from eventlog.postgres.shards import ranges

    ways: dict[tuple[str, str], list[int]] = {}
    for shard, state in one.moving.items():
        ways.setdefault((state, one.others[shard]), []).append(shard)
    return [
        f"{state} {ranges(some)}, {_WAYS[state]} {names.get(other, other)}"
        for (state, other), some in sorted(ways.items())
    ]


@shards.command(cls=SharedCommand, shared=OF_SHARDS)
@click.argument("shard", nargs=-1, metavar="[SHARD|FIRST-LAST]...")
@click.option("--user", "of_users", multiple=True, metavar="ID", help="This user's shard.")
@click.option("--to", "to", metavar="URL", help="The database they go to: its URL, or its name.")
@click.option("--even", is_flag=True, help="Move as many as it takes for all to have as many.")
@pass_app
def move(
    app: App, /, shard: tuple[str, ...], of_users: tuple[str, ...], to: str | None, *, even: bool
) -> None:
    """Move shards to another database, while their users go on.

    Each is copied, verified and handed over; its users wait for the last moments of that. Run it
    again if it was cut off: it goes on where it was. To give it up, move the shards back to where
    they came from. Every process that has the memory open has to have it open with all databases.
    """
    wanted = [one for given in shard for one in _range(given)] + [shard_of(one) for one in of_users]
    if even == bool(wanted) or even == bool(to):
        raise click.UsageError("name shards or users and --to, or say --even")
    with progress_bar("Moving shards", quiet=app.json) as moved:
        done = run(lambda: _moved(app, wanted, to, moved))
    if not print_for_programs(app, done):
        _say_moved(done)


async def _moved(
    app: App, wanted: Sequence[int], to: str | None, progress: Any
) -> "list[ShardMoved]":
    from memory_actors.sharing.moving import evenly, finish_moves, move_shards, shards_in

    urls = _urls(app)
    if to is not None:
        return await move_shards(urls, wanted, to, progress=progress)
    done = await finish_moves(urls)
    moves = sorted(evenly(await shards_in(urls)), key=itemgetter(1))
    for url, some in groupby(moves, key=itemgetter(1)):
        done += await move_shards(urls, [one for one, _ in some], url, progress=progress)
    return done


def _say_moved(done: "Sequence[ShardMoved]") -> None:
    if not done:
        say("Nothing was moved: all of these shards are where they are to be.")
        return
    streams, longest = sum(one.streams for one in done), max(one.waited_s for one in done)
    say(f"✓ {len(done):,} shards with {streams:,} streams have moved, verified.", "green")
    say(f"  Nobody could use a shard for {longest:.2f} s at most.")


def _range(given: str) -> range:
    first, dash, last = given.partition("-")
    try:
        found = range(int(first), int(last if dash else first) + 1)
    except ValueError:
        found = range(0)
    if not found or not 0 <= found[0] <= found[-1] < SHARDS:
        raise click.BadParameter(f"{given!r:.40} is no shard from 0 to {SHARDS - 1}, and no range")
    return found
