"""entity add, relate, end, get, neighbours."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec
from rich.tree import Tree

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Entity, Memory, Neighbour, Receipt, Relationship
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, Group, a_time, pass_app
from memory_actors.cli.output import print_json, print_table, print_tree, say, table, text
from memory_actors.cli.running import ensure_model, whole_id, with_user
from memory_actors.cli.showing import print_memory, say_added, short_id, validity

TYPE = "entity"


@click.group(cls=Group)
def entity() -> None:
    """Add, relate and look up people, things and places."""


@entity.command("add", cls=Command, shared=options.OF_NEW)
@click.argument("name")
@click.option("--type", "kind", default=TYPE, show_default=True, help="Person, city, …")
@click.option("--observe", multiple=True, metavar="TEXT", help="What is known; may be repeated.")
@options.metadata
@options.at
@options.pin
@options.prune
@options.said_by
@pass_app
def add(app: App, /, name: str, kind: str, observe: Sequence[str], **given: Any) -> None:
    """Add an entity, or what is new of it to the one that has its name and type."""
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.entities.add_entity(
            name,
            kind,
            observe,
            metadata=given["metadata"],
            occurred_at=given["at"],
            pinned=given["pin"],
            auto_prune=given["prune"],
        )

    receipt = with_user(app, work, create=True)
    if app.json:
        print_json(receipt)
    else:
        say_added(receipt)


@entity.command("relate", cls=Command)
@click.argument("source")
@click.argument("relation")
@click.argument("target")
@a_time("--from", "valid_from", help="Since when it is true.  [default: now]")
@a_time("--to", "valid_to", help="When it ended.  [default: it goes on]")
@click.option("--fact", metavar="TEXT", help="The same in words, to be found by.")
@click.option(
    "--exclusive/--no-exclusive", default=None,
    help="Whether SOURCE has one such relationship at a time, so that this one ends the others.  "
    "[default: yes for lives_in, works_at and the like]",
)  # fmt: skip
@options.metadata
@options.pin
@options.prune
@options.said_by
@pass_app
def relate(app: App, /, source: str, relation: str, target: str, **given: Any) -> None:
    """Say that SOURCE relates to TARGET, both by name or id: Ada works_at Acme."""
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.entities.relate(
            source,
            relation,
            target,
            fact=given["fact"],
            valid_from=given["valid_from"],
            valid_to=given["valid_to"],
            exclusive=given["exclusive"],
            metadata=given["metadata"],
            pinned=given["pin"],
            auto_prune=given["prune"],
        )

    receipt = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        say_added(receipt, "relationship")


@entity.command("end", cls=Command)
@click.argument("relationship_id", metavar="ID")
@a_time("--at", help="When it ended.  [default: now]")
@pass_app
def end(app: App, /, relationship_id: str, at: datetime | None) -> None:
    """Say that the relationship ID is over. It stays, as a thing of the past."""

    async def work(user: UserMemory) -> Receipt:
        return await user.entities.end(await whole_id(user, relationship_id), at)

    receipt = with_user(app, work)
    if app.json:
        print_json(receipt)
    else:
        done = "Ended" if receipt.operation == "update" else "Had ended then already"
        say(f"{done}: {receipt.memory_id}")


# --- look up


@entity.command("get", cls=Command)
@click.argument("name")
@click.option("--type", "kind", help="Tells entities of one name apart.")
@pass_app
def get(app: App, /, name: str, kind: str | None) -> None:
    """Show the entity NAME (or with that id), and how it relates to others, past and present."""

    async def work(user: UserMemory) -> tuple[Entity, Memory, list[Relationship]]:
        found = await user.entities.get(name, kind)
        related = await user.entities.relationships(found.memory_id, ended=True)
        return found, await user.get(found.memory_id), related

    found, memory, related = with_user(app, work)
    if app.json:
        print_json({**msgspec.structs.asdict(found), "relationships": related})
        return
    print_memory(memory)
    if related:
        _print_relationships(found, related)


def _print_relationships(start: Entity, related: Sequence[Relationship]) -> None:
    say("")
    shown = table("relationships, newest first", "")
    for it in related:
        style = "dim" if it.valid_to is not None else ""
        what = text(_arrow(start.memory_id, it), style) + text(f"\n{short_id(it.memory_id)}", "dim")
        shown.add_row(what, text(validity(it), style))
    print_table(shown)


@entity.command("neighbours", cls=Command)
@click.argument("name")
@click.option(
    "--depth", type=options.Count(min=1), default=1, show_default=True, help="How many steps away."
)
@a_time("--as-of", help="As it was then.  [default: now]")
@click.option("--ended", is_flag=True, help="What was ever true, not only what is.")
@click.option("--limit", type=options.Count(min=1), default=100, show_default=True)
@pass_app
def neighbours(
    app: App, /, name: str, depth: int, as_of: datetime | None, ended: bool, limit: int
) -> None:
    """Show the entities that NAME relates to, and those that they relate to, as a tree."""

    async def work(user: UserMemory) -> tuple[Entity, list[Neighbour]]:
        start = await user.entities.get(name)
        found = await user.entities.neighbours(
            start.memory_id, depth, as_of=as_of, ended=ended, limit=limit
        )
        return start, found

    start, found = with_user(app, work)
    if app.json:
        print_json(found)
        return
    print_tree(_tree(start, found))
    if not found:
        say("Nothing relates to it then." if as_of else "Nothing relates to it.", "dim")


def _tree(start: Entity, found: Sequence[Neighbour]) -> Tree:
    """Return a tree: each entity under the one from which it was reached, the nearest first."""
    tree = Tree(text(_named(start), "bold"))
    branches = {start.memory_id: tree}
    for there in found:
        last = there.path[-1]
        ends = {last.source_id, last.target_id}
        (before,) = ends - {there.entity.memory_id}
        label = text(f"{_arrow(before, last)} ({there.entity.type})")
        branches[there.entity.memory_id] = branches[before].add(
            label + text(f"  {validity(last)}", "dim")
        )
    return tree


def _arrow(here: str, it: Relationship) -> str:
    """Return a relationship as it reads from one of its ends."""
    if it.source_id == here:
        return f"{it.relation} → {it.target}"
    return f"← {it.relation} ─ {it.source}"


def _named(it: Entity) -> str:
    return f"{it.name} ({it.type})"
