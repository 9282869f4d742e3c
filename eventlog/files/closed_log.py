"""The files of a log that is closed, or open in another process: what they tell from outside."""

import fcntl
from pathlib import Path

from eventlog.files.atomic_directory import ANCHOR, LOG
from eventlog.files.datafile import holder, opened
from eventlog.files.pages import check_file


class ClosedLog:
    """The log in a directory, which is looked at and never opened."""

    def __init__(self, directory: Path):
        self.path = directory / LOG
        """Its file."""
        self.anchor = directory / ANCHOR
        """The file that says how far it had got, so that lost commits show."""
        self._lock = directory / f"{LOG}.lock"

    @property
    def size_bytes(self) -> int:
        """The size of its file; 0 if there is none."""
        return self.path.stat().st_size if self.path.exists() else 0

    def owner(self) -> str | None:
        """Return its owner and opening time, or None. Takes the lock briefly, shared."""
        try:
            with opened(self._lock) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    return holder(file.fileno())
        except FileNotFoundError:
            pass
        return None

    def check(self) -> None:
        """Look at the pages of its file as opening does, and not at what they say.

        :raises CorruptLog: one is damaged or missing.
        """
        check_file(self.path)
