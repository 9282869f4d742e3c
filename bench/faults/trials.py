"""A trial in a process of its own: whatever it does to itself, the next one goes on.

The child is a fork, so that it costs no imports. A process that forks must have no threads and no
log open.
"""

import asyncio
import os
import select
import signal
import time
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, NamedTuple

DEADLINE_S = 30.0
ANSWER_BYTES = 1 << 15  # less than a pipe holds: the child never waits


_pipe = -1


def entering(phase: str) -> None:
    """Say, in a trial, what comes next: should the process die, that is known of it."""
    os.write(_pipe, f"@{phase}\n".encode())


class Ending(NamedTuple):
    """The end of a trial."""

    kind: str
    """The value it returned, or `dead`, `hung`, `untyped`."""
    detail: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


Trial = Callable[[], tuple[str, str]]
"""Returns how it ended, and a detail."""


def in_child(trial: Trial, deadline_s: float = DEADLINE_S) -> Ending:
    """Run a trial in a forked child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _live(trial, write_end)
    os.close(write_end)
    said = _read(read_end, deadline_s)
    os.close(read_end)
    if said is None:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    if said is None:
        return Ending("hung", f"no end within {deadline_s:g} s")
    phase, _, outcome = said.decode(errors="replace").rpartition("\n@")[2].partition("\n")
    if not outcome:
        by = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else "itself"
        return Ending("dead", f"{phase}, ended by {by}")
    kind, _, detail = outcome.partition("\t")
    return Ending(kind, detail)


def in_loop(
    trial: Callable[[], Coroutine[Any, Any, tuple[str, str]]], deadline_s: float = DEADLINE_S
) -> Ending:
    """Run a coroutine as a trial."""
    return in_child(lambda: asyncio.run(trial()), deadline_s)


def _live(trial: Trial, write_end: int) -> None:
    global _pipe
    _pipe = write_end
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # an assertion of LMDB says so here
    os.write(_pipe, b"\n")
    entering("starting")
    try:
        kind, detail = trial()
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        kind = "untyped"
        detail = f"{type(error).__name__}: {error} at {Path(where.filename).name}:{where.lineno}"
    line = f"{kind}\t{detail}".replace("\n@", "\n ")
    os.write(write_end, line.encode(errors="replace")[:ANSWER_BYTES])
    os._exit(0)


def _read(fd: int, deadline_s: float) -> bytes | None:
    said, until = bytearray(), time.monotonic() + deadline_s
    while select.select([fd], [], [], max(0.0, until - time.monotonic()))[0]:
        data = os.read(fd, ANSWER_BYTES)
        if not data:
            return bytes(said)
        said += data
    return None
