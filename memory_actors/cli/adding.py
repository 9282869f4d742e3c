"""add."""

from typing import Any, get_args

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.records import MemoryType, OnDuplicate, Receipt
from memory_actors.cli import options
from memory_actors.cli.options import MEMORY_TYPE, App, Command, given_text, pass_app
from memory_actors.cli.output import print_json
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.cli.showing import say_added

TAKES = {
    MemoryType.WORKING: {"key"},
    MemoryType.SHORT_TERM: {"session", "role", "at"},
    MemoryType.LONG_TERM: {"session", "role", "at", "pin", "on_duplicate"},
    MemoryType.ENTITY: {"key", "at", "pin"},
    MemoryType.EPISODIC: {"session", "at", "pin"},
    MemoryType.STRUCTURED: {"key", "at", "pin"},
    MemoryType.CONTEXT: {"key", "at", "pin"},
}
"""The options that mean something for a type; the others all types take."""


@click.command(cls=Command, shared=options.OF_NEW)
@click.argument("content")
@click.option("--type", "kind", type=MEMORY_TYPE, default="long_term", show_default=True)
@click.option("--key", help="The key of a value or a document, or the name of an entity.")
@click.option("--session", help="The session it belongs to.")
@click.option("--role", help="Who said it.")
@options.agent
@options.metadata
@options.at
@options.pin
@options.prune
@click.option(
    "--on-duplicate",
    type=click.Choice(get_args(OnDuplicate)),
    help="What becomes of a fact that is there already.  [default: count]",
)
@options.said_by
@pass_app
def add(app: App, /, content: str, kind: str, agent: str | None, prune: bool, **given: Any) -> None:
    """Add a memory. CONTENT is its text, or - to read it from stdin.

    What the text is depends on the type: a fact (long_term), a message (short_term), the value of
    --key (working), the name of an entity (entity; with --key that is the name, and the text is
    observed of it), the goal of a new episode (episodic), a JSON document (structured), or an entry
    of MEMORY.md (context; in the section --key).
    """
    _check_options(MemoryType(kind), given)
    fields: dict[str, Any] = {
        "metadata": given["metadata"],
        "occurred_at": given["at"],
        "session_id": given["session"],
        "role": given["role"],
        "key": given["key"],
        "pinned": given["pin"],
        "auto_prune": prune,
        "on_duplicate": given["on_duplicate"],
    }
    text = given_text(content)
    ensure_model(app)

    async def work(user: UserMemory) -> Receipt:
        return await user.add(text, kind, **fields)

    receipt = with_user(app, work, create=True, agent=agent)
    if app.json:
        print_json(receipt)
    else:
        say_added(receipt)


def _check_options(kind: MemoryType, given: dict[str, Any]) -> None:
    for name in sorted(set().union(*TAKES.values()) - TAKES[kind]):
        if given[name] not in (None, False):
            raise click.UsageError(f"--{name.replace('_', '-')} does not go with --type {kind}")
