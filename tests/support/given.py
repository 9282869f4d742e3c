"""given(events).when(command).then(events): a decider's behaviour in one line."""

from collections.abc import Sequence
from typing import Any

from eventlog import Recorded
from memory_actors import Limits, Plan, Settings, Tier
from memory_actors.kinds.kind import Kind
from memory_actors.kinds.long_term import MemoryAdded


def recorded(event: Any, version: int = 1, stored_bytes: int = 10) -> Recorded[Any]:
    """Wrap an event as the log would give it back."""
    return Recorded("user:u", version, version, 1_000 + version, "", event, 20, stored_bytes, b"")


def fold(kind: Kind, events: Sequence[Any]) -> Any:
    """Return a kind's state after events."""
    return kind.fold(kind.initial, [recorded(e, v) for v, e in enumerate(events, start=1)])


def added(name: str, *, at: int = 0, size: int = 10, pinned: bool = False) -> MemoryAdded:
    """Return the event that added a memory."""
    return MemoryAdded(
        memory_id=name, content=name, size_bytes=size, digest=name.encode(), occurred_at_us=at,
        pinned=pinned,
    )  # fmt: skip


def pro(limits: Limits) -> dict[Tier, Plan]:
    """Return tiers in which the default one has these limits."""
    return {Tier.LOCAL: Plan(limits=limits)}


class Given:
    """A kind of memory with a past."""

    def __init__(self, kind: Kind, *events: Any, limits: Limits | None = None):
        self.kind = kind
        self.limits = limits or Settings().limits_by_tier()[None]
        self.state = fold(kind, events)

    def when(self, command: Any) -> list[Any]:
        """Return the events of a command."""
        return list(self.kind.decide(command, self.state, self.limits))
