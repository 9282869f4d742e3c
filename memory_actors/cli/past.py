"""replay, diff, why: what was known when, what changed in between, and why."""

from collections.abc import Sequence
from datetime import datetime

import click

from eventlog import OnDropped
from memory_actors.base.records import Memory
from memory_actors.base.reports import Diff, Moment, Why
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.log import style_of
from memory_actors.cli.options import App, a_moment
from memory_actors.cli.output import (
    counted,
    local,
    note,
    print_for_programs,
    print_table,
    say,
    shortened,
    table,
    text,
)
from memory_actors.cli.running import chosen_user, ensure_model, with_system
from memory_actors.cli.showing import memory_table, short_id
from memory_actors.sharing.system import MemorySystem

CONTENT_CHARACTERS_MAX = 100  # of a memory before and after a change
MOMENT = f"a position of the log or a time ({options.LOCAL})"

left = click.option(
    "--left", "dropped", flag_value="mark", default="raise",
    help="Go on where retention has dropped something that was there then: with what is left.",
)  # fmt: skip


# --- replay


@options.command()
@click.argument("query", required=False)
@click.option("--as-of", type=a_moment, metavar="MOMENT", required=True, help=f"When: {MOMENT}.")
@options.types
@options.limit
@left
def replay(
    app: App,
    /,
    query: str | None,
    as_of: int | datetime,
    memory_types: Sequence[str],
    limit: int,
    dropped: OnDropped,
) -> None:
    """Show the memory as it was: what QUERY found then, or, without one, all that was there."""
    kinds = memory_types or None
    if query is not None:
        ensure_model(app)

    async def work(memory: MemorySystem) -> tuple[Moment, int, Sequence[Memory]]:
        user_id = await chosen_user(app, memory)
        async with memory.replay(user_id, as_of, dropped=dropped) as past:
            if query is None:
                return past.moment, past.lost, await past.list_memories(kinds, limit=limit)
            hits = await past.retrieve(query, memory_types=kinds, top_k=limit)
            return past.moment, past.lost, hits

    moment, lost, memories = with_system(app, work)
    if print_for_programs(app, {"moment": moment, "lost": lost, "memories": memories}):
        return
    say(f"As of {local(moment.at)}, position {moment.position:,}:", "bold")
    _say_lost(lost)
    where = f"for user {app.user_id} in {', '.join(memory_types) or 'any type of memory'}"
    nothing = f"Nothing {'there' if query is None else 'found'} {where}."
    print_table(memory_table(memories), nothing)


def _say_lost(lost: int) -> None:
    if lost:
        note(f"Retention has dropped {counted(lost, 'event')} about what was there.", "yellow")


# --- diff


@mirrors(
    "system.diff",
    a=click.argument("a", type=a_moment),
    b=click.argument("b", type=a_moment, required=False),
    dropped=left,
)
def diff(found: Diff) -> None:
    """Show the changes between the moments A and B, with their authors and causes.

    B is now, if it is missing. A moment is a position of the log, or a time such as
    2024-05-01T12:00, in local time unless it names a zone.
    """
    say(f"From position {found.a.position:,} to {found.b.position:,}:", "bold")
    _say_lost(found.lost)
    if found.tier_before != found.tier_after:
        say(f"Tier: {found.tier_before or 'none set'} → {found.tier_after}", "yellow")
    changes = table("change", "type", "memory", "why", whole=("change", "type"))
    for change in found.changes:
        contents = [
            shortened(memory.content, CONTENT_CHARACTERS_MAX)
            for memory in (change.before, change.after)
            if memory is not None
        ]
        said = text("\n→ ".join(dict.fromkeys(contents)))
        said += text(f"\n{short_id(change.memory_id)}", "dim")
        why = "\n".join(f"{step.says} (#{step.position})" for step in change.steps)
        style = style_of(change.change)
        kind = text(change.memory_type)
        changes.add_row(text(change.change, style), kind, said, text(why or "Its time was up."))
    print_table(changes, "Nothing changed.")


# --- why


@mirrors("why")
def why(found: Why) -> None:
    """Show why a memory is there, or no longer is: its life from the first event on."""
    print_why(found)


def print_why(found: Why) -> None:
    """Print the life of a memory, event by event, and how it stands now."""
    for step in found.steps:
        whose = "" if step.memory_id == found.memory_id else f" [{step.memory_id}]"
        say(f"● {local(step.at)}  {step.says}{whose}", style_of(step.effect))
        say(f"│ #{step.position} {step.event} {step.command or ''}".rstrip(), "dim")
    say(found.says, "bold")
    if found.originals:
        say(f"It was made of {', '.join(found.originals)}", "dim")
