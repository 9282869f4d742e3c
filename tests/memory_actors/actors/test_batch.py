"""A batch of commands: when it is full, what it changes, and how its callers are answered."""

from typing import Any

import msgspec
import pytest

from eventlog import EventRegistry
from memory_actors.actors.asking import (
    BATCH_COMMANDS_MAX,
    BATCH_PAYLOAD_BYTES_MAX,
    CommandBatch,
    Reply,
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
