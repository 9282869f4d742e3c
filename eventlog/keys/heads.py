"""Heads: where a log and each of its streams stood at one moment, to be published.

Whoever has a head outside the store can prove later that the history up to it is the same: each
stream's chain covers all its events (frame.py), and `digest` covers the chains of all events in
order of position. Erasing and archiving change no chain, so heads outlive them. A head holds no
names. The signature of a file of heads covers the JSON of `Heads` with sorted keys.
"""

from collections.abc import Callable
from pathlib import Path

import msgspec

from eventlog.core.errors import CorruptLog, LogUnavailable
from eventlog.core.records import Head, Heads
from eventlog.files.datafile import reason, write_whole
from eventlog.keys.cryptography import is_signed, sign

FORMAT = 1

Found = Callable[[int, bytes, str], None]
"""(position, stream id, message): takes a finding of a verification."""


class HeadsFile(msgspec.Struct, frozen=True):
    """Heads as they are published."""

    heads: Heads
    signature: str | None = None
    """Ed25519, in hex digits."""


def compare_log(heads: Heads, events: int, digest: str, found: Found) -> None:
    """Report a difference between published heads and the log up to their position.

    `events` is the number of its events up to there, `digest` is over their chains.
    """
    if events < heads.position:
        message = f"the log has {events} events of the {heads.position} that were published"
        found(events, b"", message)
    elif digest != heads.digest:
        found(0, b"", "the log up to the published head is not the one that was published")


def compare_event(head: Head, sid: bytes, position: int, chain: bytes, found: Found) -> None:
    """Report a difference between a published head and the event at its version.

    `chain` is the chain value of that event, empty if there is none.
    """
    if head.version and not chain:
        found(0, sid, f"version {head.version} was published and is not there")
    elif head.version and chain.hex() != head.chain:
        found(position, sid, f"version {head.version} is not the one that was published")


def write_heads(path: Path, heads: Heads, private_key: Path | None = None) -> None:
    """Publish heads in a file, signed if a key is given. Blocks.

    :raises MissingExtra: signing needs a package that is not installed.
    :raises LogUnavailable: the key cannot be read, or the file not be written.
    """
    signature = None if private_key is None else sign(_signed(heads), private_key).hex()
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
    if public_key is not None and not is_signed(_signed(file.heads), signature, public_key):
        raise CorruptLog(f"{path} is not signed by the owner of {public_key}: do not rely on it")
    return file.heads


def _signed(heads: Heads) -> bytes:
    return msgspec.json.encode(heads, order="sorted")
