"""Opening files that people name, and refusing politely what cannot be read.

A pipe or a device is taken here, unlike among the files of a store: a program may write to it.
"""

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

from eventlog.files.datafile import reason, written_whole
from memory_actors.base.errors import InvalidInputError, MemoryActorsError


def open_file(path: Path) -> IO[bytes]:
    """Open a file for reading.

    :raises InvalidInputError: there is none, it is a directory, or it cannot be read; so do its
        reads, should that show later.
    """
    try:
        return io.BufferedReader(_Named(path))
    except FileNotFoundError as error:
        raise InvalidInputError(f"there is no file {path}: check the name") from error
    except IsADirectoryError as error:
        raise InvalidInputError(f"{path} is a directory: name a file in it") from error
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r:.200} cannot be read: {reason(error)}") from error


class _Named(io.FileIO):
    """A file that says which one it is when it cannot be read on."""

    def readinto(self, buffer: Any) -> int | None:  # what a buffered reader asks
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise InvalidInputError(f"{self.name} cannot be read: {error.strerror}") from error

    read = io.RawIOBase.read  # type: ignore[assignment] # this and the next one ask `readinto`
    readall = io.RawIOBase.readall


UNPACKED_BYTES_MIN: Final = 64 << 20  # a small file may always become so much
UNPACKED_RATIO_MAX: Final = 100  # text packs to a tenth or a twentieth


class Unpacking:
    """The bytes that all parts of a file may become, before they are read."""

    def __init__(self, path: Path):
        self._path = path
        self._left_bytes = max(UNPACKED_BYTES_MIN, path.stat().st_size * UNPACKED_RATIO_MAX)

    def take(self, count: int) -> None:
        """Count bytes that were unpacked.

        :raises InvalidInputError: they are more than an honest file becomes.
        """
        self._left_bytes -= count
        if self._left_bytes < 0:
            raise InvalidInputError(
                f"{self._path} unpacks to over {UNPACKED_RATIO_MAX} times its size: it is no export"
            )


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """Write a file beside its place and move it there when it is whole, readable by its owner only.

    The previous file stays until then. A device or a pipe is written as it is.

    :raises InvalidInputError: the place cannot be written.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            with path.open("wb") as device:
                yield device
            return
        if path.is_dir():
            raise InvalidInputError(f"{path} is a directory: name a file in it")
        real = Path(os.path.realpath(path))
        if real.is_symlink():
            raise InvalidInputError(f"{path} cannot be written: its links lead in a circle")
        with written_whole(real, contested=True) as file:
            yield file
    except MemoryActorsError:  # some are OSErrors too, and none is about this file
        raise
    except (OSError, ValueError) as error:
        raise InvalidInputError(f"{str(path)!r:.200} cannot be written: {reason(error)}") from error
