"""import, export; export-since, import-since: memories as lines, a store's log to its copy."""

from pathlib import Path

import click

from eventlog import Exported, Imported
from memory_actors.api.user import UserMemory
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, Count, pass_app
from memory_actors.cli.output import counted, print_json, progress_bar, say, size, write_bytes
from memory_actors.cli.running import chosen_user, ensure_model, opened, run, with_system, with_user
from memory_actors.interchange import (
    ImportReport,
    export_jsonl,
    export_lines,
    import_jsonl,
    import_locomo,
    open_file,
)
from memory_actors.sharing.system import MemorySystem

STDIN = Path("/dev/stdin")


@click.command("import", cls=Command, shared=options.OF_NEW)
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--format", "form", type=click.Choice(["jsonl", "locomo"]), default="jsonl", show_default=True
)
@options.said_by
@pass_app
def import_(app: App, /, file: Path, form: str) -> None:
    """Add the memories in FILE, or on stdin for -. Run it again if it was cut off.

    jsonl: one JSON object a line, with `content` and, if you like, `timestamp`, `session`, `role`,
    `metadata`, `memory_type`, `key`, `pinned`, `id`; `data` in place of the content for entities,
    relationships, episodes and documents, as an export writes it. Nothing is added twice.

    locomo: each conversation becomes a user of its own, each turn a memory; --user has no say.
    """
    path = STDIN if str(file) == "-" else file
    if not path.is_fifo():
        open_file(path).close()  # what cannot be read is no reason to make a store
    ensure_model(app)
    report = run(lambda: _imported(app, path, form))
    if app.json:
        print_json(report)
    else:
        _say_imported(report)


async def _imported(app: App, path: Path, form: str) -> ImportReport:
    with progress_bar("Importing", quiet=app.json) as moved:
        async with opened(app, create=True) as memory:
            if form == "locomo":
                return await import_locomo(memory, path, progress=moved)
            user_id = await chosen_user(app, memory)
            user = memory.user(user_id, source=app.source, trust=app.trust)
            return await import_jsonl(user, path, progress=moved)


def _say_imported(report: ImportReport) -> None:
    users = ", ".join(report.users[:5]) + (" …" if len(report.users) > 5 else "")
    say(f"Added {report.added:,} memories to {users}; {report.unchanged:,} were there already.")
    for one in report.notes:
        say(f"{counted(one.lines, 'line')}: {one.says}.", "yellow")
    if report.unindexed:
        say(f"{report.unindexed:,} are not searchable until the model works again.", "yellow")


@click.command("export", cls=Command)
@click.argument("file", type=click.Path(path_type=Path), default="-")
@pass_app
def export(app: App, /, file: Path) -> None:
    """Write all memories of the user as JSON lines to FILE, or to stdout. `import` reads them."""
    if str(file) == "-":
        with_user(app, _to_stdout)
        return
    with progress_bar("Exporting", quiet=app.json) as moved:
        count = with_user(app, lambda user: export_jsonl(user, file, progress=moved))
    if app.json:
        print_json({"file": str(file), "memories": count})
    else:
        say(f"Wrote {count:,} memories to {file}")


async def _to_stdout(user: UserMemory) -> None:
    async for line in export_lines(user):
        write_bytes(line)


INCREMENT = click.Path(path_type=Path, dir_okay=False)


@click.command("export-since", cls=Command, shared=options.OF_STORE)
@click.argument("position", type=Count(min=0))
@click.argument("file", type=INCREMENT)
@pass_app
def export_since(app: App, /, position: int, file: Path) -> None:
    """Write what all users did behind POSITION to a new FILE, for `import-since` of a copy.

    0 is the beginning. It says at which position the next one goes on. The history goes with it,
    and who was erased; API keys do not. `export` writes one user's memories as JSON lines instead.
    """

    async def work(memory: MemorySystem) -> Exported:
        return await memory.export_since(position, file, progress=moved)

    with progress_bar("Exporting", quiet=app.json) as moved:
        made = with_system(app, work)
    if app.json:
        print_json(made)
        return
    say(f"✓ {made.events:,} events, {size(made.size_bytes)}, in {made.file}", "green")
    say(f"The next one goes on at {made.position}.")


@click.command("import-since", cls=Command, shared=(*options.OF_STORE, "encrypt"))
@click.argument("file", type=INCREMENT)
@pass_app
def import_since(app: App, /, file: Path) -> None:
    """Append what `export-since` of another store wrote to FILE. Run it again if it was cut off.

    The store must be closed, and have the very same past: a restored backup of the other one, or
    what was imported from it before. A new store takes what was exported from 0 on.
    """

    async def work() -> Imported:
        return await MemorySystem.import_events(
            file, app.directory, key_file=app.key_file, progress=moved
        )

    with progress_bar("Importing", quiet=app.json) as moved:
        done = run(work)
    if app.json:
        print_json(done)
        return
    say(f"✓ {done.events:,} events added: the store is at position {done.position:,}", "green")
    if done.erased_streams:
        say("Who was erased in the other store is erased here, too.")
