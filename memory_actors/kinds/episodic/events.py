"""Events of episodes, and the texts that they carry.

Each text of an episode is in an event of its own, also after it was restored, so no event grows
with the episode.
"""

import hashlib
from typing import NamedTuple, Self, TypeAlias

import msgspec

from memory_actors.base.records import Metadata, Origin, Step
from memory_actors.kinds import compacting
from memory_actors.kinds.effects import Deleted, Effect, KindRegistry, Pruned, Updated
from memory_actors.kinds.passages import text_digest

registry = KindRegistry()


class StepMarker(msgspec.Struct, frozen=True, gc=False):
    """The marker of a step that made room for a newer one."""

    number: int
    sha256: bytes
    """Of the step's JSON: it proves what the step was, to one who has it."""
    snippet: str
    """The beginning of its action."""


@registry.about("episodic.started", Effect.ADDED, others={"evicted_ids": Effect.EVICTED})
class EpisodeStarted(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An agent began to work on a goal, and its oldest finished episodes left."""

    memory_id: str
    agent_id: str
    goal: str
    size_bytes: int
    """Of the goal."""
    digest: bytes
    occurred_at_us: int
    metadata: Metadata = {}
    session_id: str | None = None
    pinned: bool = False
    evicted_ids: tuple[str, ...] = ()


@registry.about("episodic.restored", Effect.RESTORED)
class EpisodeRestored(EpisodeStarted, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode that had gone came back; its steps and its end follow as events of their own."""

    created_at_us: int
    evicted: tuple[StepMarker, ...] = ()
    """The last of its evicted steps."""
    steps_evicted: int = 0
    keep: bool = False
    """It came back out of a summary: compaction leaves it alone from now on."""
    origins: tuple[Origin, ...] = ()
    """The sources of its goal and metadata, of which the one who brought it back is none."""


@registry.about("episodic.step_added", Effect.CHANGED)
class StepAdded(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An agent took a step, and older ones left the episode."""

    memory_id: str
    number: int
    """From 1; never used again, whatever leaves."""
    action: str
    size_bytes: int
    """Of its texts."""
    digest: bytes
    sha256: bytes
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None
    evicted: tuple[StepMarker, ...] = ()
    origins: tuple[Origin, ...] = ()
    """The sources of its words, where it came back with its episode."""


@registry.about("episodic.finished", Effect.CHANGED)
class EpisodeFinished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode came to its end."""

    memory_id: str
    failed: bool
    result: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    origins: tuple[Origin, ...] = ()
    """The sources of its words, where it came back with its episode."""


@registry.about("episodic.updated", Effect.CHANGED)
class EpisodeUpdated(Updated, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """An episode got another goal (its content), new metadata, or both; None keeps what was."""

    digest: bytes = b""


EpisodeDeleted = registry.plain(Deleted, "episodic.deleted", Effect.DELETED)
EpisodesPruned = registry.plain(Pruned, "episodic.pruned", Effect.PRUNED)


@registry.about(
    "episodic.compressed", Effect.ADDED, others={"compressed_from_ids": Effect.COMPRESSED}
)
class EpisodesCompressed(
    compacting.Compressed, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A summary took the place of episodes of one agent, which went."""

    agent_id: str
    failed: bool = False
    """All of them had."""


@registry.about("episodic.summary_added", Effect.ADDED)
class EpisodeSummaryAdded(
    compacting.SummaryPut, frozen=True, kw_only=True, omit_defaults=True, gc=False
):
    """A summary came back, or from another store; no episode went for it."""

    agent_id: str
    failed: bool = False


EpisodeCompactionUndone = registry.plain(
    compacting.CompressionUndone, "episodic.compaction_undone", Effect.UNDONE
)


TextEvent: TypeAlias = EpisodeStarted | StepAdded | EpisodeFinished | EpisodeUpdated
"""Has a text of one episode."""
SummaryEvent: TypeAlias = EpisodesCompressed | EpisodeSummaryAdded
RowEvent: TypeAlias = TextEvent | SummaryEvent
"""Makes a row, or changes the one it names."""

# --- what a text says


class StepTexts(NamedTuple):
    """The texts of a step."""

    action: str
    observation: str | None = None
    outcome: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, step: StepAdded | Step) -> Self:
        """Return the texts that a step has."""
        return cls(step.action, step.observation, step.outcome, step.error)

    @property
    def line(self) -> str:
        """The words that the step is found by: `action -> observation -> outcome -> error: …`."""
        said = [*self[:-1], f"error: {self.error}" if self.error else None]
        return " -> ".join(part for part in said if part)

    @property
    def size_bytes(self) -> int:
        """The size that the step counts for: the UTF-8 bytes of its texts."""
        return sum(len(part.encode()) for part in self if part)

    @property
    def sha256(self) -> bytes:
        """The hash of the step's JSON, which stays when the step is evicted.

        The JSON is an object of the four, in this order, without spaces; what is not there is null.
        """
        return hashlib.sha256(msgspec.json.encode(self._asdict())).digest()

    def added(self, memory_id: str, number: int = 0) -> StepAdded:
        """Return the event of a step with these texts; its number may be set later."""
        return StepAdded(
            memory_id=memory_id,
            number=number,
            size_bytes=self.size_bytes,
            digest=text_digest(self.line),
            sha256=self.sha256,
            **self._asdict(),
        )


def goal_of(event: RowEvent) -> str:
    """Return the goal that an event gave to its episode."""
    assert not isinstance(event, StepAdded | EpisodeFinished)
    goal = event.goal if isinstance(event, EpisodeStarted) else event.content
    assert goal is not None, "a label leads to an event with a text"
    return goal
