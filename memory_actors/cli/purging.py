"""purge."""

import click

from memory_actors.base.reports import Purged, PurgeReport
from memory_actors.cli.options import TRUST, App, Command, pass_app
from memory_actors.cli.output import print_json, progress_bar, say
from memory_actors.cli.running import opened, run


@click.command(cls=Command)
@click.option("--source", metavar="NAME", help="What came from here, as the writes have named it.")
@click.option("--trust", type=TRUST, help="Only what is trusted so far.")
@click.option("--dry-run", is_flag=True, help="Say what would go, and change nothing.")
@pass_app
def purge(app: App, /, source: str | None, trust: str | None, dry_run: bool) -> None:
    """Take what came from a source out of the memory of --user, or of all users.

    What the source wrote goes, and what it changed says again what others have said. Summaries that
    have anything of it go, too; their other originals come back. `log` and `why` still show it all.
    """
    report = run(lambda: _purged(app, source, trust, dry_run=dry_run))
    if app.json:
        print_json(report)
    else:
        _say_report(report)
    if report.failed:
        raise SystemExit(1)


async def _purged(app: App, source: str | None, trust: str | None, *, dry_run: bool) -> PurgeReport:
    with progress_bar("Purging", quiet=app.json) as moved:
        async with opened(app) as memory:
            if app.user is None:
                return await memory.purge(source, trust=trust, dry_run=dry_run, progress=moved)
            one = await memory.user(app.user).purge(source, trust=trust, dry_run=dry_run)
            told = (one,) if one.count else ()
            return PurgeReport(users=1, dry_run=dry_run, receipts=told)


def _say_report(report: PurgeReport) -> None:
    for receipt in report.receipts:
        say(f"{receipt.user_id}: {_told(receipt)}")
    for user_id in report.failed:
        say(f"✗ {user_id}: could not be read or written; purge again", "red")
    if not report.receipts and not report.failed:
        say("There was nothing of it.")
    elif report.dry_run:
        say("Nothing was changed: that is what a purge would do.", "dim")


def _told(receipt: Purged) -> str:
    parts = [f"{len(ids):,} {kind} gone" for kind, ids in receipt.gone.items()]
    parts += [f"{len(ids):,} {kind} as others left it" for kind, ids in receipt.changed.items()]
    beside = {
        "back out of summaries": receipt.came_back,
        "without room (`restore` brings them back)": receipt.left_out,
        "dropped by retention": receipt.lost,
    }
    return ", ".join([*parts, *(f"{len(ids):,} {what}" for what, ids in beside.items() if ids)])
