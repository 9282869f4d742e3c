"""Where API keys are kept: `api_keys.json` in the data directory, beside the log, never in it.

The file is readable by its owner only and is replaced as a whole, so a reader sees all of an old
version or all of a new one. Whoever changes it holds a lock meanwhile: `memory-actors keys` may run
beside the server, which notices a new version at its next request.
"""

import fcntl
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from eventlog.files.datafile import make_directory, write_whole
from eventlog.files.regular import MADE, open_regular, read_bytes
from memory_actors.base.api_keys.keys import ApiKey, id_in, matches, new_key
from memory_actors.base.errors import InvalidInputError, MemoryActorsError, NotFoundError
from memory_actors.base.records import Tier
from memory_actors.base.validation import check_name, check_tier

FILE, LOCK = "api_keys.json", "api_keys.lock"
KEYS_MAX = 10_000  # the file is written as a whole: 3 MB
_Version = tuple[int, int, int]
_NO_FILE: _Version = (0, 0, 0)


class KeyFileError(MemoryActorsError):
    """The file of API keys cannot be read or written: the message says which and why."""


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    keys: list[ApiKey] = []


class KeyStore:
    """The API keys of one data directory. Safe to use from several threads and processes."""

    def __init__(self, directory: str | Path):
        self.path = Path(directory) / FILE
        self._seen: tuple[_Version, dict[str, ApiKey]] = (_NO_FILE, {})

    def create(self, user_id: str | None, tier: Tier | str | None = None) -> tuple[str, ApiKey]:
        """Make a key for a user, or a root key for None; return it in clear, this once.

        :raises InvalidInputError: a bad user id or tier, a root key with a tier, too many keys.
        """
        if user_id is not None:
            check_name(user_id, "user_id")
        elif tier is not None:
            raise InvalidInputError("a root key has no tier: give a user, or leave the tier out")
        wanted = None if tier is None else check_tier(tier)
        token, key = new_key(user_id, wanted, datetime.now(UTC))
        self._change(lambda keys: _with_one_more(keys, key))
        return token, key

    def all(self) -> list[ApiKey]:
        """Return every key, oldest first."""
        return sorted(self._current().values(), key=lambda key: key.created_at)

    def revoke(self, key_id: str) -> ApiKey:
        """Delete a key: from the next request on it opens nothing.

        :raises NotFoundError: there is no key with this id.
        """
        revoked: list[ApiKey] = []

        def without(keys: Sequence[ApiKey]) -> list[ApiKey]:
            revoked.extend(key for key in keys if key.id == key_id)
            if not revoked:
                raise NotFoundError(
                    f"there is no key {key_id!r:.80}: see `memory-actors keys list`"
                )
            return [key for key in keys if key.id != key_id]

        self._change(without)
        return revoked[0]

    def revoke_all(self, user_id: str) -> int:
        """Delete every key of a user; return how many there were."""
        gone = sum(key.user_id == user_id for key in self._current().values())
        if gone:
            self._change(lambda keys: [key for key in keys if key.user_id != user_id])
        return gone

    def find(self, token: str) -> ApiKey | None:
        """Return the key that a token is, None for none."""
        key = self._current().get(id_in(token) or "")
        return key if matches(token, key) else None

    def note_tier_is_set(self, key_id: str) -> None:
        """Remember that a key has set its user's tier."""

        def noted(keys: Sequence[ApiKey]) -> list[ApiKey]:
            return [
                msgspec.structs.replace(key, tier_is_set=True) if key.id == key_id else key
                for key in keys
            ]

        self._change(noted)

    # --- the file

    def _current(self) -> dict[str, ApiKey]:
        """Return the keys by id; reads the file only when it is another one than last time."""
        version = self._version()
        if version != self._seen[0]:
            self._seen = version, {key.id: key for key in self._read()}
        return self._seen[1]

    def _version(self) -> _Version:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return _NO_FILE
        except OSError as error:
            raise KeyFileError(f"the keys in {self.path} cannot be read: {error}") from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> list[ApiKey]:
        try:
            return msgspec.json.decode(read_bytes(self.path), type=_File).keys
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            raise KeyFileError(
                f"the keys in {self.path} cannot be read ({error}): restore the file, or delete it "
                "and make new keys"
            ) from error

    def _change(self, change: Callable[[Sequence[ApiKey]], list[ApiKey]]) -> None:
        try:
            with self._locked():
                self._write(change(self._read()))
        except OSError as error:
            raise KeyFileError(f"the keys in {self.path} cannot be written: {error}") from error

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_directory(self.path.parent)
        descriptor = open_regular(self.path.with_name(LOCK), os.O_RDWR | MADE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _write(self, keys: Sequence[ApiKey]) -> None:
        """Replace the file, readable by its owner only."""
        write_whole(self.path, msgspec.json.format(msgspec.json.encode(_File(keys=list(keys)))))


def _with_one_more(keys: Sequence[ApiKey], key: ApiKey) -> list[ApiKey]:
    if len(keys) >= KEYS_MAX:
        raise InvalidInputError(f"there are {KEYS_MAX:,} keys already: revoke some first")
    return [*keys, key]
