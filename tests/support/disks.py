"""Disks with little room."""

import fcntl
import os
import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """Make the system refuse to let a file of this process grow beyond `size`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@contextmanager
def file_system(target: Path, size: str) -> Iterator[Path]:
    """Mount a file system of that size at a new directory; skip the test where nobody may."""
    target.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(target)]
    try:
        subprocess.run(mount, check=True, capture_output=True, timeout=10)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("a tmpfs cannot be mounted here")
    yield target
    subprocess.run(["umount", "-l", str(target)], check=True, timeout=10)


def let_a_commit_fail(path: Path) -> None:
    """Let the next commit to an LMDB file that is open here fail.

    LMDB writes meta pages through a descriptor of their own (O_DSYNC). One that cannot be written
    to stands in its place until the file is opened again.
    """
    (meta,) = [
        fd
        for fd in (int(each.name) for each in Path("/proc/self/fd").iterdir())
        if _target(fd) == path and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_DSYNC
    ]
    read_only = os.open(os.devnull, os.O_RDONLY)
    os.dup2(read_only, meta)
    os.close(read_only)


def _target(fd: int) -> Path | None:
    try:
        return Path(f"/proc/self/fd/{fd}").readlink()
    except OSError:  # of the list itself
        return None
