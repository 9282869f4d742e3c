"""Work on a closed store in a process of its own.

LMDB can end the process that reads a damaged tree (SIGBUS, SIGSEGV, an assertion). Therefore a
child reads, and reports its progress and finally its answer to its parent in lines of JSON: a
result, or an error of the log, which is raised again by its name. A child that ends early has told
neither: if it crashed, the file is damaged; if it ended in another way (a module that it cannot
import, the system's OOM killer), it was the reader that failed, and that says nothing about the
file.
"""

import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, TypeVar

import msgspec

import eventlog
from eventlog import CorruptLog, EventLogError, Progress
from memory_actors.base.errors import ReaderFailedError
from memory_actors.base.processes import PIPE, python, started

_CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV}

Result = TypeVar("Result")


class ChildDied(Exception):
    """A child crashed before it told what came of its work; the message names the signal."""


class _Line(msgspec.Struct, omit_defaults=True):
    """A line of a child: progress, a result or an error."""

    done: int = 0
    total: int = 0
    result: object = None
    error: str | None = None
    """Its type."""
    message: str = ""


# --- the parent


def result_of_child(
    module: str,
    arguments: Sequence[str | Path],
    kind: type[Result],
    *,
    given: bytes = b"",
    progress: Progress | None = None,
) -> Result:
    """Run `main` of a module in a child with these arguments, and return its result. Blocks.

    The child reads `given` from its standard input. `progress(done, total)` is called here.

    :raises ChildDied: it has crashed, as it does over a damaged file.
    :raises ReaderFailedError: it has ended without an answer, in another way.
    :raises EventLogError: what the child could not do.
    """
    command = python(f"from {module} import main; main()", *arguments)
    with started(command, stdin=PIPE) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        with suppress(BrokenPipeError):  # it has died before it read that
            child.stdin.write(given)
        with suppress(BrokenPipeError):
            child.stdin.close()
        told = _told(child.stdout, progress)
    if told is None:
        raise _early_end(child.returncode)
    return msgspec.convert(told, kind)


def _told(lines: IO[bytes], progress: Progress | None) -> object:
    for text in lines:
        line = msgspec.json.decode(text, type=_Line)
        if line.error is not None:
            kind: type[Exception] = getattr(eventlog, line.error, CorruptLog)
            raise kind.__new__(kind, line.message)  # its `__init__` may want more than a message
        if line.result is not None:
            return line.result
        if progress is not None:
            progress(line.done, line.total)
    return None


def _early_end(code: int) -> Exception:
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    if -code in _CRASHES:
        return ChildDied(how)
    return ReaderFailedError(
        f"the process that was to read the store has failed ({how}): nothing is known about the "
        "store; see what that process wrote to stderr, then try again"
    )


# --- the child


def answer_parent(work: Callable[[Progress], object]) -> None:
    """Do the work of a child, and print the result or the error for the parent.

    `work` may call the function that it is given, to say how far it is.
    """
    out, sys.stdout = sys.stdout, sys.stderr  # a log line must not come between

    def say(line: _Line) -> None:
        out.write(msgspec.json.encode(line).decode() + "\n")
        out.flush()

    try:
        result = work(lambda done, total: say(_Line(done, total)))
    except EventLogError as error:
        say(_Line(error=type(error).__name__, message=str(error)))
    else:
        say(_Line(result=result))
