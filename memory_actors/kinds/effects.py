"""Events of a kind of memory, each declared with its effect on the memories that it names.

Provenance, purges and audits ask here what an event did; by tag, where retention has dropped it.
"""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeAlias, TypeVar, cast

import msgspec

from eventlog import EventRegistry
from eventlog.core.codec import KeysOf
from memory_actors.base.records import Metadata

Event: TypeAlias = msgspec.Struct
"""An event of any kind."""
Decision: TypeAlias = Sequence[Event]
"""The events of a command."""
E = TypeVar("E", bound=type)
P = TypeVar("P", bound=msgspec.Struct)


class Deleted(msgspec.Struct, frozen=True, kw_only=True):
    """A memory was deleted by its user."""

    memory_id: str


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """The oldest memories were deleted to make room."""

    memory_ids: tuple[str, ...]
    cause: str


class Updated(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A memory got a new content or new metadata, or was pinned or not; None keeps what was."""

    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    metadata: Metadata | None = None
    pinned: bool | None = None


class Effect(StrEnum):
    """The effect of an event on a memory."""

    ADDED = "added"
    CHANGED = "changed"
    RESTORED = "restored"
    DELETED = "deleted"
    PRUNED = "pruned"
    """It made room, because somebody allowed that."""
    EVICTED = "evicted"
    """It made room, as its kind does by itself."""
    EXPIRED = "expired"
    COMPRESSED = "compressed"
    """A summary took its place."""
    UNDONE = "undone"
    """A summary made room for its originals."""


BEGINS = frozenset({Effect.ADDED, Effect.RESTORED})
"""The effects that begin the life of a memory, or begin it again."""
ENDS = frozenset(Effect) - BEGINS - {Effect.CHANGED}
"""The effects that end it."""


class Declaration(NamedTuple):
    """The declaration of an event."""

    effect: Effect
    others: Mapping[str, Effect]
    """The effects on the memories that further fields name."""
    says: bool
    begins: bool = False
    leaving: tuple[tuple[str, Effect], ...] = ()
    """The fields in `others` that end the memories they name."""


DECLARED: dict[str | type, Declaration] = {}
"""By tag, and by class."""
_UNDECLARED = Declaration(Effect.CHANGED, {}, says=False)  # of events about no memory


class KindRegistry(EventRegistry):
    """The events of one kind of memory."""

    def about(
        self,
        tag: str,
        effect: Effect,
        *,
        others: Mapping[str, Effect] = MappingProxyType({}),
        says: bool = True,
        keys: KeysOf | None = None,
    ) -> Callable[[E], E]:
        """Return a class decorator that registers an event with its effect on memories.

        `others` gives the effect on memories that further fields name; the keys are all these ids,
        unless given. An event that does not `say` takes words away, or relates memories.
        """

        def register(cls: E) -> E:
            leaving = tuple((name, what) for name, what in others.items() if what in ENDS)
            DECLARED[tag] = DECLARED[cls] = Declaration(
                effect, others, says, effect in BEGINS, leaving
            )
            return self.event(tag, keys=keys or _keys(cls, others))(cls)

        return register

    def plain(self, base: type[P], tag: str, effect: Effect) -> type[P]:
        """Return the event of a kind that adds nothing to the base but its tag."""
        event = msgspec.defstruct(tag, [], bases=(base,), frozen=True, kw_only=True)
        return cast("type[P]", self.about(tag, effect)(event))


def _keys(cls: type, others: Mapping[str, Effect]) -> KeysOf:
    if hasattr(cls, "memory_ids"):
        return attrgetter("memory_ids")
    if not others:
        return lambda event: (event.memory_id,)
    return lambda event: (event.memory_id, *(one for name in others for one in _ids(event, name)))


def _ids(event: object, name: str) -> tuple[str, ...]:
    ids: str | tuple[str, ...] = getattr(event, name)
    return (ids,) if isinstance(ids, str) else ids


def field_naming(event: object, memory_id: str) -> str | None:
    """Return the field by which an event names another memory than the one it is about."""
    if getattr(event, "memory_id", memory_id) == memory_id:
        return None
    others = DECLARED.get(type(event), _UNDECLARED).others
    return next((name for name in others if memory_id in _ids(event, name)), None)


def effect(tag: str, event: object, memory_id: str) -> Effect:
    """Return the effect of an event on a memory that it names; of a dropped one, by its tag."""
    found = DECLARED.get(type(event)) or DECLARED.get(tag, _UNDECLARED)
    field = field_naming(event, memory_id)
    return found.effect if field is None else found.others[field]


def says(event: object, memory_id: str) -> bool:
    """Say whether a change puts words into a memory, or ends what it says."""
    if not DECLARED.get(type(event), _UNDECLARED).says or getattr(event, "spacing", False):
        return False
    own = getattr(event, "memory_id", None) == memory_id
    return own or field_naming(event, memory_id) is not None


def text_bytes(event: object) -> int | None:
    """Return the bytes of an event's text, which decide whether it is stored compressed."""
    known: int | None = getattr(event, "text_bytes", getattr(event, "size_bytes", None))
    return known


def verb_of(tag: str) -> str:
    """Return the last part of a tag: the word for what happened."""
    return tag.rpartition(".")[2]
