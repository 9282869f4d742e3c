"""Heads: where a log and each of its streams stood at one moment, to be published.

Whoever has a head outside the store can prove later that the history up to it is the same, event
for event and in the same order: each stream's chain covers all its events (frame.py), and `digest`
covers the chains of all events in order of position. `verify` shows that the chains follow from
what is stored, and `check_heads` that they are those that were published. Erasing and archiving
change no chain, so heads outlive them. A head holds no names: streams are there under their ids.

A file of heads may be signed (signing.py). The signature covers the JSON of `Heads` with sorted
keys.
"""

import hashlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.records import Head, Heads
from eventlog.files.datafile import reason, write_whole
from eventlog.keys import signing
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.tables import U64, stream_records

FORMAT = 1

Found = Callable[[int, bytes, str], None]
"""(position, stream id, message): takes a finding of a verification."""


class HeadsFile(msgspec.Struct, frozen=True):
    """Heads as they are published."""

    heads: Heads
    signature: str | None = None
    """Ed25519, in hex digits."""


def read_heads(env: Environment, txn: Transaction, now_us: int) -> Heads:
    """Return where the log stands in a transaction. Reads all of it."""
    digest, position = _digest(env, txn)
    streams = {
        sid.hex(): Head(record.version, record.chain.hex())
        for sid, record in stream_records(env, txn)
    }
    return Heads(FORMAT, now_us, position, digest, streams)


def _digest(env: Environment, txn: Transaction, until: int | None = None) -> tuple[str, int]:
    """Return the digest over the chains of all events up to a position, and their number."""
    digest, count = hashlib.sha256(), 0
    with txn.cursor(env.tables["events"]) as cursor:
        for data in islice(cursor.iternext(keys=False, values=True), until):
            digest.update(frame.chain_of(data))
            count += 1
    return digest.hexdigest(), count


def check_heads(env: Environment, txn: Transaction, heads: Heads, found: Found) -> None:
    """Report each difference between the log and its published heads."""
    digest, count = _digest(env, txn, max(heads.position, 0))
    if count < heads.position:
        found(count, b"", f"the log has {count} events of the {heads.position} that were published")
    elif digest != heads.digest:
        found(0, b"", "the log up to the published head is not the one that was published")
    for name, head in heads.streams.items():
        _check_stream(env, txn, bytes.fromhex(name), head, found)


def _check_stream(env: Environment, txn: Transaction, sid: bytes, head: Head, found: Found) -> None:
    if head.version == 0:
        return
    at = txn.get(sid + U64.pack(head.version), db=env.tables["versions"])
    data = None if at is None else txn.get(at, db=env.tables["events"])
    if at is None or data is None:
        found(0, sid, f"version {head.version} was published and is not there")
    elif frame.chain_of(data).hex() != head.chain:
        found(U64.unpack(at)[0], sid, f"version {head.version} is not the one that was published")


# --- files


def write_heads(path: Path, heads: Heads, private_key: Path | None = None) -> None:
    """Publish heads in a file, signed if a key is given. Blocks.

    :raises MissingExtra: signing needs a package that is not installed.
    :raises LogUnavailable: the key cannot be read, or the file not be written.
    """
    signature = None if private_key is None else signing.sign(_signed(heads), private_key).hex()
    data = msgspec.json.format(msgspec.json.encode(HeadsFile(heads, signature)))
    try:
        write_whole(path, data)
    except (OSError, ValueError) as error:
        raise LogUnavailable(f"cannot write {str(path)!r:.200}: {reason(error)}") from error


def load_heads(path: Path, public_key: Path | None = None) -> Heads:
    """Return the heads in a file; with a key, only those that its owner has signed. Blocks.

    :raises LogUnavailable: the file or the key cannot be read.
    :raises CorruptLog: they are not signed, or not by the owner of the key, or were changed since.
    :raises MissingExtra: checking a signature needs a package that is not installed.
    """
    try:
        file = msgspec.json.decode(path.read_bytes(), type=HeadsFile)
        signature = bytes.fromhex(file.signature or "")
        for name, head in file.heads.streams.items():
            bytes.fromhex(name + head.chain)
    except (OSError, ValueError, RecursionError) as error:
        raise LogUnavailable(f"{path} is no file of heads: {error}") from error
    if file.heads.format != FORMAT:
        raise LogUnavailable(f"{path} has format {file.heads.format}, not {FORMAT}: upgrade")
    if public_key is not None and not signing.is_signed(_signed(file.heads), signature, public_key):
        raise CorruptLog(f"{path} is not signed by the owner of {public_key}: do not rely on it")
    return file.heads


def _signed(heads: Heads) -> bytes:
    return msgspec.json.encode(heads, order="sorted")
