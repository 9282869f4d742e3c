"""The port of encryption: all that a log asks of the keys that it was opened with.

The log knows streams and bytes. Which streams share a key, where keys lie and what they encrypt
with is for the keys to say (keyfile.py, cryptography.py). Encrypted are payloads, each alone, after
compression; snapshots; and names in the index of keys, which are keyed hashes. In the clear stay
names of streams, types, times, sizes, positions and totals.

A ciphertext is bound to its place: stream, version, type and schema are authenticated with it. A
log that is encrypted takes no payload that is not.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from eventlog.core.errors import KeyGone

ENCRYPTIONS_MAX = 2**31
"""Events of a stream under one key: see cryptography.py."""


class Cipher(Protocol):
    """Encrypts for one stream."""

    def encrypt(self, data: bytes, place: bytes) -> bytes:
        """Return `data` encrypted, to be opened at this place only. Never twice the same bytes."""

    def decrypt(self, encrypted: bytes, place: bytes) -> bytes:
        """Return the plaintext of the data encrypted at this place.

        :raises KeyGone: it was encrypted under a key that is not there any more.
        :raises CorruptLog: it is not what was encrypted at this place.
        """

    def blind(self, data: bytes) -> bytes:
        """Return a keyed hash, 32 bytes: the same for the same data."""


class Keys(Protocol):
    """The keys of a log's streams. May be asked from any thread."""

    def attach(self, identity: bytes | None, streams: Iterable[str] = ()) -> bytes:
        """Become the keys of a log that says whose it is; of a new one, if None.

        An empty identity means that the log has lost it: then the keys must exist, whosever.
        `streams` are those of the log that have something to read, which was acknowledged.
        Return the identity that the log remembers, empty for a log that is not to be encrypted.

        :raises KeysUnavailable: these are not its keys, or they cannot be used.
        """

    def cipher(self, stream: str) -> Cipher:
        """Return the cipher of a stream that was written to.

        :raises KeyGone: its key is not here.
        """

    def has(self, stream: str) -> bool:
        """Say whether the key of a stream is here."""

    def make(self, stream: str) -> Cipher:
        """Return the cipher of a stream; its key is made if it is not here. See `sync`.

        :raises KeyGone: keys are not made here, or it was made before and is not here.
        """

    def sync(self) -> None:
        """Make the keys durable that were made. Called before anything under them is committed.

        :raises DiskFull, StorageFailed: they are not, and are forgotten.
        """

    def forget(self, sid: bytes) -> bool:
        """Delete the key of the stream with this id, for good; say whether it had one of its own.

        :raises DiskFull, StorageFailed: it may still be there: repeat it.
        """


class _NoKeys:
    """No keys: an encrypted log can be verified, copied and exported, and nothing of it read."""

    def attach(self, identity: bytes | None, streams: Iterable[str] = ()) -> bytes:  # noqa: ARG002
        return identity or b""

    def cipher(self, stream: str) -> Cipher:
        raise KeyGone(f"stream {stream!r} cannot be read: the log was opened without its keys")

    def has(self, stream: str) -> bool:  # noqa: ARG002 - the port's
        return False

    def make(self, stream: str) -> Cipher:
        raise KeyGone(f"stream {stream!r} takes no writes: the log was opened without its keys")

    def sync(self) -> None:
        pass

    def forget(self, sid: bytes) -> bool:
        raise KeyGone(f"the key of stream {sid.hex()} is not here: open the log with its keys")


NO_KEYS: Final[Keys] = _NoKeys()
"""For who verifies or copies a log, encrypted or not, and reads nothing of it."""
