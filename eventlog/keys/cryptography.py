"""All that uses cryptography: AES-256-GCM under a key for each stream, and Ed25519 signatures.

This file alone imports cryptography, which is an extra: `pip install 'memory-actors[crypto]'`.

    encrypted = key's name 8 | nonce 12 | ciphertext | tag 16

From the key of an owner, 32 random bytes, three keys are derived for each stream: one encrypts, one
hashes names, one makes the name by which a ciphertext under a deleted key is recognised.

GCM is broken by two messages under one nonce, and the version of an event would repeat as one:
after a failed append, a rollback or a restored backup. Therefore nonces are 96 random bits. By NIST
SP 800-38D at most 2**32 messages may be encrypted so under one key: `ENCRYPTIONS_MAX` events leave
half of that to snapshots and repeated attempts.
"""

import hmac
import os
from pathlib import Path
from typing import Any

from eventlog.core.errors import CorruptLog, KeyGone, LogUnavailable, MissingExtra
from eventlog.files.datafile import reason

KEY_BYTES = 32
NAME_BYTES = 8
NONCE_BYTES = 12
TAG_BYTES = 16
OVERHEAD_BYTES = NAME_BYTES + NONCE_BYTES + TAG_BYTES
PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o644


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
        from cryptography.exceptions import InvalidTag

        nonce = encrypted[NAME_BYTES : NAME_BYTES + NONCE_BYTES]
        try:
            data: bytes = self._aead.decrypt(nonce, encrypted[NAME_BYTES + NONCE_BYTES :], place)
        except InvalidTag as error:
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


# --- signatures, with keys in PEM files


def new_key(private_key: Path, public_key: Path) -> None:
    """Make a pair of keys in two new files; the private one is for its owner only.

    :raises LogUnavailable: one of the files is there already, or cannot be made.
    """
    ed25519, serialization = _library()
    made = ed25519.Ed25519PrivateKey.generate()
    secret = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    known = made.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for path, data, mode in (
        (private_key, secret, PRIVATE_MODE),
        (public_key, known, PUBLIC_MODE),
    ):
        try:
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        except (OSError, ValueError) as error:
            raise LogUnavailable(f"cannot make {str(path)!r:.200}: {reason(error)}") from error
        with os.fdopen(fd, "wb") as file:
            file.write(data)


def sign(data: bytes, private_key: Path) -> bytes:
    """Return the signature of a key over bytes.

    :raises LogUnavailable: there is no Ed25519 key in the file.
    """
    ed25519, serialization = _library()
    key = _loaded(private_key, lambda pem: serialization.load_pem_private_key(pem, None))
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise LogUnavailable(f"{private_key} holds no private Ed25519 key")
    signature: bytes = key.sign(data)
    return signature


def is_signed(data: bytes, signature: bytes, public_key: Path) -> bool:
    """Say whether the owner of a key has signed these bytes.

    :raises LogUnavailable: there is no Ed25519 key in the file.
    """
    ed25519, serialization = _library()
    key = _loaded(public_key, serialization.load_pem_public_key)
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise LogUnavailable(f"{public_key} holds no public Ed25519 key")
    from cryptography.exceptions import InvalidSignature

    try:
        key.verify(signature, data)
    except InvalidSignature:
        return False
    return True


def _loaded(path: Path, load: Any) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        return load(path.read_bytes())
    except (OSError, TypeError, ValueError, UnsupportedAlgorithm) as error:
        raise LogUnavailable(f"{path} holds no readable key: {error}") from error


def _library() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise MissingExtra(
            "signatures need cryptography: run `pip install 'memory-actors[crypto]'`"
        ) from error
    return ed25519, serialization
