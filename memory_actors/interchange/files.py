"""Opening files that people name, and refusing politely what cannot be read.

A pipe or a device is taken here, unlike among the files of a store: a program may write to it. An
export is a zip archive, the directory that was unpacked from it, or one file of it; the unpacked
size of all its files together is bounded by the archive's size.
"""

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
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


# --- the files of an export

FILES_MAX: Final = 100_000
METHODS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""The compression methods of exports. `zipfile` unpacks other methods in steps of any size."""
_DAMAGES: Final = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError)


def files_in(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of an export whose names are wanted, in order of their names.

    A path that is a plain file is the one there is, whatever it is called.

    :raises InvalidInputError: there is none, or it cannot be read; so do the reads of the files.
    """
    if path.is_dir():
        yield from _in_directory(path, wanted)
        return
    with open_file(path) as file:
        if file.peek(4)[:4] in (b"PK\x03\x04", b"PK\x05\x06"):  # type: ignore[attr-defined]
            yield from _in_archive(path, wanted)
        else:
            yield path.name, file


def _in_directory(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    found = 0
    for directory, names, files in os.walk(path):
        names.sort()
        for name in sorted(files):
            one = Path(directory, name)
            if wanted(name) and one.is_file() and not one.is_symlink():
                found += 1
                with open_file(one) as file:
                    yield one.relative_to(path).as_posix(), file
    if not found:
        raise InvalidInputError(f"the directory {path} has no file that is understood")


def _in_archive(path: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, IO[bytes]]]:
    with _telling(path), zipfile.ZipFile(path) as archive:
        members = sorted(archive.infolist(), key=lambda one: one.filename)
        if len(members) > FILES_MAX:
            raise InvalidInputError(f"{path} has over {FILES_MAX:,} files")
        chosen = [one for one in members if wanted(PurePosixPath(one.filename).name)]
        if not chosen:
            raise InvalidInputError(f"the archive {path} has no file that is understood")
        unpacking = Unpacking(path)
        for one in chosen:
            if one.compress_type not in METHODS:
                raise NotImplementedError(f"{one.filename[:100]!r} is packed in an unusual way")
            with archive.open(one) as file:
                yield one.filename, io.BufferedReader(_Unpacked(file, unpacking, path))


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except InvalidInputError:
        raise
    except (*_DAMAGES, OSError, ValueError) as error:
        raise InvalidInputError(
            f"the archive {path} cannot be read: {str(error) or type(error).__name__}. Nothing was "
            "added: download it again"
        ) from error


class _Unpacked(io.RawIOBase):
    """A file of an archive, which ends with an error where it is no honest one."""

    def __init__(self, file: IO[bytes], unpacking: Unpacking, path: Path):
        super().__init__()
        self._file, self._unpacking, self._path = file, unpacking, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _telling(self._path):
            data = self._file.read(len(buffer))
        self._unpacking.take(len(data))
        buffer[: len(data)] = data
        return len(data)
