"""The project of a directory: a repository, by its remote if it has one, else by its root.

It reads the files of `git` itself, since a hook has no time to run the program.
"""

import os
import re
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
