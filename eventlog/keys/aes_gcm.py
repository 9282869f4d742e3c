"""AES-256-GCM under a key for each stream.

This file and signing.py alone import cryptography, which is an extra:
`pip install 'memory-actors[crypto]'`.

    encrypted = key's name 8 | nonce 12 | ciphertext | tag 16

From the key of an owner, 32 random bytes, three keys are derived for each stream (HMAC-SHA256 over
a label and the stream's id): one encrypts, one hashes names, one makes the name that a ciphertext
carries. Streams of one owner therefore have separate nonce spaces, and a ciphertext under a deleted
and recreated key is recognised: its key is gone, and it is not damaged.

Nonces. GCM is broken by two different messages under one nonce. A nonce that follows from the
version of an event would repeat: an append that failed is tried again under the same version, with
other content or at another version; a transaction that was rolled back is run again; a backup that
was restored goes on from an earlier version, under the same key. No stored data could reveal a
repetition, because earlier ciphertexts may only exist in a backup. Therefore each encryption draws
96 random bits for its own nonce. By NIST SP 800-38D at most 2**32 messages may be encrypted so
under one key (the chance of a repetition is then 2**-33): `ENCRYPTIONS_MAX` events of a stream
leave half of that to snapshots and to what had to be tried again.
"""

import hmac
import os
from typing import Any

from eventlog.core.errors import CorruptLog, KeyGone, MissingExtra

KEY_BYTES = 32
NAME_BYTES = 8
NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD_BYTES = NAME_BYTES + NONCE_BYTES + TAG_BYTES


class StreamCipher:
    """Encrypts for one stream under its owner's key. See `eventlog.core.keys.Cipher`."""

    def __init__(self, key: bytes, sid: bytes):
        """Derive what is needed; raises MissingExtra if cryptography is not installed."""
        self._aead = _aesgcm()(_derived(key, b"encrypt", sid))
        self._blinding = _derived(key, b"blind", sid)
        self._name = _derived(key, b"name", sid)[:NAME_BYTES]

    def encrypt(self, data: bytes, place: bytes) -> bytes:
        """Return `data` encrypted, `OVERHEAD_BYTES` longer, to be opened at this place only."""
        nonce = os.urandom(NONCE_BYTES)
        encrypted: bytes = self._aead.encrypt(nonce, data, place)
        return b"".join((self._name, nonce, encrypted))

    def decrypt(self, encrypted: bytes, place: bytes) -> bytes:
        """Return the plaintext of the data encrypted at this place. Raises as the port says."""
        if len(encrypted) < OVERHEAD_BYTES:
            raise CorruptLog(f"what is encrypted is cut short: {len(encrypted)} bytes")
        if encrypted[:NAME_BYTES] != self._name:
            raise KeyGone(
                "it was written under another key, which is not in the key file: that was erased, "
                "or the file is not the one this was written with"
            )
        nonce = encrypted[NAME_BYTES : NAME_BYTES + NONCE_BYTES]
        try:
            data: bytes = self._aead.decrypt(nonce, encrypted[NAME_BYTES + NONCE_BYTES :], place)
        except _invalid_tag() as error:
            raise CorruptLog(
                "it does not decrypt: it is not what was written at this place; restore a backup"
            ) from error
        return data

    def blind(self, data: bytes) -> bytes:
        """Return a keyed hash, 32 bytes."""
        return hmac.digest(self._blinding, data, "sha256")


def _derived(key: bytes, label: bytes, sid: bytes) -> bytes:
    return hmac.digest(key, label + b":" + sid, "sha256")


def check_installed() -> None:
    """Refuse to go on without the library.

    :raises MissingExtra: cryptography is not installed.
    """
    _aesgcm()


def _aesgcm() -> Any:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ImportError as error:
        raise MissingExtra(
            "encryption needs cryptography: run `pip install 'memory-actors[crypto]'`"
        ) from error
    return AESGCM


def _invalid_tag() -> type[Exception]:
    from cryptography.exceptions import InvalidTag

    return InvalidTag
