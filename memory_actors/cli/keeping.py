"""backup, copy, repair, erase, purge, heads, heads-key."""

from collections.abc import Mapping
from pathlib import Path

import click

from eventlog import Copied, RepairReport, write_heads
from eventlog.keys.cryptography import new_key
from memory_actors.base.reports import EraseReceipt, PurgeReport, TakenOut
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.log import FILE
from memory_actors.cli.options import TRUST, App
from memory_actors.cli.output import print_for_programs, print_result, progress_bar, say, size
from memory_actors.cli.running import check_store, opened, run, with_system
from memory_actors.sharing.address import shown
from memory_actors.upkeep.offline.copying import copy_store, repair_store


@mirrors(
    "system.backup",
    directory=click.argument("directory", type=click.Path(path_type=Path)),
    derived=click.option(
        "--derived", is_flag=True, help="With vectors, which the model could make again."
    ),
)
def backup(made: Copied) -> None:
    """Write a verified backup of all memories to a new DIRECTORY. `copy` puts it back."""
    say(f"✓ {made.position:,} events, {size(made.size_bytes)}, in {made.target}", "green")


@options.command(shared=options.OF_NOTHING)
@click.argument("source", type=click.Path(path_type=Path, file_okay=False))
@click.argument("target")
def copy(app: App, /, source: Path, target: str) -> None:
    """Copy the closed store or backup in SOURCE to TARGET, a directory or the URL of a database.

    SOURCE is not changed. The copy is verified before anybody can open it; run it again if it was
    cut off. A closed store in the directory TARGET is moved aside, and its API keys are kept. In a
    database, the schema must be empty, and vectors are computed again.
    """
    with progress_bar("Copying", quiet=app.json) as progress:
        done = copy_store(source, target, progress=progress)
    if not print_for_programs(app, done):
        say(f"✓ {done.position:,} events are in {shown(target)}, verified.", "green")
        if done.replaced is not None:
            say(f"What was there before is in {done.replaced}")


@options.command(shared=options.OF_STORE)
@click.argument("target", type=click.Path(path_type=Path))
def repair(app: App, /, target: Path) -> None:
    """Copy the readable data of a damaged store to a new one in TARGET; list what was lost.

    Exits with 1 if anything was left behind, or nothing says how much there was.
    """
    directory = app.directory_or("go over to a standby, or restore what `pg_dump` made")
    check_store(app)
    report = repair_store(directory, target, key_file=app.key_file)
    print_result(app, report, _say_repaired)
    if not report.is_whole:
        raise click.exceptions.Exit(1)


def _say_repaired(report: RepairReport) -> None:
    say(f"{report.events:,} events of {report.streams:,} streams are in {report.directory}")
    for left in report.left_behind:
        say(f"✗ stream {left.stream}: {left.lost:,} events left behind: {left.reason}", "yellow")
    if report.missing is None:
        say("✗ How many events there were cannot be told: log and anchor are damaged", "yellow")
    elif report.missing:
        say(f"✗ {report.missing:,} more events had been committed and are lost", "yellow")
    if report.is_whole:
        say("✓ Nothing was left behind.", "green")


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


@options.command(shared=options.OF_STORE)
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--sign", "private_key", type=FILE, help="A private key of `heads-key`.")
def heads(app: App, /, file: Path, private_key: Path | None) -> None:
    """Write to FILE where the store stands: `verify --against` proves that its past is the same."""
    now = with_system(app, lambda memory: memory.heads())
    write_heads(file, now, private_key)
    told = {"file": str(file), "position": now.position, "signed": private_key is not None}
    if not print_for_programs(app, told):
        say(f"✓ The head at position {now.position:,} is in {file}", "green")


@options.command("heads-key", shared=options.OF_NOTHING)
@click.argument("private_key", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("public_key", type=click.Path(path_type=Path, dir_okay=False))
def heads_key(app: App, /, private_key: Path, public_key: Path) -> None:
    """Make a pair of Ed25519 keys to sign heads with, in two new files."""
    new_key(private_key, public_key)
    told = {"private_key": str(private_key), "public_key": str(public_key)}
    said = f"Keep {private_key} to yourself, and not beside the store; publish {public_key}."
    print_result(app, told, said)


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
