"""export-since, import-since: what came since a position, from one store to its copy."""

from pathlib import Path

import click

from eventlog import Exported, Imported
from memory_actors.api.system import MemorySystem
from memory_actors.cli import options
from memory_actors.cli.options import App, Command, Count, pass_app
from memory_actors.cli.output import print_json, progress_bar, say, size
from memory_actors.cli.running import run, with_system

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
