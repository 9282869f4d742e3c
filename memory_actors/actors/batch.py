"""Commands of one actor that are decided together, and the events they would lead to."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from eventlog import Prepared, Recorded
from eventlog.core.waiting import settle
from memory_actors.actors.asking import Reply, Request

if TYPE_CHECKING:
    import asyncio

BATCH_COMMANDS_MAX = 64  # decided in one go: about 2 ms on the loop
BATCH_PAYLOAD_BYTES_MAX = 1 << 20

S = TypeVar("S")


@dataclass(slots=True, eq=False)
class QueuedRequest:
    """A request in the mailbox, and who waits for its answer."""

    request: Request
    answer: "asyncio.Future[Reply]"
    alarm: "asyncio.TimerHandle"
    """Tells who waits that the deadline has passed."""
    caller: object
    """The mark of who asks, for whoever traces. See steps.py."""

    def settle(self, outcome: Reply | Exception) -> None:
        """Answer the caller, if they still wait."""
        self.alarm.cancel()
        settle(self.answer, outcome)


@dataclass(slots=True)
class CommandBatch(Generic[S]):
    """Commands decided together, and what they would lead to."""

    state: S
    version: int
    now_us: int
    prepared: list[Prepared] = field(default_factory=list)
    events: list[Recorded[Any]] = field(default_factory=list)
    outcomes: list[tuple[QueuedRequest, Reply | Exception]] = field(default_factory=list)
    payload_bytes: int = 0
    changes: list[Mapping[str, int]] = field(default_factory=list)
    """The changes of the totals over all streams by each command."""

    @property
    def is_full(self) -> bool:
        """True if no other command is to be decided with these."""
        return (
            len(self.outcomes) >= BATCH_COMMANDS_MAX or self.payload_bytes > BATCH_PAYLOAD_BYTES_MAX
        )

    def total_changes(self) -> dict[str, int]:
        """Return by how much all commands together change the totals."""
        total: dict[str, int] = {}
        for change in self.changes:
            for name, amount in change.items():
                total[name] = total.get(name, 0) + amount
        return {name: amount for name, amount in total.items() if amount}


def tentative(stream: str, version: int, event: Prepared, now_us: int) -> Recorded[Any]:
    """Return an event as it will be recorded, but for its position."""
    return Recorded(
        stream, version, 0, now_us, event.tag, event.event, len(event.raw), event.stored_bytes,
        event.raw_meta,
    )  # fmt: skip
