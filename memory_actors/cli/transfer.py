"""import, export: memories as lines, and as files of other programs."""

from pathlib import Path
from typing import Any

import click

from memory_actors.api.user import UserMemory
from memory_actors.cli import options
from memory_actors.cli.options import App
from memory_actors.cli.output import (
    counted,
    print_for_programs,
    print_result,
    progress_bar,
    progress_bars,
    say,
    write_bytes,
)
from memory_actors.cli.running import (
    chosen_user,
    ensure_model,
    opened,
    run,
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
