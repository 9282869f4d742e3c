"""The project of a directory: a repository, by its remote if it has one, else by its root.

It reads the files of `git` itself, since a hook has no time to run the program. The state of the
hooks is here, too: the paused projects, the log, and the last server that did not answer.
"""

import json
import os
import re
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from typing import Final, NamedTuple

from memory_actors.sharing.stdlib_client import read_small

REMOTE: Final = re.compile(r'^\s*\[remote "([^"\n]*)"\]\s*$((?:\n(?!\s*\[).*)*)', re.MULTILINE)
URL: Final = re.compile(r"^\s*url\s*=\s*(.+?)\s*$", re.MULTILINE)
ADDRESS: Final = re.compile(
    r"^(?:[a-z+]+://(?:[^/\s]*@)?|(?:[^@/\s]+@)?)([^@:/\s.][^@:/\s]*)(?::\d+(?=/))?[:/]+(.+?)/*$"
)
"""Matches host and path, without the name and the password before the host."""
FILE_BYTES_MAX: Final = 1 << 20


class Project(NamedTuple):
    """A project, and where it is."""

    user_id: str
    """The user whose memory is the project's: `project:github.com/acme/shop`."""
    root: str


def project_of(directory: str) -> Project:
    """Return the project of a directory: all checkouts of one remote are one project."""
    here = root = os.path.abspath(directory)
    while not os.path.exists(git := os.path.join(root, ".git")):
        above = os.path.dirname(root)
        if above == root:
            return Project(f"project:{here}", here)
        root = above
    return Project(f"project:{_remote(_git_directory(git)) or root}", root)


def _git_directory(git: str) -> str:
    """Return where the configuration is; in a worktree, `.git` is a file that leads there."""
    leads = re.match(r"gitdir:\s*(.+)", _text(git))
    if leads is None:
        return git
    its_own = os.path.join(os.path.dirname(git), leads[1].strip())
    common = _text(os.path.join(its_own, "commondir")).strip()
    return os.path.join(its_own, common) if common else its_own


def _remote(git: str) -> str | None:
    remotes = REMOTE.findall(_text(os.path.join(git, "config")))
    found = {name: url[1] for name, body in remotes if (url := URL.search(body))}
    address = ADDRESS.match(found.get("origin") or next(iter(found.values()), ""))
    if address is None or "." not in address[1]:  # a directory
        return None
    return f"{address[1].lower()}/{address[2].removesuffix('.git')}"


def _text(path: str) -> str:
    """Return the text of a regular file; of a pipe or a directory, and without one, nothing."""
    try:
        return read_small(path, FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""


# --- the state of the hooks


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
