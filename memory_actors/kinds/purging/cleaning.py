"""The past of a memory without the words of a source: what is left of it is made of that."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import msgspec

from eventlog import Recorded

Past: TypeAlias = Sequence[Recorded[Any]]
"""Every event about one memory, in order."""


class Life(NamedTuple):
    """Every event about one memory, and which of them have words of the source that is purged."""

    memory_id: str
    past: Past
    tainted: Callable[[Recorded[Any]], bool]

    @property
    def clean(self) -> list[Recorded[Any]]:
        """The events without those of the source."""
        return [one for one in self.past if not self.tainted(one)]

    def cleaned(
        self,
        begins: type[msgspec.Struct],
        stays: Callable[[Any], bool],
        **emptied: Any,
    ) -> list[Recorded[Any]]:
        """Return the events without the source's words, from a beginning on; [] if none is left.

        A beginning of the source is kept, with these fields `emptied`, where a later event of
        somebody else `stays` without it: one that gives another text, say.
        """
        kept: list[Recorded[Any]] = []
        begun = False
        for place, one in enumerate(self.past):
            if not self.tainted(one):
                kept.append(one)
                begun = begun or isinstance(one.data, begins)
            elif begun or not isinstance(one.data, begins):
                continue
            elif self._stays(place, stays):
                data: Any = msgspec.structs.replace(one.data, metadata={}, **emptied)
                kept.append(msgspec.structs.replace(one, data=data))
                begun = True
        first = next((n for n, one in enumerate(kept) if isinstance(one.data, begins)), len(kept))
        return kept[first:]

    def _stays(self, place: int, stays: Callable[[Any], bool]) -> bool:
        return any(not self.tainted(one) and stays(one.data) for one in self.past[place + 1 :])
