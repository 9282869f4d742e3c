"""The past of one memory: all events about it, or those that are left without a source's words."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from eventlog import Recorded
from eventlog.core.records import AnyRecorded
from memory_actors.kinds.effects import Event
from memory_actors.kinds.rows import R

Events: TypeAlias = Mapping[int, AnyRecorded]
"""Events of one stream by version."""
Past: TypeAlias = Sequence[Recorded[Event]]
"""Every event about one memory, in order."""


class TaintedPast(NamedTuple):
    """Every event about one memory, and which of them have words of the source that is purged."""

    memory_id: str
    events: Past
    tainted: Callable[[Recorded[Event]], bool]

    @property
    def clean(self) -> list[Recorded[Event]]:
        """The events without those of the source."""
        return [one for one in self.events if not self.tainted(one)]

    def cleaned(
        self,
        begins: type[msgspec.Struct],
        stays: Callable[[object], bool] | None = None,
        *,
        text: str = "content",
        **emptied: object,
    ) -> list[Recorded[Event]]:
        """Return the events without the source's words, from a beginning on; [] if none is left.

        A beginning of the source is kept, with these fields `emptied`, where a later event of
        somebody else `stays` without it: one that begins the memory anew, or gives another `text`.
        """

        def gives_text(event: object) -> bool:
            own = getattr(event, "memory_id", None) == self.memory_id
            return isinstance(event, begins) or (own and getattr(event, text, None) is not None)

        stays = stays or gives_text
        said = (not self.tainted(one) and stays(one.data) for one in self.events)
        last = max((n for n, says in enumerate(said) if says), default=-1)
        kept: list[Recorded[Event]] = []
        begun = False
        for place, one in enumerate(self.events):
            is_beginning = isinstance(one.data, begins)
            if not self.tainted(one):
                kept.append(one)
                begun = begun or is_beginning
            elif is_beginning and not begun and place < last:
                data: object = replace(one.data, metadata={}, **emptied)
                kept.append(replace(one, data=data))
                begun = True
        first = next((n for n, one in enumerate(kept) if isinstance(one.data, begins)), len(kept))
        return kept[first:]


class Life(NamedTuple, Generic[R]):
    """The last life of a memory, whether or not it has ended."""

    row: R
    """Its last row."""
    events: list[AnyRecorded]
    """Its events since it last began."""
    compressed: bool
    """True if a summary took its place."""

    @property
    def by_version(self) -> Events:
        """The events by version, as reads ask for them."""
        return {recorded.version: recorded for recorded in self.events}
