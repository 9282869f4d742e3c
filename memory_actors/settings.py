"""What can be set when a memory system is opened. Every default is meant for a laptop."""

import msgspec

from memory_actors.quota import MIB, Limits


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a `MemorySystem`."""

    limits: Limits = Limits()
    """What each user may hold."""
    live_bytes_max: int = 512 * MIB
    """Memory of all live users together; beyond it the least recently used leave."""
    idle_s: float = 600.0
    """A user who was idle for this long leaves memory."""
    deadline_s: float = 30.0
    """How long a write may wait for its answer."""
    embedder_deadline_s: float = 30.0
    """How long one batch of the embedder may take."""
    shutdown_s: float = 10.0
    """How long closing waits for work in hand."""
    log_bytes_max: int = 512 * 1024 * MIB
    """Size limit of the log: beyond it writes are refused, reads and deletes are not."""
    check_replay: bool = False
    """Compare the live state with a full replay after each write. For tests: it is slow."""
