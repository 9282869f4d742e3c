"""Snapshots: the state of a user as bytes. They are derived: all events say the same."""

import hashlib
from collections.abc import Mapping
from typing import Any

import anyio.to_thread
import msgspec

from eventlog import EventStore
from eventlog.core.logs import get_logger
from memory_actors.base.compressing import Pieces, compressed, compressed_pieces, decompressed
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.streams import user_of
from memory_actors.kinds import long_term
from memory_actors.kinds.user_state import PARTS, UserState

_logger = get_logger("memory_actors.user")

UserDump = msgspec.defstruct(
    "UserDump", [(part.NAME, part.Dump) for part in PARTS], frozen=True, module=__name__
)
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(UserDump)


class _Written(msgspec.Struct, array_like=True):
    """A snapshot as it is written: an activation reads few of the rows."""

    rest: bytes
    """The state without its long-term rows, compressed."""
    rows: tuple[bytes, ...]
    """Pieces of these."""


def _shape(schema: object, classes: Mapping[str, object]) -> object:
    """Return a JSON schema without the names and docstrings of classes, which may change freely."""
    if isinstance(schema, list | tuple):
        return [_shape(one, classes) for one in schema]
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _shape(classes[schema["$ref"].removeprefix("#/$defs/")], classes)
    said = ("title", "description")
    return {
        key: _shape(value, classes)
        for key, value in schema.items()
        if key != "$defs" and not (key in said and isinstance(value, str))
    }


def fingerprint_of(packed_row: type) -> str:
    """Return the fingerprint of a state whose long-term rows, bytes in a dump, are of a class."""
    schemas, classes = msgspec.json.schema_components((UserDump, packed_row))
    shapes = msgspec.json.encode(_shape(list(schemas), classes), order="sorted")
    return hashlib.sha256(shapes).hexdigest()[:16]


SNAPSHOT_FINGERPRINT = fingerprint_of(long_term.MemoryRow)
"""Changes with any field of the state, so that a snapshot of another shape is never loaded."""


def _dumped(state: UserState) -> Any:
    return UserDump(*(part.dump(state.of(part)) for part in PARTS))


def _with_rows(dumped: Any, rows: bytes | Pieces) -> Any:
    replace, memories = msgspec.structs.replace, dumped.long_term
    return replace(dumped, long_term=replace(memories, rows=replace(memories.rows, rows=rows)))


def dump(state: UserState) -> bytes:
    """Return the state as a snapshot has it. Slow: for a thread."""
    dumped = _dumped(state)
    rest = compressed(_encoder.encode(_with_rows(dumped, b"")))
    return _encoder.encode(_Written(rest, compressed_pieces(dumped.long_term.rows.rows)))


def load(data: bytes) -> UserState:
    """Return the state from bytes that `dump` made. Slow: for a thread.

    :raises ValueError: they are no such state.
    """
    written = msgspec.msgpack.decode(data, type=_Written)
    dumped = _with_rows(_decoder.decode(decompressed(written.rest)), Pieces(written.rows))
    return UserState(*(part.load(getattr(dumped, part.NAME)) for part in PARTS))


def in_one_piece(state: UserState) -> UserState:
    """Return an equal state that takes less memory. Slow: for a thread."""
    return msgspec.structs.replace(state, long_term=long_term.KIND.in_one_piece(state.long_term))


def over(now: UserState, then: UserState, packed: UserState) -> UserState:
    """Return a state as changes of the one that `in_one_piece` made of what it was `then`."""
    rows = long_term.KIND.over(now.long_term, then.long_term, packed.long_term)
    return msgspec.structs.replace(now, long_term=rows)


async def load_snapshot(
    log: EventStore, stream: str, until: int | None = None
) -> tuple[UserState, int] | None:
    """Return the newest state that was kept of a stream, up to a version, and its version.

    :raises ValueError: its bytes are no such state.
    """
    snapshot = await log.load_snapshot(stream, SNAPSHOT_FINGERPRINT, until=until)
    if snapshot is None:
        return None
    return await anyio.to_thread.run_sync(load, snapshot.data), snapshot.version


async def fold_start(
    log: EventStore, stream: str, erased: int, until: int | None = None
) -> tuple[UserState, int]:
    """Return a state and its version, behind which the events up to `until` are still to fold.

    That is the newest snapshot, or nothing at the version up to which the stream is erased.
    """
    try:
        kept = await load_snapshot(log, stream, until)
    except ValueError as error:
        _logger.warning("snapshot ignored", user=hashed(user_of(stream)), error=reason(error))
        kept = None
    return kept or (UserState(), erased)


def fingerprint(state: UserState) -> str:
    """Return a hash of the state: two states with the same one read the same."""
    return hashlib.sha256(_encoder.encode(_dumped(state))).hexdigest()
