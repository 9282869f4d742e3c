"""The command line: `memory-actors`.

Exit codes: 0 done; 1 refused or failed; 2 the command line itself is wrong; 130 interrupted.
With `--json`, stdout holds one JSON document and nothing else (`export`, `improve` and
`context sync --watch`: JSON lines), and an error is one line:
`{"error": {"type": …, "message": …}}`.
"""

import io
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from eventlog import EventLogError
from memory_actors.base.errors import MemoryActorsError
from memory_actors.base.version import version
from memory_actors.cli.compaction import compact, compaction
from memory_actors.cli.context import context
from memory_actors.cli.demo import demo
from memory_actors.cli.doctor import doctor
from memory_actors.cli.documents import document
from memory_actors.cli.entities import entity
from memory_actors.cli.episodes import episode
from memory_actors.cli.extracting import extract, extractions, undo
from memory_actors.cli.improve import improve
from memory_actors.cli.keeping import (
    backup,
    erase,
    heads,
    heads_key,
    move,
    purge,
    ray_stop,
    repair,
    restore_backup,
)
from memory_actors.cli.log import history, log, stats, verify
from memory_actors.cli.mcp import mcp
from memory_actors.cli.memories import add, count, delete, delete_many, get, list_, restore, search
from memory_actors.cli.model import model
from memory_actors.cli.options import App, Group
from memory_actors.cli.output import print_error
from memory_actors.cli.past import diff, replay, why
from memory_actors.cli.quotas import cost, tier, usage
from memory_actors.cli.running import log_to_stderr
from memory_actors.cli.serve import keys, serve, ui
from memory_actors.cli.shards import shards
from memory_actors.cli.transfer import export, export_since, import_, import_since

__all__ = ["App", "main"]

REFUSED, USAGE, INTERRUPTED = 1, 2, 130


class Program(Group):
    """The whole program: a group of commands, and what becomes of their errors."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> Any:
        """Run a command line and exit with its code."""
        arguments = list(sys.argv[1:] if args is None else args)
        app = extra.setdefault("obj", None) or App()
        extra |= {"obj": app, "standalone_mode": False}
        # Replace what the terminal's encoding lacks, instead of failing on it.
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="replace")
        log_to_stderr()
        try:
            code = super().main(arguments, *rest, **extra)
        except Exception as error:
            app.json = app.json or "--json" in arguments
            code = _report(error, app)
        sys.exit(code if isinstance(code, int) else 0)


def _report(error: Exception, app: App) -> int:
    """Say what went wrong; return the exit code."""
    if app.debug:
        traceback.print_exception(error)
    if isinstance(error, click.Abort):
        print_error("Interrupted", "interrupted", as_json=app.json)
        return INTERRUPTED
    if isinstance(error, click.exceptions.NoArgsIsHelpError) and not app.json:
        click.echo(error.format_message())
        return USAGE
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx is not None else "memory-actors"
        said = f"{error.format_message()}\nSee `{path} --help`."
        print_error("UsageError", said, as_json=app.json)
        return USAGE
    kind, said = type(error).__name__, str(error)
    if not isinstance(error, MemoryActorsError | EventLogError):
        said = f"unexpected {kind}: {said}. Run it again with --debug, and report what it prints"
    print_error(kind, said, as_json=app.json)
    return REFUSED


@click.group(cls=Program)
@click.version_option(version())
def main() -> None:
    """Long-term memory for AI agents: add, search, audit.

    Options go before or behind the command's name. Exit codes: 0 done, 1 refused or failed, 2 wrong
    command line.
    """


for command in (
    add, search, list_, count, get, delete, delete_many, restore, entity, episode, document,
    context, import_, export, usage, cost, tier, history, why, log, replay, diff, stats, verify,
    backup, restore_backup, move, export_since, import_since, repair, erase, purge, heads,
    heads_key, model, doctor, demo, serve, ui, keys, mcp, compact, compaction, improve,
    extract, extractions, undo, shards, ray_stop,
):  # fmt: skip
    main.add_command(command)
