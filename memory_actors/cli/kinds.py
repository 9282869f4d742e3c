"""entity, episode, document: commands of the kinds that are more than a text."""

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import click
import msgspec
from rich.tree import Tree

from memory_actors.api.operations import OPERATIONS
from memory_actors.api.user import UserMemory
from memory_actors.base.records import (
    Document,
    Entity,
    Episode,
    Memory,
    Neighbour,
    Receipt,
    Relationship,
)
from memory_actors.cli import options
from memory_actors.cli.deriving import done, mirrors
from memory_actors.cli.memories import say_more
from memory_actors.cli.options import App, Group, given_text, json_object
from memory_actors.cli.output import counted, local, print_table, say, shortened, table, text
from memory_actors.cli.showing import (
    CONTENT_CHARACTERS_MAX,
    STATUS_STYLES,
    print_memory,
    say_added,
    short_id,
    validity,
)
from memory_actors.users.handles.documents import DEFAULT_COLLECTION
from memory_actors.users.handles.episodes import DEFAULT_AGENT


class Known(NamedTuple):
    """A record, and the same as a memory."""

    record: Any
    memory: Memory
    relationships: Sequence[Relationship] = ()
    """Of an entity."""


def _known(operation: str) -> Callable[..., Awaitable[Known]]:
    """Return an operation that reads a record, and the same as a memory."""

    async def read(user: UserMemory, **given: object) -> Known:
        record = await OPERATIONS[operation].call(user, given)
        return Known(record, await user.get(record.memory_id))

    return read


# --- entity

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
    ended = "Ended" if receipt.operation == "update" else "Had ended then already"
    say(f"{ended}: {receipt.memory_id}")


async def _entity(user: UserMemory, **given: object) -> Known:
    known = await _known("entities.get")(user, **given)
    related = await user.entities.relationships(known.record.memory_id, ended=True)
    return known._replace(relationships=related)


@mirrors(
    "entities.get", entity, work=_entity, entity_ref=NAMED,
    as_json=lambda it: {**msgspec.structs.asdict(it.record), "relationships": it.relationships},
    type=click.option("--type", "type", help="Tells entities of one name apart."),
)  # fmt: skip
def get(known: Known) -> None:
    """Show the entity NAME (or with that id), and how it relates to others, past and present."""
    print_memory(known.memory)
    if not known.relationships:
        return
    say("")
    shown = table("relationships, newest first", "")
    for it in known.relationships:
        style = "dim" if it.valid_to is not None else ""
        what = text(_arrow(known.memory.memory_id, it), style)
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


# --- episode

agent_of = click.option(
    "--agent", metavar="ID", help=f"Whose episodes.  [default: {DEFAULT_AGENT}]"
)


@click.group(cls=Group)
def episode() -> None:
    """Record what an agent wanted, did, and what came of it."""


@mirrors("episodes.start", episode, new=True, embeds=True, more=[agent_of], agent_id=None)
def start(receipt: Receipt) -> None:
    """Start an episode. The id that is printed is what step and finish take."""
    say_added(receipt, "episode")


async def _stepped(
    user: UserMemory, episode_id: str, action: str, **said: str | None
) -> tuple[Receipt, Episode]:
    receipt = await user.episodes.step(episode_id, action, **said)
    return receipt, await user.episodes.get(receipt.memory_id)


@mirrors("episodes.step", episode, embeds=True, work=_stepped, as_json=lambda done: done[0])
def step(stepped: tuple[Receipt, Episode]) -> None:
    """Add a step to the running episode ID."""
    now = stepped[1]
    say(f"Step {now.steps[-1].number} of {now.memory_id}")


@mirrors(
    "episodes.finish", episode, embeds=True,
    result=click.argument("result", required=False),
    success=click.option(
        "--failed", "success", is_flag=True, help="It did not reach its goal.",
        callback=lambda _context, _option, failed: not failed,
    ),
)  # fmt: skip
def finish(receipt: Receipt, success: bool) -> None:
    """End the running episode ID, with words about what came of it or without."""
    say(f"{'Done' if success else 'Failed'}: {receipt.memory_id}")


mirrors(
    "episodes.get", episode, work=_known("episodes.get"), as_json=lambda known: known.record,
    help="Show the episode ID with its steps.",
)(lambda known: print_memory(known.memory))  # fmt: skip


@mirrors("episodes.recent", episode, "list", more=[agent_of], agent_id=None)
def list_(found: Sequence[Episode], agent: str | None) -> None:
    """List an agent's episodes, newest first."""
    shown = table("when", "status", "steps", "goal", right=("steps",))
    for one in found:
        goal = text(shortened(one.goal, CONTENT_CHARACTERS_MAX))
        steps = len(one.steps) + one.steps_evicted
        shown.add_row(
            local(one.occurred_at), text(one.status, STATUS_STYLES[one.status]), f"{steps:,}",
            goal + text(f"\n{short_id(one.memory_id)}", "dim"),
        )  # fmt: skip
    print_table(shown, f"No episodes of agent {agent or DEFAULT_AGENT}: --agent names another.")
    if found:
        say(f"{counted(len(found), 'episode')} of agent {found[0].agent_id}", "dim")


# --- document

collection_of = click.option("--collection", default=DEFAULT_COLLECTION, show_default=True)


@click.group(cls=Group)
def document() -> None:
    """Put JSON documents into collections, find them by field."""


def _object(value: str) -> dict[str, object]:
    try:
        return json_object(given_text(value))
    except click.BadParameter as error:
        raise click.BadParameter(error.message, param_hint="JSON") from error


@mirrors(
    "documents.put", document, new=True, embeds=True,
    document=click.argument("document", default="-", metavar="[JSON|-]", type=_object),
    key=click.option("--key", help="Its key in the collection.  [default: its memory id]"),
    pinned=click.option(
        "--pin/--no-pin", "pinned", default=None, help="Whether it is never pruned."
    ),
)  # fmt: skip
def put(receipt: Receipt) -> None:
    """Put a JSON object, or the one on stdin, in place of what COLLECTION has under its key."""
    say_added(receipt, "document")


mirrors(
    "documents.get", document, work=_known("documents.get"), collection=collection_of,
    as_json=lambda known: known.record,
    help="Show the document that has KEY in a collection, or that has this memory id.",
)(lambda known: print_memory(known.memory))  # fmt: skip


@mirrors(
    "documents.find", document,
    collection=click.argument("collection", default=DEFAULT_COLLECTION),
    filters=options.filters("fields of the document"),
    order_by=click.option(
        "--order", "order_by", multiple=True, metavar="FIELD",
        help="Sort by a field, -FIELD for downwards; may be repeated.  [default: as they came]",
    ),
    limit=options.limit,
)  # fmt: skip
def find(found: Sequence[Document], app: App, collection: str, limit: int, offset: int) -> None:
    """List the documents of COLLECTION (the one named default, if none is named)."""
    shown = table("key", "document")
    for one in found:
        value = msgspec.json.encode(one.value).decode()
        shown.add_row(text(one.key), text(shortened(value, CONTENT_CHARACTERS_MAX)))
    print_table(shown, f"Nothing found for user {app.user_id} in collection {collection}.")
    say_more(len(found), limit, offset)


mirrors("documents.delete", document, collection=collection_of)(done("Deleted"))
