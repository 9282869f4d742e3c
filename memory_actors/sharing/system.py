"""`MemorySystem.open`: the way in, for the process that owns a store and for all others.

Nothing here loads what an owner needs before it is known that this process becomes one: a client
stays small.
"""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from eventlog.core.errors import LogLocked
from eventlog.core.paths import named
from memory_actors.base.opening import Opening
from memory_actors.base.settings import Settings
from memory_actors.sharing.address import Turn, read_address
from memory_actors.sharing.choices import described
from memory_actors.sharing.client import LOOK_AGAIN_S, RECONNECT_S, Client, RefusedError

if TYPE_CHECKING:
    from memory_actors.api.past import PastMemory
    from memory_actors.api.system import MemorySystem as Operations
    from memory_actors.api.user import UserMemory
    from memory_actors.compaction.summarizers import Summarizer
    from memory_actors.observing.alerts import AlertSink
    from memory_actors.observing.metrics import Metrics
    from memory_actors.search.embedding.protocol import Embedder
    from memory_actors.search.superseding import Supersedes, Superseding
    from memory_actors.upkeep.store import Encrypt
else:  # the same operations, without what carries them out
    from memory_actors.sharing.remote import PastMemory, UserMemory
    from memory_actors.sharing.remote import RemoteSystem as Operations

__all__ = ["MemorySystem", "PastMemory", "UserMemory"]

MADE_S_MAX: Final = 2.0
"""Two processes may make a store at once; the one that has lost finds the other within this."""


class MemorySystem(Operations):
    """The memories of all users in one data directory. Open it with `MemorySystem.open`."""

    @classmethod
    def open(
        cls,
        directory: str | Path,
        *,
        share: bool = True,
        embedder: "Embedder | str | None" = None,
        summarizer: "Summarizer | None" = None,
        supersedes: "Supersedes | Superseding | bool | None" = None,
        clock: Callable[[], int] | None = None,
        new_id: Callable[[int], str] | None = None,
        settings: Settings | None = None,
        alerts: "Sequence[AlertSink] | None" = None,
        metrics: "Metrics | None" = None,
        reindex: bool = False,
        encrypt: "Encrypt" = False,
    ) -> "Opening[MemorySystem]":
DOC
        parts: dict[str, Any] = {
            "embedder": embedder,
            "summarizer": summarizer,
            "supersedes": supersedes,
            "clock": clock,
            "new_id": new_id,
            "settings": settings,
            "alerts": alerts,
            "metrics": metrics,
            "reindex": reindex,
            "encrypt": encrypt,
        }

        async def opened() -> Any:
            store = named(directory)
            return await (_shared(store, parts) if share else _alone(store, parts))

        return Opening("MemorySystem.open(...)", opened)


async def _alone(directory: Path, parts: dict[str, Any]) -> Any:
    """Open a store for this process and no other."""
    from memory_actors.sharing.owning import owned_alone  # an owner loads the engine, and no client

    return await owned_alone(directory, parts)


async def _shared(directory: Path, parts: dict[str, Any]) -> Any:
    """Open a store, or become a client of the process that has it.

    :raises LogLocked: a process has it for itself, or does not finish opening or closing it.
    """
    choices = described(parts)
    until_s = asyncio.get_running_loop().time() + RECONNECT_S
    is_new = not directory.exists()

    async def own() -> Any:
        from memory_actors.sharing.owning import owned  # as above

        return await owned(directory, parts, choices)

    while True:
        client = Client(directory, choices, own)
        try:
            await client.join()
        except RefusedError as refused:
            raise refused.error from None
        except OSError:
            pass
        else:
            return MemorySystem(client)
        try:
            return await _opened_in_turn(directory, own)
        except LogLocked:
            late_s = asyncio.get_running_loop().time() - until_s
            if late_s > 0 or not (is_new and late_s < MADE_S_MAX - RECONNECT_S or _shares(directory)):
                raise
        except _NotOurTurnError:
            pass
        await asyncio.sleep(LOOK_AGAIN_S)
