"""Exports that are a zip archive, the directory that was unpacked from it, or one file of it.

The unpacked size of all files together is bounded by the archive's size.
"""

import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, Any, Final

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import Unpacking, open_file

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
