"""entity add, relate, end, get, neighbours."""

from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec
from rich.tree import Tree

from memory_actors.api.user import UserMemory
from memory_actors.base.records import Entity, Memory, Neighbour, Receipt, Relationship
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.options import Group
from memory_actors.cli.output import print_table, say, table, text
from memory_actors.cli.showing import print_memory, say_added, short_id, validity

NAMED = click.argument("entity_ref", metavar="NAME")


@click.group(cls=Group)
def entity() -> None:
    """Add, relate and look up people, things and places."""


@mirrors(
    "entities.add_entity", entity, "add", new=True, embeds=True,
    type=click.option(
        "--type", "type", default="entity", show_default=True, help="Person, city, …"
    ),
    observations=click.option(
        "--observe", "observations", multiple=True, help="What is known; may be repeated."
    ),
)  # fmt: skip
def add(receipt: Receipt) -> None:
    """Add an entity, or what is new of it to the one that has its name and type."""
    say_added(receipt)


@mirrors("entities.relate", entity, embeds=True)
def relate(receipt: Receipt) -> None:
    """Add a relationship from SOURCE to TARGET, both by name or id: Ada works_at Acme."""
    say_added(receipt, "relationship")


@mirrors("entities.end", entity)
def end(receipt: Receipt) -> None:
    """End the relationship ID. It stays, as a thing of the past."""
    done = "Ended" if receipt.operation == "update" else "Had ended then already"
    say(f"{done}: {receipt.memory_id}")


# --- look up


class KnownEntity(NamedTuple):
    """An entity, and how it relates to others."""

    entity: Entity
    memory: Memory
    relationships: list[Relationship]


async def _known(user: UserMemory, entity_ref: str, type: str | None) -> KnownEntity:  # noqa: A002
    found = await user.entities.get(entity_ref, type)
    related = await user.entities.relationships(found.memory_id, ended=True)
    return KnownEntity(found, await user.get(found.memory_id), related)


@mirrors(
    "entities.get", entity, work=_known, entity_ref=NAMED,
    as_json=lambda it: {**msgspec.structs.asdict(it.entity), "relationships": it.relationships},
    type=click.option("--type", "type", help="Tells entities of one name apart."),
)  # fmt: skip
def get(known: KnownEntity) -> None:
    """Show the entity NAME (or with that id), and how it relates to others, past and present."""
    print_memory(known.memory)
    if not known.relationships:
        return
    say("")
    shown = table("relationships, newest first", "")
    for it in known.relationships:
        style = "dim" if it.valid_to is not None else ""
        what = text(_arrow(known.entity.memory_id, it), style)
        shown.add_row(what + text(f"\n{short_id(it.memory_id)}", "dim"), text(validity(it), style))
    print_table(shown)


async def _near(
    user: UserMemory, entity_ref: str, depth: int, **how: Any
) -> tuple[Entity, list[Neighbour]]:
    start = await user.entities.get(entity_ref)
    return start, await user.entities.neighbours(start.memory_id, depth, **how)


@mirrors(
    "entities.neighbours", entity, work=_near, entity_ref=NAMED, as_json=lambda near: near[1]
)  # fmt: skip
def neighbours(near: tuple[Entity, list[Neighbour]], as_of: datetime | None) -> None:
    """Show the entities that NAME relates to, and those that they relate to, as a tree."""
    start, found = near
    tree = Tree(text(f"{start.name} ({start.type})", "bold"))
    branches = {start.memory_id: tree}
    for there in found:
        last = there.path[-1]
        ends = {last.source_id, last.target_id}
        (before,) = ends - {there.entity.memory_id}
        label = text(f"{_arrow(before, last)} ({there.entity.type})")
        branches[there.entity.memory_id] = branches[before].add(
            label + text(f"  {validity(last)}", "dim")
        )
    print_table(tree)
    if not found:
        say("Nothing relates to it then." if as_of else "Nothing relates to it.", "dim")


def _arrow(here: str, it: Relationship) -> str:
    if it.source_id == here:
        return f"{it.relation} → {it.target}"
    return f"← {it.relation} ─ {it.source}"
