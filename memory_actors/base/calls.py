"""The call of another process that is being carried out, its trace in the log, and tracing."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Final, Protocol


class ClientCall:
    """A call of another process: its name is in the meta of every event that comes of it.

    A client may repeat such a call to another owner of the store; the log then has the result of
    the first attempt. Each command of a call has a number, in the order in which they are given.
    """

    def __init__(self, name: str):
        self._name = name
        self._commands = 0

    def next(self) -> str:
        """Return the name of the next command."""
        self._commands += 1
        return f"{self._name}/{self._commands}"

    def has(self, command: str | None) -> bool:
        """Say whether a command is one of this call, asked now or before."""
        return command is not None and command.startswith(f"{self._name}/")


ASKED: Final[ContextVar[ClientCall | None]] = ContextVar("asked", default=None)
"""The call of another process that is being carried out, if it is one."""
CALL: Final = "call"
"""Its name in the meta of events."""


# --- steps
#
# An actor decides and appends for several callers at once, in a task of its own: its context is
# another than theirs. Each caller leaves a mark with its request (`here`), and the work names the
# marks of all callers it serves (`step`). Without tracing, both cost one look-up of a name.


class Steps(Protocol):
    """A receiver of steps."""

    def here(self) -> object:
        """Return a mark of what is being done now."""

    def step(
        self, name: str, callers: Sequence[object], **attributes: int | str
    ) -> AbstractContextManager[object]:
        """Hold a step of work that is done for callers who left these marks."""


_NOTHING: Final = nullcontext()
_watching: Steps | None = None


def watch(steps: Steps | None) -> None:
    """Tell all steps of this process from now on; None: nobody wants them."""
    global _watching
    _watching = steps


def here() -> object:
    """Return the mark of the caller; None where nobody traces."""
    return None if _watching is None else _watching.here()


def step(
    name: str, callers: Sequence[object], **attributes: int | str
) -> AbstractContextManager[object]:
    """Hold a step of work for these callers."""
    return _NOTHING if _watching is None else _watching.step(name, callers, **attributes)
