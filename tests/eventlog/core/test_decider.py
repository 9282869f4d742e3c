"""The pure heart of an aggregate."""

from collections.abc import Sequence

import msgspec
import pytest
from support.in_memory_log import InMemoryLog

from eventlog import Decider, EventRegistry, Recorded

registry = EventRegistry()


@registry.event("door.opened")
class Opened(msgspec.Struct, frozen=True):
    by: str


@registry.event("door.closed")
class Closed(msgspec.Struct, frozen=True):
    pass


def decide(command: str, is_open: bool) -> Sequence[Opened | Closed]:
    if command == "break":
        raise ValueError("a door is not broken")
    if is_open == (command == "open"):
        return ()
    return [Opened("me") if command == "open" else Closed()]


def evolve(_is_open: bool, event: Recorded[Opened | Closed]) -> bool:
    return isinstance(event.data, Opened)


DOOR = Decider(initial=False, decide=decide, evolve=evolve)


async def recorded(*events: Opened | Closed) -> list[Recorded[Opened | Closed]]:
    log = InMemoryLog(registry)
    await log.append("door", events, 0)
    return await log.read_stream("door")


@pytest.mark.anyio
async def test_a_fold_may_start_anywhere():
    """A fold may start anywhere, and ends in the same state."""
    events = await recorded(Opened("a"), Closed(), Opened("b"))

    for split in range(4):
        assert DOOR.fold(events[split:], DOOR.fold(events[:split])) == DOOR.fold(events)


@pytest.mark.anyio
async def test_decide_evolve_and_decide_again():
    (event,) = await recorded(*DOOR.decide("open", DOOR.initial))

    assert DOOR.decide("open", DOOR.fold([event])) == ()
    assert DOOR.decide("close", DOOR.fold([event])) == [Closed()]
