"""What an agent wanted, did, and what came of it."""

from datetime import datetime
from typing import Any

from eventlog.core.records import Returned
from memory_actors.base.records.source import Sourced


class Step(Returned, frozen=True, kw_only=True):
    """One step of an episode."""

    number: int
    """From 1, in order, never used twice."""
    action: str
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None


class EvictedStep(Returned, frozen=True, kw_only=True):
    """What a step leaves in its episode when it makes room for later ones."""

    number: int
    sha256: str
    """Hex, of the JSON object of action, observation, outcome and error."""
    snippet: str
    """The beginning of the action."""


class Episode(Sourced, frozen=True, kw_only=True):
    """One episode: what an agent wanted, what it did, what came of it; or a summary of some."""

    memory_id: str
    agent_id: str
    goal: str
    status: str
    """running, done or failed."""
    result: str | None
    steps: tuple[Step, ...]
    """Those that are kept: the first, the last, those with an error, and the newest others."""
    evicted: tuple[EvictedStep, ...]
    """The last of those that left."""
    steps_evicted: int
    """How many left in all."""
    metadata: dict[str, Any]
    session_id: str | None
    created_at: datetime
    occurred_at: datetime
    pinned: bool
    original_count: int = 0
    """Above 0: its goal is a summary of so many episodes, and it has no steps."""
