"""The state of the hooks: paused projects, the last server that did not answer, and the log."""

import json
import os
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from memory_actors.sharing.stdlib_client import read_small

EVERYWHERE: Final = "*"
LOG_BYTES_MAX: Final = 1 << 20
PAUSED_BYTES_MAX: Final = 1 << 20
SILENT_S: Final = 300.0
"""The time for which a server that did not answer is not asked again at a prompt."""


class Unreadable(Exception):
    """The list of paused projects cannot be read, so that nobody knows."""


def state_directory() -> str:
    """Return where the state of the hooks is: the paused projects, and the log."""
    home = os.path.expanduser("~")
    if sys.platform == "darwin":
        return os.path.join(home, "Library", "Application Support", "memory-actors")
    state = os.environ.get("XDG_STATE_HOME", "").strip()
    return os.path.join(state or os.path.join(home, ".local", "state"), "memory-actors")


def paused() -> frozenset[str]:
    """Return the ids of the paused projects (`EVERYWHERE`: all), or raise `Unreadable`."""
    try:
        return frozenset(map(str, json.loads(read_small(_file(), PAUSED_BYTES_MAX))))
    except FileNotFoundError:
        return frozenset()
    except (OSError, ValueError, TypeError) as error:
        raise Unreadable(
            f"{_file()} cannot be read, so all projects are paused: run `memory-actors agent "
            f"resume --everywhere`, then pause again ({error})"
        ) from error


def pause(projects: Collection[str]) -> None:
    """Pause these projects alone, or raise `OSError`."""
    os.makedirs(state_directory(), mode=0o700, exist_ok=True)
    scratch = f"{_file()}.{os.getpid()}"
    with open(scratch, "w", encoding="utf-8") as file:
        json.dump(sorted(projects), file)
    os.replace(scratch, _file())


def is_paused(project: str) -> bool:
    """Say whether a project is paused, or all are."""
    return not paused().isdisjoint((project, EVERYWHERE))


def note_silence(server: str) -> None:
    """Note that a server does not answer. Never raises."""
    with suppress(OSError):
        os.makedirs(state_directory(), mode=0o700, exist_ok=True)
        with open(os.path.join(state_directory(), "silent"), "w", encoding="utf-8") as file:
            file.write(server)


def is_silent(server: str) -> bool:
    """Say whether a server did not answer in the last `SILENT_S` seconds."""
    path = os.path.join(state_directory(), "silent")
    try:
        age_s = time.time() - os.stat(path).st_mtime
        return 0 <= age_s < SILENT_S and read_small(path, PAUSED_BYTES_MAX) == server.encode()
    except OSError:
        return False


def log_path() -> str:
    """Return the file in which hooks say what failed."""
    return os.path.join(state_directory(), "agent.log")


def log(what: str) -> None:
    """Add a line to the log, which begins anew when it is full. Never raises."""
    line = f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {' '.join(what.split())}\n"
    try:
        os.makedirs(state_directory(), mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK
        with open(os.open(log_path(), flags, 0o600), "ab") as file:
            if os.fstat(file.fileno()).st_size > LOG_BYTES_MAX:
                file.truncate(0)
            file.write(line.encode(errors="replace"))
    except OSError:
        return


def _file() -> str:
    return os.path.join(state_directory(), "paused.json")
