"""Steps of work, for whoever traces: no package of tracing is imported here.

An actor decides and appends for several callers at once, in a task of its own, so it does not have
their contexts. Each caller leaves a mark with its request (`here`), and the work names the marks of
all callers that it serves (`step`). If nothing traces, both only read a variable.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Final, Protocol


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
