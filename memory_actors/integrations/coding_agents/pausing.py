"""Pausing: whose sessions are neither captured nor given memories. And the log of failed hooks."""

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec
import platformdirs

from eventlog.files.datafile import make_directory, written_whole

EVERYWHERE: Final = "*"
LOG_BYTES_MAX: Final = 1 << 20


def state_directory() -> Path:
    """Return where the state of the hooks is: the paused projects, and the log."""
    return platformdirs.user_state_path("memory-actors")


def paused() -> frozenset[str]:
    """Return the projects that are paused, by user id; `EVERYWHERE` stands for all."""
    try:
        return frozenset(msgspec.json.decode(_file().read_bytes(), type=list[str]))
    except (OSError, msgspec.DecodeError):
        return frozenset()


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
    path = log_path()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        mode = "w" if path.exists() and path.stat().st_size > LOG_BYTES_MAX else "a"
        with path.open(mode, encoding="utf-8", errors="replace") as file:
            file.write(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {' '.join(what.split())}\n")
    except OSError:
        return


def _file() -> Path:
    return state_directory() / "paused.json"
