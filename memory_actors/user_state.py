"""One user's memory: every kind of it, in one stream of events, under one decider.

To add a kind: write its file in `kinds/` and name it in `KINDS`.
"""

import hashlib
from collections.abc import Iterable, Sequence
from itertools import groupby
from types import MappingProxyType
from typing import Any

import msgspec

from eventlog import Decider, EventRegistry, Recorded
from memory_actors.kinds import long_term, short_term, working
from memory_actors.kinds.kind import Command, Kind
from memory_actors.kinds.long_term import LongTerm
from memory_actors.kinds.short_term import ShortTerm
from memory_actors.kinds.working import Working
from memory_actors.quota import Limits

KINDS: tuple[Kind, ...] = (working.KIND, short_term.KIND, long_term.KIND)
KIND_BY_NAME = MappingProxyType({kind.name: kind for kind in KINDS})


class UserState(msgspec.Struct, frozen=True):
    """The state of each kind, by name. Shared freely: nothing in it ever changes."""

    working: Working = Working()
    short_term: ShortTerm = ShortTerm()
    long_term: LongTerm = LongTerm()

    def of(self, kind: Kind) -> Any:
        """Return the state of one kind."""
        return getattr(self, kind.name)


_KIND_OF_EVENT = {cls: kind for kind in KINDS for cls in kind.registry.classes()}
_KIND_OF_COMMAND = {cls: kind for kind in KINDS for cls in kind.commands}


def event_registry() -> EventRegistry:
    """Return a registry of every event a user's stream may hold."""
    registry = EventRegistry()
    for kind in KINDS:
        registry.include(kind.registry)
    return registry


def evolve(state: UserState, recorded: Recorded[Any]) -> UserState:
    """Fold one event into the state of its kind."""
    kind = _KIND_OF_EVENT[type(recorded.data)]
    part = kind.evolve(getattr(state, kind.name), recorded)
    return msgspec.structs.replace(state, **{kind.name: part})


def fold(state: UserState, events: Iterable[Recorded[Any]]) -> UserState:
    """Fold many events, each run of one kind at once."""
    for kind, run in groupby(events, lambda recorded: _KIND_OF_EVENT[type(recorded.data)]):
        part = kind.folded(getattr(state, kind.name), run)
        state = msgspec.structs.replace(state, **{kind.name: part})
    return state


def decide(command: Command, state: UserState, limits: Limits) -> Sequence[Any]:
    """Turn a command into events of its kind."""
    kind = _KIND_OF_COMMAND[type(command)]
    return kind.decide(command, state.of(kind), limits)


def user_decider(limits: Limits) -> Decider[Command, Any, UserState]:
    """Return the decider of a user with these limits."""
    return Decider(UserState(), lambda command, state: decide(command, state, limits), evolve, fold)


# --- snapshots

Dumped = msgspec.defstruct(
    "Dumped", [(kind.name, kind.dumped) for kind in KINDS], frozen=True, module=__name__
)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Dumped)

SNAPSHOT_FINGERPRINT = hashlib.sha256(
    msgspec.json.encode(msgspec.json.schema(Dumped), order="sorted")
).hexdigest()[:16]
"""Changes with any field of the state, so that a snapshot of another shape is never loaded."""


def dump(state: UserState) -> bytes:
    """Return the state as bytes: the same bytes for the same events."""
    return _encoder.encode(Dumped(*(kind.dump(state.of(kind)) for kind in KINDS)))


def load(data: bytes) -> UserState:
    """Return the state from bytes.

    :raises msgspec.DecodeError: they are no such state.
    """
    dumped = _decoder.decode(data)
    return UserState(*(kind.load(getattr(dumped, kind.name)) for kind in KINDS))


def fingerprint(state: UserState) -> str:
    """Return a hash of the state: two states with the same one read the same."""
    return hashlib.sha256(dump(state)).hexdigest()
