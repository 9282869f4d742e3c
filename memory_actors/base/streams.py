"""The names of a user's streams in the log, and who is known there."""

from eventlog import EventStore, StreamHead
from memory_actors.base.errors import NotFoundError

STREAM_PREFIX = "user:"
RECALL_PREFIX = "recall:"
DERIVED_PREFIX = "derived:"
"""Prefix of names for encrypting data derived from a user's memories. No stream has it."""


def stream_of(user_id: str) -> str:
    """Return the name of a user's stream."""
    return STREAM_PREFIX + user_id


def is_user_stream(stream: str) -> bool:
    """Say whether it is the stream of a user's memory."""
    return stream.startswith(STREAM_PREFIX)


def user_of(stream: str) -> str:
    """Return the user of a stream."""
    return stream.removeprefix(STREAM_PREFIX)


def recall_stream_of(user_id: str) -> str:
    """Return the name of the stream that says what was returned to whom of a user's memory."""
    return RECALL_PREFIX + stream_of(user_id)


def derived_of(stream: str) -> str:
    """Return the name under which what is derived from a user's stream is encrypted."""
    return DERIVED_PREFIX + stream


def key_owner(stream: str) -> str:
    """Return the user's stream under whose key something is encrypted: a user has one key."""
    return stream.removeprefix(RECALL_PREFIX).removeprefix(DERIVED_PREFIX)


async def known_user(log: EventStore, stream: str) -> StreamHead:
    """Return the end of a user's stream.

    :raises NotFoundError: they never had a memory, or all of it is erased, which reads the same.
    """
    await log.flush()  # working memory is acknowledged before it is in the log
    head = await log.head(stream)
    if head.is_empty:
        raise NotFoundError(f"no user {user_of(stream)!r}: they never had a memory")
    return head


async def known_users(log: EventStore) -> list[str]:
    """Return the id of every user who ever had a memory, sorted."""
    await log.flush()  # as above
    return sorted(user_of(stream) for stream in await log.streams() if is_user_stream(stream))
