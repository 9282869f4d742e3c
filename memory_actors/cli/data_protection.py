"""forget, forgotten, unforget, hold, release, holds, retention, recalls."""

from collections.abc import Sequence

import click

from memory_actors.base.reports import Forgotten, ForgottenFact, Hold, Recall, Retained
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.keeping import taken_out
from memory_actors.cli.output import counted, local, print_table, say, table


@mirrors("forget", embeds=True)
def forget(done: Forgotten) -> None:
    """Forget WHAT a memory says, by its id or in the same words, in every kind and in the log.

    It is refused from then on: `unforget` lets it in again. Forgotten facts cannot be restored.
    """
    say(taken_out(done) or "No memory says it now.")
    for kind, ids in done.kept.items():
        say(f"✗ {kind} that says more was kept: {', '.join(ids)}", "yellow")
    if done.dry_run:
        say("Nothing was changed: that is what would be forgotten.", "dim")
    else:
        say(f"✓ Its words left {counted(done.rewritten, 'event')} of the log.", "green")


@mirrors("forgotten")
def forgotten(found: Sequence[ForgottenFact]) -> None:
    """List what was forgotten and is refused, newest first: digests, no words."""
    rows = table("digest", "at", "reason", "similar")
    for one in found:
        rows.add_row(one.digest, local(one.at), one.reason, f"{one.similar or ''}")
    print_table(rows, "Nothing was forgotten.")


@mirrors("unforget")
def unforget(_fact: ForgottenFact) -> None:
    """Let WHAT was forgotten come again: its digest, or the same words."""
    say("It may come again.")


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
    """Show searches of the user's memory and their results: Settings.recall_audit keeps them."""
    shown = table("at", "agent", "session", "query", "memories")
    for one in found:
        ids = "\n".join(one.memory_ids)
        shown.add_row(local(one.at), one.agent_id, one.session_id, one.query, ids)
    print_table(shown)
