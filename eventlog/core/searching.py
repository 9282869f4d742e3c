"""Where in a stream: searches by halves, some twenty reads of one event each."""

from collections.abc import Callable
from typing import Any

from eventlog.core.port import EventStore
from eventlog.core.records import Recorded


async def last_version(
    log: EventStore, stream: str, head: int, passes: Callable[[Recorded[Any]], bool]
) -> int:
    """Return the last version up to `head` that passes, 0 if none does.

    All that pass must come before all that do not. Payloads that are gone are `Dropped`.
    """
    passed, until = 0, head + 1
    while until - passed > 1:
        middle = (passed + until) // 2
        (event,) = await log.read_versions(stream, [middle], dropped="mark")
        passed, until = (middle, until) if passes(event) else (passed, middle)
    return passed


async def version_at(log: EventStore, stream: str, position: int) -> int:
    """Return the version of a stream's last event at or before a position, 0 if there is none."""
    if position <= 0:
        return 0
    head = (await log.head(stream)).version
    return await last_version(log, stream, head, lambda event: event.position <= position)
