"""What can be asked of episodes."""

from typing import Any

from memory_actors.kinds import compression
from memory_actors.kinds.episodic.episode import (
    EpisodeFinished,
    EpisodesCompressed,
    EpisodeSummaryAdded,
    Evicted,
    StepAdded,
)
from memory_actors.kinds.kind import Add, Command, Delete, Restore


class StartEpisode(Add, frozen=True, kw_only=True):
    """Start an episode."""

    memory_id: str
    agent_id: str
    goal: str
    size_bytes: int
    digest: bytes
    occurred_at_us: int
    metadata: dict[str, Any] = {}
    session_id: str | None = None
    pinned: bool = False
    auto_prune: bool = False
    """Leave to prune: the oldest running one where none is finished, or finished ones by size."""


class PutEpisode(StartEpisode, frozen=True, kw_only=True):
    """Put an episode as it is elsewhere, with what it has left behind."""

    steps: tuple[StepAdded, ...] = ()
    """In the order of their numbers."""
    end: EpisodeFinished | None = None
    """None: it is running."""
    evicted: tuple[Evicted, ...] = ()
    steps_evicted: int = 0


class AddStep(Command, frozen=True, kw_only=True):
    """Add a step to a running episode."""

    memory_id: str
    action: str
    size_bytes: int
    digest: bytes
    sha256: bytes
    """See `text.step_sha256`."""
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None


class FinishEpisode(Command, frozen=True, kw_only=True):
    """End a running episode, with words about it or without."""

    memory_id: str
    failed: bool = False
    result: str | None = None
    size_bytes: int = 0
    digest: bytes = b""


class UpdateEpisode(Command, frozen=True, kw_only=True):
    """Replace an episode's goal, its metadata, or both, whether it runs or not."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: dict[str, Any] | None = None


class DeleteEpisode(Delete, frozen=True, kw_only=True):
    """Delete an episode."""


class RestoreEpisodes(Restore, frozen=True, kw_only=True):
    """Bring back episodes that were evicted, pruned, deleted or compressed, as they were."""


class CompressEpisodes(compression.Compress, frozen=True, kw_only=True):
    """Put a summary in the place of ended episodes, if they are still what it was made of."""

    summary: EpisodesCompressed


class UndoEpisodeCompaction(compression.UndoCompaction, frozen=True, kw_only=True):
    """Take a summary away and bring back its originals."""


class AddEpisodeSummary(compression.AddSummary, frozen=True, kw_only=True):
    """Add a summary as another store has made it."""

    summary: EpisodeSummaryAdded


COMMANDS = (
    StartEpisode, PutEpisode, AddStep, FinishEpisode, UpdateEpisode, DeleteEpisode, RestoreEpisodes,
    CompressEpisodes, UndoEpisodeCompaction, AddEpisodeSummary,
)  # fmt: skip
