"""Sdists and environments for the suites, in the user's cache: nothing is put into the checkout."""

import fcntl
import hashlib
import os
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import rmtree
from tempfile import TemporaryDirectory

from platformdirs import user_cache_path

from suites.declared import Suite

ROOT = Path(__file__).parents[2]
INSTALL_S_MAX = 500


class NotObtainedError(Exception):
    """A package that the suite needs cannot be had: there is no network, or it has changed."""


def cache() -> Path:
    """Return where sdists and environments are kept."""
    path = user_cache_path("memory-actors") / "suites"
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def turn() -> Iterator[None]:
    """Have the cache to oneself: several runs may want the same at once."""
    with (cache() / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def unpacked(suite: Suite) -> Path:
    """Return the root of the suite's sdist, downloaded and unpacked if it is not there yet.

    Where it has none, that is this checkout.

    :raises NotObtainedError: it cannot be downloaded, or its hash is not the pinned one.
    """
    if not suite.sdist:
        return ROOT
    place = cache() / f"{suite.package}-{suite.version}-{suite.sha256[:12]}"
    with turn():
        if not place.exists():
            _unpack(suite, place)
    (root,) = place.iterdir()
    return root


def _unpack(suite: Suite, place: Path) -> None:
    with TemporaryDirectory(dir=cache()) as folder:
        asked = Path(folder) / "requirement.txt"
        asked.write_text(f"{suite.sdist} --hash=sha256:{suite.sha256}\n")
        _pip("download", "--no-deps", "--no-binary=:all:", "-r", asked, "-d", f"{folder}/sdist")
        (archive,) = Path(folder, "sdist").iterdir()
        if hashlib.sha256(archive.read_bytes()).hexdigest() != suite.sha256:
            raise NotObtainedError(f"{archive.name} is not the file that is pinned")
        with tarfile.open(archive) as files:
            if hasattr(tarfile, "data_filter"):  # not before Python 3.11.4
                files.extraction_filter = tarfile.data_filter
            files.extractall(Path(folder, "root"))
        Path(folder, "root").rename(place)


def environment(suite: Suite) -> Path:
    """Return the Python of an environment that has what the suite needs.

    It lies over the environment that runs this: what is there is used, unless the suite asks for
    another version. So an environment costs what the suite adds, and ours is never changed.

    :raises NotObtainedError: something cannot be installed.
    """
    below = sysconfig.get_path("purelib")
    pyproject = ROOT / "pyproject.toml"
    said = "\n".join([below, sys.version, pyproject.read_text("utf-8"), *sorted(suite.needs)])
    place = cache() / "environments" / hashlib.sha256(said.encode()).hexdigest()[:16]
    python = place / "bin/python"
    with turn():
        if not (place / "complete").exists():
            rmtree(place, ignore_errors=True)
            _run(sys.executable, "-m", "venv", "--without-pip", place)
            (packages,) = place.glob("lib/python*/site-packages")
            (packages / "below.pth").write_text(f"import site; site.addsitedir({below!r})\n")
            if suite.needs:
                _pip("--python", python, "install", *suite.needs)
            (place / "complete").touch()
    return python


def _pip(*arguments: object) -> None:
    _run(sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments)


def _run(*command: object) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        env={**os.environ, "PIP_NO_INPUT": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_S_MAX,
        check=False,
    )
    if done.returncode != 0:
        last = [line for line in done.stderr.splitlines() if line.startswith("ERROR")][-1:]
        raise NotObtainedError(" ".join(last) or done.stderr[-500:])
