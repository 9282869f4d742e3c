"""Export and import of what a log got since a position: a file that another log appends.

    magic "EVEXPORT" | message | message | ... | SHA-256 of all of that

A message is `length u32 | msgpack`: where it begins, each stream with something new, each event as
a frame with its payload or as the stub of an erased one, idempotency keys, and where it ends.
`digest` at the end is over the chains of all events from the first one on: with it the importing
log checks before any write that it has the same past. An erasure travels with the next export.
"""

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import msgspec

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, LogUnavailable, PayloadDropped
from eventlog.core.frame import Frame
from eventlog.core.records import Exported
from eventlog.core.rows import unseal_record
from eventlog.files.datafile import is_there, opened, reason, storing, written_whole
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import load_totals
from eventlog.lmdb.opening import Files
from eventlog.lmdb.reading import refilled
from eventlog.lmdb.segment import SegmentId
from eventlog.lmdb.tables import U64, RequestRecord, scan, stream_records

FORMAT = 1
PROGRESS_EVENTS = 256
MESSAGE_BYTES_MAX = 32 << 20  # an event is at most 16 MiB, its frame a little more

_MAGIC = b"EVEXPORT"
_LENGTH = struct.Struct(">I")
_DIGEST_BYTES = 32


class Begin(msgspec.Struct, frozen=True, tag=True):
    """The start of a file: the position after which it continues the log."""

    format: int
    since: int
    made_at_us: int


class Stream(msgspec.Struct, frozen=True, tag=True):
    """A stream with something new."""

    sid: bytes
    name: str
    epoch: int
    erased_version: int
    erased_at_us: int


class Event(msgspec.Struct, frozen=True, tag=True):
    """An event."""

    position: int
    data: bytes
    """Its frame."""


class Key(msgspec.Struct, frozen=True, tag=True):
    """An idempotency key, as it is stored."""

    key: bytes
    data: bytes


class End(msgspec.Struct, frozen=True, tag=True):
    """The end of a log that has all of it."""

    position: int
    digest: bytes
    totals: dict[str, int]


Message = Begin | Stream | Event | Key | End
_encode = msgspec.msgpack.Encoder().encode
_decode: Callable[[bytes], Message] = msgspec.msgpack.Decoder(Message).decode


def write_export(
    files: Files, path: Path, since: int, now_us: int, progress: Progress | None = None
) -> Exported:
    """Write the events after a position to a new file. Blocks. See `ExportingStore`.

    `progress(done, total)` counts the events of the whole log, for all of them are read.
    """
    if is_there(path):
        raise LogUnavailable(f"{path} is there already: give the export another name")
    with storing(path), written_whole(path) as out, files.env.read() as txn:
        position = _write(out, _messages(files, txn, since, now_us, progress))
    return Exported(str(path), since, position, position - since, path.stat().st_size)


def _write(out: BinaryIO, messages: Iterator[Message]) -> int:
    """Write messages; return the position in the last one."""
    digest, position = hashlib.sha256(_MAGIC), 0
    out.write(_MAGIC)
    for message in messages:
        body = _encode(message)
        data = _LENGTH.pack(len(body)) + body
        digest.update(data)
        out.write(data)
        position = message.position if isinstance(message, End) else position
    out.write(digest.digest())
    return position


def _messages(
    files: Files, txn: Transaction, since: int, now_us: int, progress: Progress | None
) -> Iterator[Message]:
    last = files.ledger.tail(txn).position
    if not 0 <= since <= last:
        raise LogUnavailable(f"the log has {last} events: nothing was written behind {since}")
    yield Begin(FORMAT, since, now_us)
    streams: dict[bytes, Stream] = {}
    for sid, one in stream_records(txn):
        at = txn.get(sid + U64.pack(one.version), U64.pack(0), db=txn.tables["versions"])
        if U64.unpack(at)[0] > since or one.erased_version:
            erased = one.erased_version, one.erased_at_us
            streams[sid] = Stream(sid, one.name, one.epoch, *erased)
            yield streams[sid]
    digest = hashlib.sha256()
    for position, data in files.reading.frames(txn):
        digest.update(frame.chain_of(data))
        if position > since:
            yield Event(position, _whole(files, txn, position, data, streams))
        if progress is not None and (position % PROGRESS_EVENTS == 0 or position == last):
            progress(position, last)
    for key, value in scan(txn, "requests", b""):
        if unseal_record(value, RequestRecord, "an idempotency key").last_position > since:
            yield Key(key, value)
    yield End(last, digest.digest(), load_totals(txn))


def _whole(
    files: Files, txn: Transaction, position: int, data: bytes, streams: Mapping[bytes, Stream]
) -> bytes:
    """Return a frame with its payload in it, wherever that lies; of an erased stream, its stub."""
    taken = frame.unpack(position, data)
    stream = streams[taken.stream_id]
    if taken.version <= stream.erased_version:  # also where the erasure is not finished yet
        return frame.erased(position, data, stream.erased_at_us)
    if taken.place is None:
        return data
    since = files.reading.dropped_now(SegmentId(taken.stream_id, taken.place.number))
    if since is not None:
        name = files.ledger.stream_record(txn, taken.stream_id).name
        raise PayloadDropped(name, taken.version, since.since_us)
    return refilled(files.archive, position, data, taken)


# --- reading


def read_export(path: Path) -> Iterator[Message]:
    """Yield what is in a file. Blocks.

    :raises LogUnavailable: it cannot be read, or is of a newer format.
    :raises CorruptLog: it is not what was written; that may show at the end only.
    """
    try:
        with opened(path) as file:
            yield from _read(file, path)
    except (OSError, ValueError) as error:
        raise LogUnavailable(f"cannot read {str(path)!r:.200}: {reason(error)}") from error


def unpacked(path: Path, event: Event) -> Frame:
    """Take the frame of an event in a file apart.

    :raises CorruptLog: it is not what was written.
    :raises UnknownEvent: it was written in a newer format.
    """
    with found_in(path):
        return frame.unpack(event.position, event.data)


@contextmanager
def found_in(path: Path) -> Iterator[None]:
    """Add the file's name to errors about damage."""
    try:
        yield
    except CorruptLog as error:
        raise CorruptLog(f"{path} is damaged, export it again ({error})") from error


def _read(file: BinaryIO, path: Path) -> Iterator[Message]:
    digest = hashlib.sha256()

    def take(size: int) -> bytes:
        data = file.read(size)
        if len(data) != size:
            raise CorruptLog(f"{path} is cut short: export it again")
        digest.update(data)
        return data

    if take(len(_MAGIC)) != _MAGIC:
        raise LogUnavailable(f"{path} is no export of a log")
    message: Message | None = None
    while not isinstance(message, End):
        first, message = message is None, _message(take, path)
        if isinstance(message, Begin) != first:
            raise CorruptLog(f"{path} does not begin as an export, or does so twice")
        yield message
    expected = digest.digest()
    if file.read(_DIGEST_BYTES + 1) != expected:
        raise CorruptLog(f"{path} is damaged: export it again")


def _message(take: Callable[[int], bytes], path: Path) -> Message:
    (size,) = _LENGTH.unpack(take(_LENGTH.size))
    if size > MESSAGE_BYTES_MAX:
        raise CorruptLog(f"{path} is damaged: a message of {size} bytes")
    try:
        message = _decode(take(size))
    except (ValueError, RecursionError) as error:
        raise CorruptLog(f"{path} is damaged: {error}") from error
    if isinstance(message, Begin) and message.format != FORMAT:
        raise LogUnavailable(f"{path} has format {message.format}, not {FORMAT}: upgrade")
    return message
