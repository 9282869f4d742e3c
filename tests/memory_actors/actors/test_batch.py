"""A batch of commands: when it is full, what it changes, and how its callers are answered."""

import asyncio
from typing import Any

import msgspec
import pytest

from eventlog import EventRegistry
from memory_actors.actors.asking import (
    BATCH_COMMANDS_MAX,
    BATCH_PAYLOAD_BYTES_MAX,
    CommandBatch,
    QueuedRequest,
    Reply,
    Request,
    tentative,
)

registry = EventRegistry()


@registry.event("note.made")
class Made(msgspec.Struct, frozen=True):
    text: str


REPLY = Reply(events=[], before=0, state=1)


@pytest.mark.parametrize(
    ("commands", "payload_bytes", "is_full"),
    [
        (BATCH_COMMANDS_MAX - 1, 0, False),
        (BATCH_COMMANDS_MAX, 0, True),
        (1, BATCH_PAYLOAD_BYTES_MAX, False),
        (1, BATCH_PAYLOAD_BYTES_MAX + 1, True),
    ],
)
def test_a_batch_is_full_by_its_commands_or_by_their_bytes(
    commands: int, payload_bytes: int, is_full: bool
) -> None:
    batch = CommandBatch(state=0, version=0, now_us=0, payload_bytes=payload_bytes)
    asked: Any = None
    batch.outcomes += [(asked, REPLY)] * commands
    assert batch.is_full == is_full


def test_the_changes_of_all_commands_are_added_up() -> None:
    batch = CommandBatch(state=0, version=0, now_us=0)
    batch.changes += [{"a": 2, "b": 1}, {"a": 3, "b": -1}, {"c": -4}]
    assert batch.total_changes() == {"a": 5, "c": -4}


def test_a_tentative_event_is_the_one_to_be_recorded_without_a_position() -> None:
    prepared = registry.prepare(Made("x" * 2000), {"by": "me"})
    event = tentative("s", 7, prepared, 11)
    assert (event.stream, event.version, event.position) == ("s", 7, 0)
    assert (event.recorded_at_us, event.tag, event.data) == (11, "note.made", prepared.event)
    assert (event.raw_bytes, event.stored_bytes) == (len(prepared.raw), len(prepared.body))
    assert event.meta == {"by": "me"}


@pytest.mark.anyio
async def test_an_answered_request_is_not_told_that_it_is_late() -> None:
    loop = asyncio.get_running_loop()
    late: list[str] = []
    alarm = loop.call_later(0, late.append, "late")
    asked = QueuedRequest(Request(command=None), loop.create_future(), alarm, None)

    asked.settle(REPLY)
    await asyncio.sleep(0.01)

    assert await asked.answer is REPLY
    assert not late


@pytest.mark.anyio
async def test_a_caller_who_has_left_is_not_answered() -> None:
    loop = asyncio.get_running_loop()
    asked = QueuedRequest(
        Request(command=None), loop.create_future(), loop.call_later(60, print), None
    )
    asked.answer.cancel()

    asked.settle(ValueError("nobody wants it"))

    assert asked.alarm.cancelled()
    assert asked.answer.cancelled()
