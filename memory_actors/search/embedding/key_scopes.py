"""Owners of embeddings, and the keys under which these lie on disk.

In a store that is not encrypted embeddings are everybody's: they lie in the clear, under the digest
of their text. In an encrypted store each user has their own, encrypted and under a keyed hash of
the digest, so that neither the row nor its name reveals anything without the user's key.

If the store keeps them beside each user's stream (shared.py), each user has their own in any case:
in the clear they lie under a hash of the user and the digest.

A user without a key has no rows on disk. The first text of a new user may be embedded before the
log has made the key: then it is made here, and is durable with the first event (keyfile.py). Only a
live user writes, so nobody whose key is gone gets another one this way.
"""

import hashlib
from typing import Final

from eventlog import Cipher, CorruptLog, KeyGone, Keys
from eventlog.core.frame import stream_id
from memory_actors.base.streams import derived_of

ROW_BYTES = 16  # of a keyed hash: as long as a digest


class KeyScope:
    """Rows that lie in the clear."""

    def row(self, digest: bytes) -> bytes:
        """Return the key of a text's row."""
        return digest

    def written(self, data: bytes, place: bytes) -> bytes:  # noqa: ARG002 - in the clear
        """Encode `data` for a place."""
        return data

    def read(self, data: bytes, place: bytes) -> bytes | None:  # noqa: ARG002 - in the clear
        """Decode the bytes of a place, or return None if they are not readable."""
        return data


class _UsersScope(KeyScope):
    """Rows of one user that lie in the clear."""

    def __init__(self, prefix: bytes):
        self._prefix = prefix

    def row(self, digest: bytes) -> bytes:
        return hashlib.sha256(self._prefix + digest).digest()[:ROW_BYTES]


class _EncryptedScope(KeyScope):
    def __init__(self, cipher: Cipher):
        self._cipher = cipher

    def row(self, digest: bytes) -> bytes:
        return self._cipher.blind(digest)[:ROW_BYTES]

    def written(self, data: bytes, place: bytes) -> bytes:
        return self._cipher.encrypt(data, place)

    def read(self, data: bytes, place: bytes) -> bytes | None:
        try:
            return self._cipher.decrypt(data, place)
        except (CorruptLog, KeyGone):  # derived data: it is as good as absent
            return None


class Owner:
    """The owner of rows that lie in the clear: everybody, or one user, under a `name`."""

    is_encrypted = False
    """True if nobody can read the rows without the user's key."""

    def __init__(self, name: str | None = None):
        self.is_everybody = name is None
        """True if rows are shared."""
        self.prefix = b"" if name is None else stream_id(name)
        """Keeps rows of different owners apart in memory."""
        self._scope = KeyScope() if name is None else _UsersScope(self.prefix)

    def scope(self) -> KeyScope | None:
        """Return where the rows are, None if there can be none."""
        return self._scope

    def scope_to_write(self) -> KeyScope:
        """Return where rows go."""
        return self._scope


class _EncryptedUser(Owner):
    is_encrypted = True

    def __init__(self, keys: Keys, name: str):
        super().__init__(name)
        self._keys = keys
        self._name = name

    def scope(self) -> KeyScope | None:
        has = self._keys.has(self._name)
        return _EncryptedScope(self._keys.cipher(self._name)) if has else None

    def scope_to_write(self) -> KeyScope:
        return _EncryptedScope(self._keys.make(self._name))


EVERYBODY: Final = Owner()


def owner_of(keys: Keys | None, stream: str, *, apart: bool = False) -> Owner:
    """Return the owner of what is derived from a user's stream.

    In a store that is not encrypted that is everybody, unless users' rows are kept `apart`.
    """
    if keys is not None:
        return _EncryptedUser(keys, derived_of(stream))
    return Owner(derived_of(stream)) if apart else EVERYBODY
