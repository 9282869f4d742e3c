"""How much a user holds of each kind, and of which limits."""

from datetime import datetime

from eventlog.core.records import Returned


class QuotaUse(Returned, frozen=True):
    """How full one limit is."""

    quota: str
    """What is limited: memories, bytes, keys, …"""
    unit: str
    """count or bytes."""
    used: int
    """Where the limit is a session's or an agent's: of the fullest one."""
    limit: int
    evicts: bool = False
    """Whether what would pass it makes room by itself: it fills up by design and refuses nothing,
    so it raises no alert."""

    @property
    def percent(self) -> float:
        """Used of the limit, in percent; over 100 after a downgrade."""
        if not self.limit:
            return 100.0 if self.used else 0.0
        return 100.0 * self.used / self.limit


class KindUsage(Returned, frozen=True, kw_only=True):
    """How much of one kind a user holds."""

    count: int
    size_bytes: int
    """UTF-8 bytes of the contents."""
    stored_bytes: int
    """Bytes their events take in the log."""
    evicted: int
    """How many left so far because the kind makes room by itself, or their time was up."""
    pruned: int
    """How many were pruned so far."""
    quotas: tuple[QuotaUse, ...]


class Usage(Returned, frozen=True, kw_only=True):
    """How much a user holds, by kind."""

    user_id: str
    at: datetime
    tier: str
    kinds: dict[str, KindUsage]
