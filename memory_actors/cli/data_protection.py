"""forget, forgotten, unforget, hold, release, holds, retention, recalls, erase, purge."""

from collections.abc import Mapping

import click

from memory_actors.base.reports import (
    EraseReceipt,
    Forgotten,
    ForgottenFact,
    Hold,
    PurgeReport,
    Retained,
    TakenOut,
)
from memory_actors.cli import options
from memory_actors.cli.deriving import listed, mirrors
from memory_actors.cli.options import TRUST, App
from memory_actors.cli.output import counted, print_result, progress_bar, say
from memory_actors.cli.running import opened, run


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


def _confirm(app: App, given: Mapping[str, object]) -> None:
    if app.user is None:
        raise click.UsageError("say whom with --user")
    if not given["yes"]:
        click.confirm(f"Erase everything of user {app.user!r}? It cannot be undone", abort=True)


@mirrors(
    "system.erase",
    check=_confirm,
    more=[click.option("--yes", is_flag=True, help="Do not ask.")],
    despite_hold=click.option("--despite-hold", is_flag=True, help="Also under a legal hold."),
)
def erase(receipt: EraseReceipt, app: App) -> None:
    """Erase the user that --user names, for good: memories, history, keys."""
    if receipt.events:
        say(f"✓ {receipt.events:,} events erased at {receipt.erased_at.isoformat()}.", "green")
        if receipt.key_deleted:
            say("Their key is deleted: backups made before cannot be read.")
        elif app.key_file is not None:
            say("There was no key of theirs: see that no other copy of the file of keys has one.")
        else:
            say("Backups made before still hold them.")
    else:
        say("There was nothing to erase.")


@options.command()
@click.option("--source", metavar="NAME", help="Only content of this source, as writes name it.")
@click.option("--trust", type=TRUST, help="Only what is trusted so far.")
@click.option("--dry-run", is_flag=True, help="Show the changes, and make none.")
def purge(app: App, /, source: str | None, trust: str | None, dry_run: bool) -> None:
    """Remove the content of a source from the memory of --user, or of all users.

    Deletes what the source wrote, and restores the text of others where the source changed it.
    Summaries that have anything of it go, too; their other originals come back. `log` and `why`
    still show it all.
    """
    report = run(lambda: _purged(app, source, trust, dry_run=dry_run))
    print_result(app, report, _say_report)
    if report.failed:
        raise SystemExit(1)


async def _purged(app: App, source: str | None, trust: str | None, *, dry_run: bool) -> PurgeReport:
    with progress_bar("Purging", quiet=app.json) as progress:
        async with opened(app) as memory:
            if app.user is None:
                return await memory.purge(source, trust=trust, dry_run=dry_run, progress=progress)
            one = await memory.user(app.user).purge(source, trust=trust, dry_run=dry_run)
            told = (one,) if one.count else ()
            return PurgeReport(users=1, dry_run=dry_run, receipts=told)


def _say_report(report: PurgeReport) -> None:
    for receipt in report.receipts:
        say(f"{receipt.user_id}: {taken_out(receipt)}")
    for user_id in report.failed:
        say(f"✗ {user_id}: could not be read or written; purge again", "red")
    if not report.receipts and not report.failed:
        say("There was nothing of it.")
    elif report.dry_run:
        say("Nothing was changed: that is what a purge would do.", "dim")


def taken_out(receipt: TakenOut) -> str:
    """Return a sentence about the memories that a purge or `forget` took out."""
    parts = [f"{len(ids):,} {kind} gone" for kind, ids in receipt.gone.items()]
    parts += [f"{len(ids):,} {kind} with less" for kind, ids in receipt.changed.items()]
    beside = {
        "back out of summaries": receipt.came_back,
        "without room (`restore` brings them back)": receipt.left_out,
        "dropped by retention": receipt.lost,
    }
    return ", ".join([*parts, *(f"{len(ids):,} {what}" for what, ids in beside.items() if ids)])
