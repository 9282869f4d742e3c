"""The possible contents of a disk after the power went: built from a journal of writes and syncs.

The model is a disk that keeps what was synced and, of the rest, anything:

- A write is cut into sectors of 512 bytes. Each sector of each write since the file's last sync is
  there or not, by chance and independently; a sector that was written twice has either, or what
  was there before. A write to a descriptor with O_DSYNC is there.
- A file's length is there when what made it longer is, or is synced.
- A name that was made, changed or removed is durable when its directory has been synced since. Of
  later changes, each directory keeps the first few, in order. Syncing a file says nothing about its
  name: POSIX promises no more, though most file systems do.

Some disks keep less than that: a drive that says it has synced and has not. Nothing helps there.
"""

import random
import struct
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import NamedTuple

SECTOR_BYTES = 512
_RECORD = struct.Struct("=IIQQQ")
_DURABLE = 1


class Op(IntEnum):
    """Operations on files. The numbers are those of disk.c."""

    CREATE = 1
    WRITE = 2
    TRUNCATE = 3
    SYNC = 4
    RENAME = 5
    UNLINK = 6
    MKDIR = 7
    RMDIR = 8
    SYNC_DIR = 9
    MARK = 10


class Step(NamedTuple):
    """One record of a journal."""

    op: Op
    durable: bool
    file: int
    offset: int
    data: bytes

    @property
    def names(self) -> list[Path]:
        """The paths in a record about names."""
        return [Path(name.decode()) for name in self.data.split(b"\0")[:-1]]


def read_journal(path: Path) -> Iterator[Step]:
    """Yield the records of a journal; one that a kill has cut off is left out."""
    data, at = path.read_bytes(), 0
    while at + _RECORD.size <= len(data):
        op, flags, file, offset, length = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        held = b"" if Op(op) in (Op.SYNC, Op.TRUNCATE) else data[at : at + length]
        if len(held) != length:
            return
        at += length
        yield Step(Op(op), bool(flags & _DURABLE), file, offset, held)


@dataclass(slots=True)
class _File:
    synced: bytearray = field(default_factory=bytearray)
    pending: list[Step] = field(default_factory=list)

    def sync(self) -> None:
        for step in self.pending:
            _apply(self.synced, step)
        self.pending.clear()

    def any_content(self, rng: random.Random, kept: float) -> bytes:
        content = bytearray(self.synced)
        for step in self.pending:
            if step.durable or step.op is Op.TRUNCATE:
                if step.durable or rng.random() < kept:
                    _apply(content, step)
            else:
                _apply_sectors(content, step, rng, kept)
        return bytes(content)


def _apply(content: bytearray, step: Step) -> None:
    if step.op is Op.TRUNCATE:
        del content[step.offset :]
        content.extend(bytes(step.offset - len(content)))
        return
    content.extend(bytes(max(0, step.offset - len(content))))
    content[step.offset : step.offset + len(step.data)] = step.data


def _apply_sectors(content: bytearray, step: Step, rng: random.Random, kept: float) -> None:
    end, at = step.offset + len(step.data), step.offset
    while at < end:
        until = min(end, (at // SECTOR_BYTES + 1) * SECTOR_BYTES)
        if rng.random() < kept:
            data = step.data[at - step.offset : until - step.offset]
            _apply(content, step._replace(offset=at, data=data))
        at = until


class Disk:
    """A disk that the steps of a journal are done to, one after another."""

    def __init__(self) -> None:
        self.marks: list[bytes] = []
        """The lines that the process has printed so far."""
        self._files: dict[int, _File] = defaultdict(_File)
        self._names: dict[Path, int] = {}  # durable; directories have 0
        self._pending: list[Step] = []  # about names

    def do(self, step: Step) -> None:
        """Do one step."""
        if step.op is Op.MARK:
            self.marks.append(step.data)
        elif step.op in (Op.WRITE, Op.TRUNCATE):
            self._files[step.file].pending.append(step)
        elif step.op is Op.SYNC:
            self._files[step.file].sync()
        elif step.op is Op.SYNC_DIR:
            self._sync_names(step.names[0])
        else:
            self._pending.append(step)

    def _sync_names(self, directory: Path) -> None:
        mine = [step for step in self._pending if directory in _directories(step)]
        for step in mine:
            _rename(self._names, step)
        self._pending = [step for step in self._pending if step not in mine]

    def pending_bytes(self) -> int:
        """Return how many bytes are written and not synced."""
        return sum(len(step.data) for file in self._files.values() for step in file.pending)

    def everything(self) -> dict[Path, bytes]:
        """Return the files with all that was written, synced or not."""
        return self._state(self._pending, lambda file: file.any_content(random.Random(0), 1.0))

    def after_power_loss(self, rng: random.Random) -> dict[Path, bytes]:
        """Return the content of one possible disk."""
        kept = rng.choice([0.0, 0.05, 0.5, 0.95, 1.0])
        by_directory: dict[Path, list[Step]] = defaultdict(list)
        for step in self._pending:
            by_directory[_directories(step)[0]].append(step)
        first = {folder: rng.randint(0, len(steps)) for folder, steps in by_directory.items()}
        done = [step for folder, steps in by_directory.items() for step in steps[: first[folder]]]
        return self._state(done, lambda file: file.any_content(rng, kept))

    def _state(self, done: list[Step], content: Callable[[_File], bytes]) -> dict[Path, bytes]:
        names = dict(self._names)
        for step in done:
            _rename(names, step)
        gone = {s.names[0] for s in self._pending if s.op is Op.MKDIR and s not in done}
        return {
            path: content(self._files[file])
            for path, file in names.items()
            if file and not gone & set(path.parents)
        }


def _directories(step: Step) -> list[Path]:
    return [path.parent for path in step.names]


def _rename(names: dict[Path, int], step: Step) -> None:
    path = step.names[0]
    if step.op is Op.CREATE:
        names[path] = step.file
    elif step.op is Op.MKDIR:
        names[path] = 0
    elif step.op is Op.RENAME and path in names:
        names[step.names[1]] = names.pop(path)
    elif step.op in (Op.UNLINK, Op.RMDIR):
        names.pop(path, None)
