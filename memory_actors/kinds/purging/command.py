"""The command to purge, with all that its decision needs to know."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

from msgspec.structs import replace

from eventlog import Recorded
from memory_actors.base.origins import Origins
from memory_actors.base.records import Trust
from memory_actors.kinds.kind import Command, Outside

PURGED_AT_ONCE = 100  # memories of one decision: it holds the loop for some 8 ms
PURGED_SOURCE, PURGED_TRUST = "purged_source", "purged_trust"


class Purge(Command, frozen=True, kw_only=True):
    """Take what came from a source, or of a trust, out of memories."""

    frees: ClassVar[bool] = True
    memory_ids: tuple[str, ...]
    """The memories that it may have had a say in."""
    source: str | None = None
    trust: Trust | None = None
    bring_back: bool = True
    """True: the other originals of summaries that go come back."""
    past: Mapping[str, Sequence[Recorded[Any]]] = {}
    """Every event about each of them, and about the originals of summaries among them."""

    async def informed(self, _state: Any, outside: Outside) -> Self:
        """Return the command with the past of its memories, and of the originals of summaries."""
        past = dict(await outside.events_about(self.memory_ids))
        past |= await outside.events_about(sorted(originals(past)))
        return replace(self, past=past)

    @property
    def alone(self) -> bool:
        """True: what it takes out is in the log."""
        return True

    def meta(self, origins: Origins) -> dict[str, str]:  # noqa: ARG002 - it has no words
        """Return the meta of its events: for those who ask why, and for the next purge."""
        what = self.source or f"{self.trust} sources"
        asked = {PURGED_SOURCE: self.source, PURGED_TRUST: self.trust and self.trust.value}
        said = {name: value for name, value in asked.items() if value is not None}
        return {**said, "purged": what, "cause": f"purge of {what}"}

    def without_return(self) -> "Purge":
        """Return the same, but that nothing comes back, and so nothing takes room."""
        return replace(self, bring_back=False)


def originals(past: Mapping[str, Sequence[Recorded[Any]]]) -> set[str]:
    """Return what the summaries among some memories were made of, but for these themselves."""
    ids = {one for memory_id, events in past.items() for one in made_of(memory_id, events)}
    return ids - past.keys()


def made_of(memory_id: str, past: Sequence[Recorded[Any]]) -> tuple[str, ...]:
    """Return the ids of what a summary was made of; () if it is none."""
    own = [one.data for one in past if getattr(one.data, "memory_id", None) == memory_id]
    found: list[tuple[str, ...]] = [getattr(event, "compressed_from_ids", ()) for event in own]
    return next((ids for ids in reversed(found) if ids), ())
