"""hold, release, holds, retention, recalls."""

from collections.abc import Sequence

import click

from memory_actors.base.reports import Hold, Recall, Retained
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.output import local, print_table, say, table


@mirrors("hold", new=True)
def hold(placed: Hold) -> None:
    """Put the user under a legal hold: nothing expires, and `erase` is refused. REASON is kept."""
    say(f"✓ {placed.user_id} is under the hold {placed.hold_id}.", "green")


@mirrors("release", hold_id=click.argument("hold_id"))
def release(released: Hold) -> None:
    """Release the legal hold HOLD_ID."""
    say(f"✓ Released: {released.hold_id}.", "green")


@mirrors("holds", released=click.option("--released", is_flag=True, help="Former ones, too."))
def holds(found: Sequence[Hold]) -> None:
    """List the legal holds on the user, and who placed them."""
    shown = table("hold", "reason", "placed", "by", "released", "by")
    for one in found:
        until = "" if one.released_at is None else local(one.released_at)
        shown.add_row(
            one.hold_id, one.reason, local(one.placed_at), one.placed_by, until, one.released_by
        )
    print_table(shown)


@mirrors(
    "apply_retention",
    name="retention",
    from_log=click.option("--from-log", is_flag=True, help="Out of the log, too, for good."),
)
def retention(applied: Retained) -> None:
    """Delete what the retention rules no longer allow; with --dry-run, say what would go."""
    if applied.held:
        say("A legal hold stops them: see `holds`.", "yellow")
    for kind, ids in applied.gone.items():
        say(f"{len(ids):,} {kind} {'would go' if applied.dry_run else 'gone'}")
    if not (applied.gone or applied.held):
        say("Nothing is too old by the rules of the process that has the store open.")


@mirrors(
    "system.recalls",
    query=click.option("--query", help="Only searches for exactly this."),
    memory_id=click.option("--memory", "memory_id", help="Only those that returned this one."),
    since=None,
    until=None,
)
def recalls(found: Sequence[Recall]) -> None:
    """Show who searched the user's memory, and what came back: Settings.recall_audit keeps it."""
    shown = table("at", "agent", "session", "query", "memories")
    for one in found:
        ids = "\n".join(one.memory_ids)
        shown.add_row(local(one.at), one.agent_id, one.session_id, one.query, ids)
    print_table(shown)
