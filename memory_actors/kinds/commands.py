"""Commands: requests to change a user's memory, and what most of them are made of.

Each kind has subclasses of these. The name of a command's class is in the meta of its events.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn, Protocol, Self, TypeVar, cast

import msgspec
from msgspec.structs import replace

from eventlog import Dropped, Recorded
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.filters import Predicate
from memory_actors.base.origins import Origins, meta_of
from memory_actors.base.records import Metadata, Right
from memory_actors.kinds.effects import Event


class Outside(Protocol):
    """Knowledge of a live user besides the state: commands ask for it before they are decided."""

    last_use: Mapping[str, int]
    """The memories of a cache that were used, the greater the number the later."""
    read_at_us: Mapping[str, int]
    """The times at which entries of context documents were last read."""

    async def first_events(self, memory_ids: Iterable[str]) -> Mapping[str, object]:
        """Return the event that each memory began with, of those ids that were ever used."""
        ...

    async def events_about(self, memory_ids: Iterable[str]) -> Mapping[str, Any]:
        """Return every event about each memory, in order."""
        ...


class Condition(NamedTuple):
    """A condition on a memory when a command is decided: others may have changed it by then."""

    memory_id: str
    matches: Predicate
    """A test of its metadata, as it is read."""


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """A request to change a user's memory. `now_us` is the only clock a decision knows."""

    background: ClassVar[bool] = False
    """True: its texts can wait for those of other commands."""
    has_words: ClassVar[bool] = True
    """False: it says nothing, so the caller is no origin of its events."""
    frees: ClassVar[bool] = False
    """True: it makes room, and is carried out also where memory or the log is full."""
    rewords: ClassVar[tuple[str, ...]] = ()
    """The fields by which it changes what memory says: those words cannot wait for a review."""
    now_us: int
    condition: Condition | None = None
    """The command is refused where this does not hold."""
    by: tuple[str, ...] = ()
    """The subjects that it is given for, the one that writes first. See grants.py."""
    codes: Mapping[bytes, bytes] | None = None
    """Embeddings of its texts as signed bytes, by the digest of each text. They are compared with
    what was forgotten; None: they were not computed."""

    @property
    def needs(self) -> Right:
        """The right that it takes to give it."""
        return Right.WRITE

    @property
    def waits(self) -> bool:
        """True: what it adds waits for a review."""
        return False

    @property
    def alone(self) -> bool:
        """True: its decision needs the log as the commands before it leave it."""
        return False

    def meta(self, origins: Origins) -> dict[str, str]:
        """Return the meta of its events: the origins of the caller's words."""
        return meta_of(origins) if self.has_words else {}

    async def informed(self, _state: object, _outside: Outside) -> Self:
        """Return the command with what its decision needs to know besides the state of its kind.

        `_state` is that of the whole user.
        """
        return self


class Add(Command, frozen=True, kw_only=True):
    """A command that adds something under an id."""

    own_ids: tuple[str, ...] = ()
    """Ids that the caller chose: they may have been used before."""
    used: Mapping[str, Any] = {}
    """The first event of each of `own_ids` that was, alive or not."""
    expires_at_us: int | None = None
    """The time at which what it adds expires; None: it stays."""
    held_until_us: int | None = None
    """The time until which what it adds waits for a review; None: it needs none."""
    approves: str | None = None
    """The id of the pending memory that it adds."""

    @property
    def needs(self) -> Right:
        """The right that it takes: who approves a pending memory manages the scope."""
        return Right.WRITE if self.approves is None else Right.MANAGE

    @property
    def waits(self) -> bool:
        """True where what it adds needs a review."""
        return self.held_until_us is not None

    @property
    def alone(self) -> bool:
        """True where the caller chose ids."""
        return bool(self.own_ids)

    async def informed(self, _state: object, outside: Outside) -> Self:
        """Return the command with what the log knows of the caller's own ids."""
        if not self.own_ids:
            return self
        return replace(self, used=await outside.first_events(self.own_ids))


class Update(Command, frozen=True, kw_only=True):
    """Replace the content of a memory or its metadata, pin it or not; None keeps what was."""

    rewords: ClassVar[tuple[str, ...]] = ("content", "metadata")
    memory_id: str
    content: str | None = None
    size_bytes: int = 0
    digest: bytes = b""
    metadata: Metadata | None = None
    pinned: bool | None = None


class Delete(Command, frozen=True, kw_only=True):
    """Delete one memory."""

    frees: ClassVar[bool] = True
    memory_id: str


class Restore(Command, frozen=True, kw_only=True):
    """Bring back memories that were pruned, evicted or deleted, all or none."""

    has_words: ClassVar[bool] = False  # they come back with the origins that they had
    memory_ids: tuple[str, ...]
    past: Mapping[str, Sequence[Recorded[Event]]] = {}
    """Every event about each of them, in order."""

    @property
    def alone(self) -> bool:
        """True: what it brings back is in the log."""
        return True

    async def informed(self, _state: object, outside: Outside) -> Self:
        """Return the command with the past of its memories."""
        return replace(self, past=await outside.events_about(self.memory_ids))


C = TypeVar("C", bound=Command)


def plain(base: type[C], name: str) -> type[C]:
    """Return the command of a kind that adds nothing to the base but its name."""
    command = msgspec.defstruct(name, [], bases=(base,), frozen=True, kw_only=True)
    return cast("type[C]", command)


def is_known(
    command: Add,
    memory_id: str,
    living: object | None,
    like: type | tuple[type, ...],
    key: Callable[[Any], object],
    value: object,
) -> bool:
    """Say whether an id stands for what a command adds already, even if that was deleted since.

    `living` has the id now, if anything has. That, or the first event of the id, has to be `like`
    what is added, and have the same `value` of `key`.

    :raises InvalidInputError: it stands for something else.
    """
    first = command.used.get(memory_id)
    first = getattr(first, "words", first)  # of one that waited for a review
    known = living if first is None or isinstance(first, Dropped) else first
    if known is None:  # of a dropped event nobody can tell, and an id is never used again
        return first is not None
    if not isinstance(known, like) or key(known) != value:
        refuse_id(memory_id)
    return True


def refuse_id(memory_id: str) -> NoReturn:
    """Refuse an id of the caller's own that stands for something else."""
    raise InvalidInputError(
        f"memory id {memory_id!r} stands for another memory: update that one, or use a new id"
    )
