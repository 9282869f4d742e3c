"""API keys: what one is, how it is recognised, and where they are kept.

Below the server, because erasing a user takes the user's keys away, server or not.

A key is `ma_<id>_<secret>`. The id is public: it is how a key is found, listed and revoked. Only
its owner keeps the secret. The store has the SHA-256 of the whole key: a fast hash is enough, since
256 random bits cannot be guessed.

Keys are kept in `api_keys.json` in the data directory, which is replaced as a whole and under a
lock; a server notices a new version at its next request. If several processes share a store, the
store keeps the keys as one setting, and a server looks for a new version once a second. While the
store is away it believes the keys that it has read, but not for long.
"""

import asyncio
import fcntl
import hashlib
import hmac
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from eventlog import SettingStore
from eventlog.files.datafile import MADE, make_directory, open_regular, read_bytes, write_whole
from memory_actors.base.errors import InvalidInputError, KeyFileError, NotFoundError
from memory_actors.base.records import Tier
from memory_actors.base.shared_setting import SharedSetting
from memory_actors.base.validation import check_member, check_name

FILE, LOCK, SETTING = "api_keys.json", "api_keys.lock", "api keys"
FRESH_S = 1.0
BELIEVED_S = 60.0
"""Keys that were read are believed for so long while the store cannot be asked: a database that is
restarted, or whose standby is promoted, is back by then, and users of other databases need not
wait. Much longer would be too long for who revokes a key."""
LOOK_S = 0.5
"""A look-up that takes longer continues in the background while cached keys are used."""
KEYS_MAX = 10_000  # the file is written as a whole: 3 MB
ID_BYTES, SECRET_BYTES = 8, 32
_PATTERN: Final = re.compile(r"ma_([0-9a-f]{16})_[0-9a-f]{64}")
_NOBODY: Final = "0" * 64  # compared with when there is no such key: it takes as long
_Version = tuple[int, int, int]
_NO_FILE: _Version = (0, 0, 0)


class ApiKey(msgspec.Struct, frozen=True, kw_only=True):
    """One key, as it is kept."""

    id: str
    sha256: str
    """Hex, of the whole key."""
    scope: Literal["user", "root"]
    """A user's key reaches that user's memory, and scopes with a grant for it; root reaches every
    user's, and the admin routes."""
    user_id: str | None = None
    tier: Tier | None = None
    """The tier that the user is given by the first request with this key."""
    tier_is_set: bool = False
    """True once that has been done: a key sets the tier once, and never again."""
    created_at: datetime

    @property
    def is_root(self) -> bool:
        """Say whether it may do everything."""
        return self.scope == "root"

    @property
    def subjects(self) -> tuple[str, ...]:
        """The subjects of grants that it speaks for: its user and itself; of a root key none."""
        return () if self.user_id is None else (f"person:{self.user_id}", f"key:{self.id}")

    def may_reach(self, user_id: str) -> bool:
        """Say whether it opens a user's memory. Ids are compared as they are, never normalised."""
        return self.is_root or (self.user_id is not None and self.user_id == user_id)


def new_key(user_id: str | None, tier: Tier | None, created_at: datetime) -> tuple[str, ApiKey]:
    """Return a new key in clear, to be shown once, and what is kept of it. None: a root key."""
    key_id = secrets.token_hex(ID_BYTES)
    token = f"ma_{key_id}_{secrets.token_hex(SECRET_BYTES)}"
    kept = ApiKey(
        id=key_id,
        sha256=_digest(token),
        scope="root" if user_id is None else "user",
        user_id=user_id,
        tier=tier,
        created_at=created_at,
    )
    return token, kept


def id_in(token: str) -> str | None:
    """Return the id in a key, None if it is not even written like one."""
    match = _PATTERN.fullmatch(token)
    return match[1] if match else None


def matches(token: str, key: ApiKey | None) -> bool:
    """Say whether a token is this key, in a time that says nothing about where they differ."""
    same = hmac.compare_digest(_digest(token), key.sha256 if key is not None else _NOBODY)
    return same and key is not None


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


# --- where they are kept


class _KeyFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    version: int = 1
    keys: list[ApiKey] = []


Change: TypeAlias = Callable[[Sequence[ApiKey]], list[ApiKey]]


class _InFile:
    """The keys of a data directory, in a file of it."""

    def __init__(self, directory: Path):
        self.path = directory / FILE

    def __str__(self) -> str:
        return str(self.path)

    async def refresh(self) -> None:
        """Return: each look at the file is a fresh one."""

    def look_again(self) -> None:
        """Return: each look at the file is a fresh one."""

    def version(self) -> _Version:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return _NO_FILE
        return found.st_ino, found.st_mtime_ns, found.st_size

    def read(self) -> bytes | None:
        try:
            return read_bytes(self.path)
        except FileNotFoundError:
            return None

    def change(self, change: Callable[[bytes | None], bytes]) -> None:
        with self._locked():
            write_whole(self.path, msgspec.json.format(change(self.read())))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_directory(self.path.parent)
        descriptor = open_regular(self.path.with_name(LOCK), os.O_RDWR | MADE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _heard(look: asyncio.Task[None]) -> None:
    if not look.cancelled():
        look.exception()


class _InStore:
    """The keys of a store that several processes share, in a setting of it.

    On the loop it tells what was there when it was last `refresh`ed; in a thread it asks the store.
    """

    def __init__(self, store: SettingStore):
        self._setting = SharedSetting(store, SETTING)
        self._loop_thread = threading.get_ident()
        self._seen: bytes | None = None
        self._fresh_until_s = self._believed_until_s = 0.0
        self._refreshing: asyncio.Task[None] | None = None

    def __str__(self) -> str:
        return "the database"

    async def refresh(self) -> None:
        """Look for a new version, if the last look was a second ago. Who comes meanwhile waits.

        If that takes long, or fails, the cached keys stay valid for a while.

        :raises LogUnavailable: the store is away, and was for longer.
        """
        while time.monotonic() >= self._fresh_until_s:
            if self._refreshing is None:
                self._refreshing = asyncio.create_task(self._refresh())
                self._refreshing.add_done_callback(_heard)
            looking, left_s = self._refreshing, self._believed_until_s - time.monotonic()
            if left_s <= 0:
                await asyncio.shield(looking)
                continue
            await asyncio.wait([looking], timeout=LOOK_S)
            if self._believed_until_s and (not looking.done() or looking.exception() is not None):
                self._fresh_until_s = time.monotonic() + min(FRESH_S, left_s)

    async def _refresh(self) -> None:
        try:
            found = await self._setting.store.load_setting(SETTING)
            if self._refreshing is asyncio.current_task():  # else it began before `look_again`
                now_s = time.monotonic()
                self._seen, self._fresh_until_s = found, now_s + FRESH_S
                self._believed_until_s = now_s + BELIEVED_S
        finally:
            if self._refreshing is asyncio.current_task():
                self._refreshing = None

    def look_again(self) -> None:
        """Have the next `refresh` look, and trust no look that has begun."""
        self._fresh_until_s = self._believed_until_s = 0.0
        self._refreshing = None

    def version(self) -> bytes | None:
        return self.read()

    def read(self) -> bytes | None:
        is_on_loop = threading.get_ident() == self._loop_thread
        return self._seen if is_on_loop else self._setting.load()

    def change(self, change: Callable[[bytes | None], bytes]) -> None:
        while True:
            before = self._setting.load()
            after = change(before)
            if self._setting.save(after, before):
                self.look_again()
                return


class KeyStore:
    """The API keys of one data directory, or of a store that is open and keeps settings.

    Safe to use from several threads and processes. For an open store, create it on the loop of that
    store; there `find` knows what the last `refresh` found, and all else is for other threads.
    """

    def __init__(self, where: str | Path | SettingStore):
        self._place: _InFile | _InStore
        self._place = _InFile(Path(where)) if isinstance(where, str | Path) else _InStore(where)
        self._seen: tuple[object, dict[str, ApiKey]] = (_NO_FILE, {})

    @property
    def path(self) -> Path:
        """The file of the keys.

        :raises InvalidInputError: they are in a store that keeps settings.
        """
        if isinstance(self._place, _InStore):
            raise InvalidInputError("these keys are in the store, and in no file")
        return self._place.path

    async def refresh(self) -> None:
        """See that `find` knows what others did a second ago or earlier."""
        await self._place.refresh()

    def look_again(self, _erased: str | None = None) -> None:
        """See that the next `refresh` finds all that others did: a user was erased, say."""
        self._place.look_again()

    def create(self, user_id: str | None, tier: Tier | str | None = None) -> tuple[str, ApiKey]:
        """Make a key for a user, or a root key for None; return it in clear, this once.

        :raises InvalidInputError: a bad user id or tier, a root key with a tier, too many keys.
        """
        if user_id is not None:
            check_name(user_id, "user_id")
        elif tier is not None:
            raise InvalidInputError("a root key has no tier: give a user, or leave the tier out")
        wanted = None if tier is None else check_member(Tier, tier, "tier")
        token, key = new_key(user_id, wanted, datetime.now(UTC))

        def with_one_more(keys: Sequence[ApiKey]) -> list[ApiKey]:
            if len(keys) >= KEYS_MAX:
                raise InvalidInputError(f"there are {KEYS_MAX:,} keys already: revoke some first")
            return [*keys, key]

        self._change(with_one_more)
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
        self._change(
            lambda keys: [
                msgspec.structs.replace(key, tier_is_set=True) if key.id == key_id else key
                for key in keys
            ]
        )

    def _current(self) -> dict[str, ApiKey]:
        """Return the keys by id; reads them only when they are others than last time."""
        try:
            version = self._place.version()
            if version != self._seen[0]:
                keys = self._decoded(self._place.read())
                self._seen = version, {key.id: key for key in keys}
        except OSError as error:
            raise self._unreadable(error) from error
        return self._seen[1]

    def _decoded(self, kept: bytes | None) -> list[ApiKey]:
        try:
            return [] if kept is None else msgspec.json.decode(kept, type=_KeyFile).keys
        except ValueError as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> KeyFileError:
        return KeyFileError(
            f"the keys in {self._place} cannot be read ({error}): restore them, or delete them and "
            "make new keys"
        )

    def _change(self, change: Change) -> None:
        try:
            self._place.change(
                lambda kept: msgspec.json.encode(_KeyFile(keys=change(self._decoded(kept))))
            )
        except OSError as error:
            raise KeyFileError(f"the keys in {self._place} cannot be written: {error}") from error


class WithSessionKey(KeyStore):
    """The keys of a store, and a root key that is kept nowhere: it ends with the process."""

    def __init__(self, where: str | Path | SettingStore):
        super().__init__(where)
        self.token, self._session_key = new_key(None, None, datetime.now(UTC))

    def find(self, token: str) -> ApiKey | None:
        """Return the key that a token is, None for none."""
        return self._session_key if matches(token, self._session_key) else super().find(token)
