"""forget, forgotten, unforget."""

from collections.abc import Sequence

from memory_actors.base.reports import Forgotten, ForgottenFact
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.keeping import taken_out
from memory_actors.cli.output import counted, local, print_table, say, table


@mirrors("forget", embeds=True)
def forget(done: Forgotten) -> None:
    """Forget WHAT a memory says, by its id or in the same words, in every kind and in the log.

    It is refused from then on: `unforget` lets it in again. What was forgotten cannot be restored.
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
