"""add."""

from collections.abc import Mapping
from typing import Any

import click

from memory_actors.api.user import TAKES
from memory_actors.base.records import MemoryType, Receipt
from memory_actors.cli import options
from memory_actors.cli.deriving import WORDS, mirrors
from memory_actors.cli.options import App
from memory_actors.cli.showing import say_added


def _check(_app: App, given: Mapping[str, Any]) -> None:
    kind = MemoryType(given["memory_type"])
    for name in sorted(set().union(*TAKES.values()) - TAKES[kind]):
        if given.get(name) not in (None, False):
            raise click.UsageError(f"{WORDS[name][0]} does not go with --type {kind}")


@mirrors(
    "add", new=True, embeds=True, check=_check, more=[options.agent],
    content=click.argument("content", type=options.given_text),
    memory_type=click.option(
        "--type", "memory_type", type=options.MEMORY_TYPE, default="long_term", show_default=True
    ),
)  # fmt: skip
def add(receipt: Receipt) -> None:
    """Add a memory. CONTENT is its text, or - to read it from stdin.

    What the text is depends on the type: a fact (long_term), a message (short_term), the value of
    --key (working), the name of an entity (entity; with --key that is the name, and the text is
    observed of it), the goal of a new episode (episodic), a JSON document (structured), or an entry
    of MEMORY.md (context; in the section --key).
    """
    say_added(receipt)
