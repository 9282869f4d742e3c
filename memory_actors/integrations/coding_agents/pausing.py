"""Pausing: whose sessions are neither captured nor given memories. And the log of failed hooks."""

import os
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from eventlog.files.datafile import MADE, make_directory, open_regular, read_bytes, written_whole
from memory_actors.base.errors import InvalidInputError

EVERYWHERE: Final = "*"
LOG_BYTES_MAX: Final = 1 << 20


def state_directory() -> Path:
    """Return where the state of the hooks is: the paused projects, and the log."""
    return platformdirs.user_state_path("memory-actors")


def paused() -> frozenset[str]:
    """Return the projects that are paused, by user id; `EVERYWHERE` stands for all.

    :raises InvalidInputError: the file is damaged, so that nobody knows.
    """
    try:
        return frozenset(msgspec.json.decode(read_bytes(_file()), type=list[str]))
    except FileNotFoundError:
        return frozenset()
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidInputError(
            f"{_file()} cannot be read, so all projects are paused: run `memory-actors agent "
            f"resume --everywhere`, then pause again ({error})"
        ) from error


def pause(projects: Collection[str]) -> None:
    """Pause these projects, and no others.

    :raises OSError: the file cannot be written.
    """
    make_directory(_file().parent)
    with written_whole(_file(), contested=True) as file:
        file.write(msgspec.json.encode(sorted(projects)))


def is_paused(project: str) -> bool:
    """Say whether a project is paused, or all are."""
    return not paused().isdisjoint((project, EVERYWHERE))


def log_path() -> Path:
    """Return the file in which hooks say what failed."""
    return state_directory() / "agent.log"


def log(what: str) -> None:
    """Add a line to the log, which begins anew when it is full. Never raises."""
    line = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(what.split())}\n"
    try:
        make_directory(log_path().parent)
        fd = open_regular(log_path(), os.O_WRONLY | os.O_APPEND | MADE)
        try:
            if os.fstat(fd).st_size > LOG_BYTES_MAX:
                os.ftruncate(fd, 0)
            os.write(fd, line.encode(errors="replace"))
        finally:
            os.close(fd)
    except OSError:
        return


def _file() -> Path:
    return state_directory() / "paused.json"
