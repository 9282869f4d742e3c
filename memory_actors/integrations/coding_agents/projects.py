"""The project of a directory: a repository, by its remote if it has one, else by its root.

It reads the files of `git` itself, since a hook has no time to run the program.
"""

import re
from pathlib import Path
from typing import Final, NamedTuple

from eventlog.files.datafile import opened

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
    root: Path


def project_of(directory: str | Path) -> Project:
    """Return the project of a directory: all checkouts of one remote are one project."""
    here = Path(directory).absolute()
    for root in (here, *here.parents):
        if (root / ".git").exists():
            named = _remote(_git_directory(root / ".git"))
            return Project(f"project:{named or root}", root)
    return Project(f"project:{here}", here)


def _git_directory(git: Path) -> Path:
    """Return where the configuration is; in a worktree, `.git` is a file that leads there."""
    if git.is_dir():
        return git
    leads = re.match(r"gitdir:\s*(.+)", _text(git))
    if leads is None:
        return git
    its_own = git.parent / leads[1].strip()
    common = _text(its_own / "commondir").strip()
    return its_own / common if common else its_own


def _remote(git: Path) -> str | None:
    """Return host and path of the remote `origin`, or of the first there is."""
    remotes = REMOTE.findall(_text(git / "config"))
    found = {name: url[1] for name, body in remotes if (url := URL.search(body))}
    address = ADDRESS.match(found.get("origin") or next(iter(found.values()), ""))
    if address is None or "." not in address[1]:  # a directory
        return None
    return f"{address[1].lower()}/{address[2].removesuffix('.git')}"


def _text(path: Path) -> str:
    try:
        with opened(path) as file:
            return file.read(FILE_BYTES_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
