"""The place of the keys of an encrypted store: one for each user, in a file beside the store.

The format of the file, and what holds of it, is in eventlog/keys/keyfile.py; what is encrypted, in
eventlog/core/keys.py and docs/security.md.
"""

from pathlib import Path

from eventlog.files.datafile import beside, named
from memory_actors.base.settings import Encrypt


def default_key_file(directory: str | Path) -> Path:
    """Return where the keys of a store are, if nobody says otherwise: `memory.keys` for `memory`.

    The file is beside the directory, so that backups and copies of the directory do not contain the
    keys.
    """
    return beside(named(directory).resolve(), ".keys")


def key_file_of(directory: str | Path, encrypt: Encrypt) -> Path | None:
    """Return where the keys of a store are, None if it is not encrypted."""
    if isinstance(encrypt, bool):
        return default_key_file(directory) if encrypt else None
    return Path(encrypt)


def known_key_file(directory: str | Path, named: str | Path | None) -> Path | None:
    """Return where the keys of a store are: as named, else beside it; or None if there are none."""
    if named is not None:
        return Path(named)
    beside_it = default_key_file(directory)
    return beside_it if beside_it.exists() else None
