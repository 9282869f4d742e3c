"""forget, forgotten, unforget, hold, release, holds, retention, recalls."""

import click

from memory_actors.base.reports import Forgotten, ForgottenFact, Hold, Retained
from memory_actors.cli.deriving import listed, mirrors
from memory_actors.cli.keeping import taken_out
from memory_actors.cli.output import counted, say


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


forgotten = mirrors("forgotten", help="List the forgotten facts that are refused, newest first.")(
    listed("Nothing was forgotten.", digest="digest", at="at", reason="reason", similar="similar")
)


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


holds = mirrors(
    "holds", help="List the legal holds on the user, and who placed them.",
    released=click.option("--released", is_flag=True, help="Former ones, too."),
)(
    listed(
        hold="hold_id", reason="reason", placed="placed_at", by="placed_by",
        released="released_at", released_by="released_by",
    )
)  # fmt: skip


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


recalls = mirrors(
    "system.recalls",
    help="Show searches of the user's memory and their results: Settings.recall_audit keeps them.",
    query=click.option("--query", help="Only searches for exactly this."),
    memory_id=click.option("--memory", "memory_id", help="Only those that returned this one."),
    since=None,
    until=None,
)(listed(at="at", agent="agent_id", session="session_id", query="query", memories="memory_ids"))
