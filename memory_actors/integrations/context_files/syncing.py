"""A document and its file, brought in step in rounds that can be cut off anywhere.

Theory. One round reads both, merges them (merge.py) and takes the first of these steps that is due:

1. The document lacks something: the changes are appended, and in the same append the base becomes
   what the file holds *now*, before it is replaced. `expected` makes that void if somebody wrote
   meanwhile.
2. The file lacks something: it is replaced, unless somebody saved meanwhile.
3. The base is not what both hold: it is noted.

Then it starts again, until none is due. No step relies on one before it, so a process may die
between any two. Behind step 1 the noted base is true of the file: what the document alone has is
seen as added by it, not as removed from the file. Behind step 2 both read the same, and a merge of
equal texts asks for nothing, whatever the base; if the file is edited before the next round, an
entry that came to both in the cut-off one may come back or stand twice: it is never lost.

A refused append (a limit) leaves file and document as they are. What was archived is written to a
file of its own beside it, one way.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path

import anyio.to_thread

from eventlog.core.records import Returned
from memory_actors.api.plumbing import note_synced
from memory_actors.base import text_files as files
from memory_actors.base.errors import ContextFileError, StaleDocumentError, UnavailableError
from memory_actors.integrations.context_files.merge import Base, Conflict, Merged, merge
from memory_actors.integrations.context_files.mirror import check_no_mirror, write_mirror
from memory_actors.kinds.context.alignment import Placed
from memory_actors.kinds.context.markdown import render
from memory_actors.kinds.phrasing import text_digest
from memory_actors.users.handles.context_document import ContextDocument

ROUNDS_MAX = 20  # three are enough where nobody else writes


class SyncReport(Returned, frozen=True, kw_only=True):
    """The outcome of one sync."""

    document: str
    path: str
    changes: int
    """Blocks that the document got, lost or has reworded."""
    file_changed: bool
    conflicts: tuple[Conflict, ...]
    archived: tuple[str, ...]
    """Entries that made room, with `auto_archive`."""
    archive_path: str | None
    """The file that mirrors the archive; None: there is none."""
    warning: str | None = None
    """Why the archive could not be mirrored."""

    @property
    def quiet(self) -> bool:
        """True if there was nothing to do."""
        return not (self.changes or self.file_changed or self.conflicts)


async def sync(
    document: ContextDocument, path: str | Path, *, auto_archive: bool = False
) -> SyncReport:
    """Bring a document and a file in step, both ways; one of them that is missing is made.

    A conflict keeps both texts and is in the report. With `auto_archive`, the stalest entries go to
    the archive where the merged document would be too large.

    :raises ContextLimitError: it would be too large; file and document stay as they are.
    :raises ContextFileError: the file is not UTF-8, a directory, over 128 KiB, cannot be written, …
    :raises UnavailableError: others write faster than this reads.
    """
    real = files.real_path(path)
    work = _Sync(document, Path(path), auto_archive=auto_archive)
    await anyio.to_thread.run_sync(files.sweep, real)
    for _ in range(ROUNDS_MAX):
        if await work.round():
            return await work.report()
    raise UnavailableError(f"{path} and {document.name} keep changing: sync again later")


def label_of(path: Path) -> str:
    """Return what the log knows a file by: a digest, as a path may tell whose it is."""
    return hashlib.sha256(str(path).encode(errors="surrogateescape")).hexdigest()[:16]


def _check_line_ends(text: str | None, path: Path) -> None:
    if text is not None and "\r" in text.strip() and "\n" not in text:
        raise ContextFileError(
            f"{path} ends its lines in carriage returns alone: save it with line feeds, then sync "
            "again"
        )


class _Sync:
    """One sync on its way."""

    def __init__(self, document: ContextDocument, path: Path, *, auto_archive: bool):
        self.document = document
        self.path = path
        self.auto_archive = auto_archive
        self.changes = 0
        self.file_changed = False
        self.conflicts: list[Conflict] = []
        self.archived: list[str] = []

    async def round(self) -> bool:
        """Take the first step that is due; return whether there was none."""
        seen = await anyio.to_thread.run_sync(files.read, self.path)
        read = seen.text
        check_no_mirror(read, seen.path)
        _check_line_ends(read, seen.path)
        label = label_of(seen.path)
        base = await self.document.synced(label)  # before the blocks: too old a base does no harm
        live = [Placed(b.block_id, b.raw, b.heading) for b in await self.document.blocks()]
        if read is None and not live:  # a mistyped name is no empty file
            return True
        merged = await self._merged(live, read, base)
        if merged.changes:
            return await self._append(live, merged, label)
        if merged.text != read:
            return await self._replace(seen, merged)
        if merged.base != base:
            return await self._note(merged, label)
        return True

    async def _merged(self, live: Sequence[Placed], read: str | None, base: Base | None) -> Merged:
        names = {block.block_id for block in live}
        archived = {}
        if any(name not in names for name, _ in base or ()):
            for entry in await self.document.archived():
                archived[entry.entry_id] = Placed(entry.entry_id, entry.raw, None)
        text = render(block.raw for block in live) if read is None else read
        new_id = self.document.new_entry_id
        return await anyio.to_thread.run_sync(merge, live, text, base, archived, new_id)

    async def _append(self, live: Sequence[Placed], merged: Merged, label: str) -> bool:
        try:
            receipt = await note_synced(
                self.document,
                merged.file_base,
                merged.changes,
                expected=text_digest(render(block.raw for block in live)),
                auto_archive=self.auto_archive,
                label=label,
            )
        except StaleDocumentError:
            return False
        self.changes += len(merged.changes)
        self.conflicts += merged.conflicts
        self.archived += receipt.archived
        return False

    async def _replace(self, seen: files.Seen, merged: Merged) -> bool:
        if await anyio.to_thread.run_sync(files.replace, seen, merged.text):
            self.file_changed = True
            self.conflicts += merged.conflicts
        return False

    async def _note(self, merged: Merged, label: str) -> bool:
        try:
            await note_synced(
                self.document, merged.base, expected=text_digest(merged.text), label=label
            )
        except StaleDocumentError:
            return False
        return True

    async def report(self) -> SyncReport:
        """Write the mirror of the archive and say what was done."""
        mirror, warning = None, None
        entries = await self.document.archived()
        try:
            path = files.real_path(self.path)
            mirror = await anyio.to_thread.run_sync(write_mirror, path, entries)
        except ContextFileError as error:  # what matters is in step
            warning = str(error)
        return SyncReport(
            document=self.document.name,
            path=str(self.path),
            changes=self.changes,
            file_changed=self.file_changed,
            conflicts=tuple(self.conflicts),
            archived=tuple(self.archived),
            archive_path=None if mirror is None else str(mirror),
            warning=warning,
        )
