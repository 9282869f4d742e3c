"""Children: the one place that starts processes, and what a child of Python imports.

A child imports from where its parent does, and from nowhere else: neither from the current
directory, which `python -c` and `-m` put first, nor from what PYTHONPATH makes of it there.
Therefore a `json.py` in the current directory is not run.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen, TimeoutExpired

__all__ = ["PIPE", "ended", "python", "started"]

ROOT = Path(__file__).resolve().parents[2]
"""The directory that holds this package, which may not be installed."""


def python(code: str, *arguments: object, first: Sequence[Path] = ()) -> list[str]:
    """Return a command that runs code in this Python; it imports from directories named `first`."""
    places = [*map(str, first), *filter(os.path.isabs, sys.path), str(ROOT)]
    entry = f"import sys; sys.path[:] = {places!a}; {code}"
    return [sys.executable, "-P", "-c", entry, *map(str, arguments)]


def started(
    command: Sequence[str],
    *,
    stdin: int = DEVNULL,
    stderr: int | None = None,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
) -> Popen[bytes]:
    """Start a process whose standard output is a pipe; `env` is set beside what there is."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return Popen(  # noqa: S603 - constants, paths, and programs of this package
        command, stdin=stdin, stdout=PIPE, stderr=stderr, cwd=cwd, env=inherited | dict(env or {})
    )


def ended(
    command: Sequence[str], cwd: Path, timeout_s: float, env: Mapping[str, str],
    goes_on: Callable[[], bool] = lambda: False,
) -> tuple[int, str]:  # fmt: skip
    """Run a process to its end; return its exit code, and what it wrote to stderr.

    After each `timeout_s` it is asked whether it `goes_on`.

    :raises TimeoutError: it did not, and was killed.
    """
    with started(command, stderr=PIPE, cwd=cwd, env=env) as process:
        try:
            while True:
                with suppress(TimeoutExpired):
                    _, said = process.communicate(timeout=timeout_s)
                    return process.returncode, said.decode(errors="replace")
                if not goes_on():
                    raise TimeoutError
        except BaseException:
            process.kill()
            raise
