"""Keeps a document and a file in step for as long as an agent runs.

Both are looked at again and again: a file by what `stat` says, a document by its text, which is in
memory. Polling needs no watcher of the operating system, and works on every file system. A file
that changes is left alone until it has stood still for one interval: editors write in pieces.
"""

import math
from collections.abc import AsyncIterator
from pathlib import Path
from time import monotonic
from typing import NamedTuple

import anyio

from eventlog.core.logs import get_logger
from memory_actors.api.plumbing import archive_digest
from memory_actors.base.errors import InvalidInputError, MemoryActorsError, SystemClosedError
from memory_actors.base.text_files import real_path
from memory_actors.integrations.context_files.syncing import SyncReport, sync
from memory_actors.kinds.context.markdown import render
from memory_actors.kinds.phrasing import text_digest
from memory_actors.users.handles.context_document import ContextDocument

INTERVAL_S = 0.5
RETRY_S = 10.0  # after a failure, if nothing changes before: a full disk may have room again

logger = get_logger(__name__)


class _Sight(NamedTuple):
    file: tuple[int, int, int] | None
    document: bytes
    archive: bytes


async def watch(
    document: ContextDocument,
    path: str | Path,
    *,
    interval_s: float = INTERVAL_S,
    auto_archive: bool = False,
) -> AsyncIterator[SyncReport]:
    """Sync now, and whenever one of the two has changed; yield what each sync did, if anything.

    A sync that fails is logged as a warning, and tried again when something changes, or 10 s later.
    Ends when the memory closes; close or cancel it to stop before.

    :raises InvalidInputError: a bad path or interval.
    """
    if isinstance(interval_s, bool) or not isinstance(interval_s, int | float) or interval_s < 0:
        raise InvalidInputError(f"interval_s must be a number of seconds, not {interval_s!r:.40}")
    real_path(path)
    watched = _Watched(document, Path(path), auto_archive=auto_archive)
    while True:
        try:
            report = await watched.step()
        except SystemClosedError:
            return
        if report is not None:
            yield report
        await anyio.sleep(interval_s)


class _Watched:
    def __init__(self, document: ContextDocument, path: Path, *, auto_archive: bool):
        self._document = document
        self._path = path
        self._auto_archive = auto_archive
        self._before: _Sight | None = None
        self._settled: _Sight | None = None
        self._retry_at_s = math.inf
        self._warned = ""

    async def step(self) -> SyncReport | None:
        """Look; sync if something has changed and stands still.

        Return a report if the sync changed anything.
        """
        text = render(block.raw for block in await self._document.blocks())
        file = await anyio.to_thread.run_sync(_stat, self._path)
        sight = _Sight(file, text_digest(text), await archive_digest(self._document))
        still = self._before is None or sight.file == self._before.file
        self._before = sight
        if not still or (sight == self._settled and monotonic() < self._retry_at_s):
            return None
        try:
            report = await sync(self._document, self._path, auto_archive=self._auto_archive)
        except SystemClosedError:
            raise
        except MemoryActorsError as error:
            message = str(error)
            self._settled, self._retry_at_s = sight, monotonic() + RETRY_S
            if message != self._warned:
                logger.warning("a document and its file are not in step", error=message)
            self._warned = message
            return None
        self._warned, self._retry_at_s = "", math.inf
        # An idle sync settles the state that preceded it; after any other sync, the next look
        # checks again.
        self._settled = sight if report.quiet else None
        return None if report.quiet else report


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:  # the sync says what is wrong with it
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
