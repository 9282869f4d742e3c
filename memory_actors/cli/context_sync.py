"""context sync: a document and a file in step."""

from pathlib import Path

import click

from memory_actors.api.user import UserMemory
from memory_actors.base.errors import NotFoundError
from memory_actors.cli import options
from memory_actors.cli.context import document
from memory_actors.cli.deriving import WORDS
from memory_actors.cli.options import App, Command, pass_app
from memory_actors.cli.output import counted, note, print_json, print_json_line, say, shortened
from memory_actors.cli.running import ensure_model, with_user
from memory_actors.cli.showing import CONTENT_CHARACTERS_MAX
from memory_actors.integrations.context_files.merge import Conflict
from memory_actors.integrations.context_files.syncing import SyncReport
from memory_actors.integrations.context_files.syncing import sync as sync_file
from memory_actors.integrations.context_files.watching import watch

KEPT = {
    "edited in both": "both were kept",
    "edited here, removed in the file": "it was kept",
    "edited in the file, gone here": "the file's was kept",
}


@click.command("sync", cls=Command, shared=options.OF_NEW)
@click.argument("file", type=click.Path(path_type=Path))
@document
@click.option("--watch", "keep_on", is_flag=True, help="Go on until interrupted.")
@click.option(WORDS["auto_archive"][0], is_flag=True, help=WORDS["auto_archive"][1])
@pass_app
def sync(app: App, /, file: Path, document: str, *, keep_on: bool, auto_archive: bool) -> None:
    """Bring the context document and FILE in step, both ways.

    Entries that were edited on one side are taken over; edited on both, they are both kept and
    named. FILE is replaced in one step, never over an edit made meanwhile; if it is not there, it
    is made. Archived entries are mirrored in FILE-archive.md beside it, which is not read.

    With --watch and --json, each sync that did something is one line of JSON.
    """

    async def once(user: UserMemory) -> SyncReport:
        its = user.context.document(document)
        return await sync_file(its, file, auto_archive=auto_archive)

    async def on_and_on(user: UserMemory) -> None:
        its = user.context.document(document)
        async for report in watch(its, file, auto_archive=auto_archive):
            _show(app, report, line=True)

    if auto_archive:
        ensure_model(app)
    if keep_on:
        with_user(app, on_and_on, create=file.exists())
    else:
        report = with_user(app, once, create=file.exists())
        if report.quiet and not file.exists():  # it would have been made
            raise NotFoundError(f"there is neither a file {file} nor a document {document}")
        _show(app, report, line=False)


def _show(app: App, report: SyncReport, *, line: bool) -> None:
    if app.json and line:
        print_json_line(report)
    elif app.json:
        print_json(report)
    else:
        _tell(report)


def _tell(report: SyncReport) -> None:
    """Say to people what a sync did."""
    say(f"File {report.path} and document {report.document} are in step: {_what(report)}.")
    if report.archived:
        say(f"Archived to make room: {', '.join(report.archived)}.")
    if report.warning is not None:
        note(report.warning, "yellow")
    for conflict in report.conflicts:
        note(_conflict(conflict), "yellow")


def _what(report: SyncReport) -> str:
    if report.quiet:
        return "nothing to do"
    changed = [counted(report.changes, "change") + " of the document"] if report.changes else []
    return ", ".join([*changed, *(["the file was written"] if report.file_changed else [])])


def _conflict(conflict: Conflict) -> str:
    said = [
        f"  {side}: {shortened(text, CONTENT_CHARACTERS_MAX)}"
        for side, text in (("document", conflict.document), ("file", conflict.file))
        if text is not None
    ]
    return "\n".join([f"Conflict: {conflict.reason}; {KEPT[conflict.reason]}.", *said])
