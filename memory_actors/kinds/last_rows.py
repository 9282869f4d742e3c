"""The last row of a memory that has gone, folded from the events about it.

The kind's own fold tells it: folded alone, the events about one memory, but for its end, give the
row that it had. They name others, too, of which this fold knows nothing; every fold passes over
those. Retention may have dropped what a memory said: then only what was said anew since counts.
"""

from collections.abc import Callable, Container, Iterable
from typing import Any, Generic, NamedTuple, NoReturn, TypeVar

from eventlog import Dropped, EventRegistry, Recorded
from memory_actors.base.errors import NotFoundError
from memory_actors.kinds.events import BEGINS, ENDS, Effect, effect
from memory_actors.kinds.kind import Events, Restore
from memory_actors.kinds.tainted import Past

R = TypeVar("R")


class Life(NamedTuple, Generic[R]):
    """The last life of a memory, whether or not it has ended."""

    row: R
    """Its last row."""
    events: list[Recorded[Any]]
    """Those since it last began."""
    compressed: bool
    """True if a summary took its place."""

    @property
    def by_version(self) -> Events:
        """The events by version, as reads ask for them."""
        return {recorded.version: recorded for recorded in self.events}


class Lives(NamedTuple, Generic[R]):
    """The way from the events about one memory to its last life."""

    noun: str
    registry: EventRegistry
    initial: Any
    fold: Callable[[Any, Iterable[Recorded[Any]]], Any]
    find: Callable[[Any, str], R | None]

    def last(self, memory_id: str, past: Past) -> Life[R]:
        """Return the last life of a memory.

        :raises NotFoundError: it never was, or retention dropped what it said.
        """
        state, row, dropped = self.initial, None, None
        life: list[Recorded[Any]] = []
        ended: Effect | None = None
        of_kind = set(self.registry.classes())
        for recorded in past:
            if isinstance(recorded.data, Dropped):
                state, row, dropped = self.initial, None, recorded.data
            elif type(recorded.data) in of_kind:
                what = effect(recorded.tag, recorded.data, memory_id)
                if what in ENDS:
                    ended = what
                    continue
                if what in BEGINS:
                    state, life, ended = self.initial if ended else state, [], None
                elif row is None:
                    continue
                state = self.fold(state, (recorded,))
                row = self.find(state, memory_id) or row
                life.append(recorded)
        if row is None:
            self._refuse(memory_id, dropped)
        return Life(row, life, ended is Effect.COMPRESSED)

    def gone(self, command: Restore, living: Container[str]) -> list[Life[R]]:
        """Return the last lives of those memories that do not live, each once.

        :raises NotFoundError: one never was, or retention dropped what it said.
        """
        ids = dict.fromkeys(one for one in command.memory_ids if one not in living)
        return [self.last(memory_id, command.past.get(memory_id, ())) for memory_id in ids]

    def _refuse(self, memory_id: str, dropped: Dropped | None) -> NoReturn:
        if dropped is None:
            raise NotFoundError(f"no {self.noun} {memory_id!r} to restore: it was never there")
        raise NotFoundError(
            f"{self.noun} {memory_id!r} cannot come back: retention dropped what it said on "
            f"{dropped.since:%Y-%m-%d}; its summary is what is left"
        )
