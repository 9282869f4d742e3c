"""Ed25519 signatures over bytes, with keys in PEM files.

This file and aes_gcm.py alone import cryptography, which is an extra:
`pip install 'memory-actors[crypto]'`.
"""

import os
from pathlib import Path
from typing import Any

from eventlog.core.errors import LogUnavailable, MissingExtra
from eventlog.files.datafile import reason

PRIVATE_MODE, PUBLIC_MODE = 0o600, 0o644


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


def _loaded(path: Path, load: Any) -> Any:
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
