"""The notes of the workers of a cluster: what each was about to ask, and what it was answered.

A node has one file, in which each line is one write of the operating system: it outlives the
process, whenever that is killed. The machine does not fail here, so nothing waits for a disk, which
would stall the event loop that is measured. All times are of the monotonic clock of the machine,
which its processes have in common.

On a board, another file, workers show what they wrote last, so that the others read it.
"""

import os
import time
from pathlib import Path
from typing import Any

import msgspec

RECORD_BYTES = 192
RECORDS = 8
"""Of each worker: what it wrote last."""


class Line(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A line: a node that began, a call that was made, its answer, its error."""

    what: str
    """began, try, done, read or error."""
    at_s: float
    from_s: float = 0.0
    """The beginning of a call that is over."""
    call: str = ""
    """Unique in a file: `done` and `error` have that of their `try`."""
    name: str = ""
    """Of the operation."""
    user: str = ""
    kind: str = ""
    """The kind of the thing that is written or read: memory, working, document, entity."""
    ref: str = ""
    """Its id, key or name."""
    token: str | None = None
    """The text that was written, or was read; None: it is deleted, or not there."""
    keyed: bool = False
    """True if a write has an idempotency key: its token."""
    said: str = ""
    """The text that was searched for; an error."""


class Thing(msgspec.Struct, array_like=True, frozen=True):
    """Something that a worker wrote, as the board shows it."""

    user: str
    kind: str
    ref: str
    token: str


class Journal:
    """The file of one node."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def note(self, what: str, **more: Any) -> None:
        """Write a line."""
        line = Line(what=what, at_s=time.monotonic(), **more)
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def lines(path: Path, bytes_max: int | None = None) -> list[Line]:
    """Return the lines of a file, or those in its last bytes.

    But for one that was cut off when its process was killed.
    """
    if not path.exists():
        return []
    with path.open("rb") as file:
        if bytes_max is not None and file.seek(0, os.SEEK_END) > bytes_max:
            file.seek(-bytes_max, os.SEEK_END)
            file.readline()
        elif bytes_max is not None:
            file.seek(0)
        whole = [line for line in file if line.endswith(b"\n")]
    return [msgspec.json.decode(line, type=Line) for line in whole]


class Board:
    """A file of records that all processes read and write in place."""

    def __init__(self, path: Path, workers: int):
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._records = workers * RECORDS
        self._shown = 0

    def show(self, worker: int, thing: Thing) -> None:
        """Show a thing in place of the oldest of a worker."""
        self._shown += 1
        at = worker * RECORDS + self._shown % RECORDS
        data = msgspec.json.encode(thing).ljust(RECORD_BYTES)
        os.pwrite(self._file, data, at * RECORD_BYTES)

    def look(self, number: int) -> Thing | None:
        """Return the thing in a record, None if there is none."""
        data = os.pread(self._file, RECORD_BYTES, number % self._records * RECORD_BYTES)
        try:
            return msgspec.json.decode(data, type=Thing)
        except msgspec.DecodeError:
            return None
