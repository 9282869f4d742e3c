"""The call of another process that is being carried out, and its name in the log."""

from contextvars import ContextVar
from typing import Final


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
