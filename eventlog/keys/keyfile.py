"""The file of keys: a key for each owner of streams. If you lose it, you lose the data.

    magic "EVKEYS01" | identity 16 | crc u32 | record | record | ...
    record: owner's stream id 16 | key 32 | crc u32

All integers are big-endian. The CRC of a record begins with the identity, which the log remembers.

A key is made by appending a record, which is synced before anything under it is committed. A crash
may tear the records of the last append, and nothing was acknowledged under them; a disk may damage
a record in the same way. The log tells the two apart: a record is passed over if every stream that
has something to read has its key elsewhere in the file. Otherwise the file is refused.

A key is deleted by writing the whole file anew without it; the bytes of the old file are
overwritten then, as well as the disk lets a program do that. One process has the file open.
"""

import os
import secrets
import stat
import struct
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from eventlog.core.errors import DiskFull, KeyGone, KeysUnavailable, StorageFailed
from eventlog.core.frame import STREAM_ID_BYTES, stream_id
from eventlog.core.logs import get_logger
from eventlog.files import datafile
from eventlog.files.datafile import opened as opened_file
from eventlog.keys.cryptography import KEY_BYTES, StreamCipher, check_installed

MODE = 0o600
IDENTITY_BYTES = 16
CIPHERS_MAX = 4_096  # held, some 2 KB each; one is derived in 7 us

_MAGIC = b"EVKEYS01"
_CRC = struct.Struct(">I")
_HEAD_BYTES = len(_MAGIC) + IDENTITY_BYTES + _CRC.size
_RECORD = struct.Struct(f">{STREAM_ID_BYTES}s{KEY_BYTES}s")
_RECORD_BYTES = _RECORD.size + _CRC.size

_logger = get_logger("eventlog")


class KeyFile:
    """The keys in a file. `owner(stream)` names the stream whose key a stream is under.

    Hold it by `opened`. May be asked from any thread.
    """

    def __init__(self, path: Path, owner: Callable[[str], str] = str):
        self.path = path
        self._owner = owner
        self._identity = b""
        self._keys: dict[bytes, bytes] = {}
        """By the stream id of the owner."""
        self._fresh: dict[bytes, bytes] = {}
        """Made and not in the file yet."""
        self._gone: set[bytes] = set()
        """Owners of streams that have something to read, and no key here."""
        self._end = 0
        """The place of the next record."""
        self._ciphers: dict[str, StreamCipher] = {}
        self._lock = threading.Lock()
        self._held: int | None = None

    # --- the log's file of keys

    def attach(self, identity: bytes | None, streams: Iterable[str] = ()) -> bytes:
        """Read the file; make it for a new log. See `eventlog.core.keys.Keys.attach`.

        :raises KeysUnavailable: the file is missing, damaged, another log's, or open to others.
        :raises LogLocked: another process has it open.
        :raises MissingExtra: cryptography is not installed.
        """
        check_installed()
        there = datafile.is_there(self.path)
        if there:
            self._check_magic()
        if identity is not None and not there:
            raise KeysUnavailable(
                f"the store is encrypted, and its keys are not in {self.path}: put the file back, "
                "or say where it is; without it the data cannot be read by anybody"
            )
        with datafile.storing(self.path):
            datafile.make_directory(self.path.parent)
            if self._held is None:
                self._held = datafile.lock(datafile.beside(self.path, ".lock"))
            if not there:
                datafile.write_whole(self.path, _head(secrets.token_bytes(IDENTITY_BYTES)))
        bad = self._load()
        if identity and identity != self._identity:
            raise KeysUnavailable(f"{self.path} has the keys of another store: name the right file")
        self._gone = {stream_id(self._owner(stream)) for stream in streams} - self._keys.keys()
        if bad:
            self._pass_over(bad, is_known=bool(identity))
        return self._identity

    @property
    def is_attached(self) -> bool:
        """True if a log has asked for these keys."""
        return self._held is not None

    def close(self) -> None:
        """Let go of the file, and of the keys."""
        self._keys.clear()
        self._ciphers.clear()
        if self._held is not None:
            datafile.unlock(self._held)
            self._held = None

    def _check_magic(self) -> None:
        """See that nothing is said of, or put beside, a file that is something else."""
        try:
            with opened_file(self.path) as file:
                magic = file.read(len(_MAGIC))
        except OSError as error:
            raise KeysUnavailable(f"cannot read {self.path}: {error.strerror}") from error
        if magic != _MAGIC:
            raise KeysUnavailable(
                f"{self.path} is no file of keys, or its head is damaged: name the right file, or "
                "put a copy of it back"
            )

    def _load(self) -> list[int]:
        """Read the file; return where it has a record that is not whole."""
        try:
            with opened_file(self.path) as file:
                mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
                data = file.read()
        except OSError as error:
            raise KeysUnavailable(f"cannot read {self.path}: {error.strerror}") from error
        if mode != MODE:
            raise KeysUnavailable(
                f"{self.path} has mode {mode:04o}, so others may read the keys, or its owner may "
                f"not write them: run `chmod 600 {self.path}`"
            )
        identity = data[len(_MAGIC) : _HEAD_BYTES - _CRC.size]
        if data[:_HEAD_BYTES] != _head(identity):
            raise KeysUnavailable(
                f"{self.path} is damaged (its head): put a copy of it back; without one, what is "
                "under its keys is lost"
            )
        places = range(_HEAD_BYTES, len(data), _RECORD_BYTES)
        records = {at: self._taken(identity, data[at : at + _RECORD_BYTES]) for at in places}
        self._identity, self._end = identity, _HEAD_BYTES + _RECORD_BYTES * len(places)
        self._keys = dict(record for record in records.values() if record is not None)
        return [at for at, record in records.items() if record is None]

    def _pass_over(self, bad: list[int], *, is_known: bool) -> None:
        """Go on without records that are not whole, if it is known that none of them is missed."""
        if is_known and not self._gone:
            _logger.warning("torn keys are passed over", file=str(self.path), keys=len(bad))
            return
        first = bad[0]
        is_last = first + _RECORD_BYTES * len(bad) == self._end
        raise KeysUnavailable(
            f"{self.path} is damaged (the record at byte {first}), and a key that is in use may be "
            "in it: put a copy of it back"
            + is_last
            * f"; without one, what is under that key is lost, and `truncate -s {first} "
            f"{self.path}` lets the rest be read"
        )

    def _taken(self, identity: bytes, record: bytes) -> tuple[bytes, bytes] | None:
        """Return owner and key in a record, None if it is not whole."""
        owner, key = _RECORD.unpack(record[: _RECORD.size].ljust(_RECORD.size))
        return (owner, key) if record == self._record(identity, owner, key) else None

    @staticmethod
    def _record(identity: bytes, owner: bytes, key: bytes) -> bytes:
        record = _RECORD.pack(owner, key)
        return record + _CRC.pack(zlib.crc32(record, zlib.crc32(identity)))

    # --- keys

    def cipher(self, stream: str) -> StreamCipher:
        """Return the cipher of a stream that was written to.

        :raises KeyGone: its key is not here.
        """
        found = self._ciphers.get(stream)
        if found is not None:
            return found
        with self._lock:
            key = self._key(stream)
            if key is None:
                raise self._key_gone(stream)
            return self._derived(stream, key)

    def _key_gone(self, stream: str) -> KeyGone:
        return KeyGone(
            f"the key of stream {stream!r} is not in {self.path}: it was erased, or this is an "
            "older file of keys; what was written under it cannot be read"
        )

    def has(self, stream: str) -> bool:
        """Say whether the key of a stream is here, and durable."""
        return stream_id(self._owner(stream)) in self._keys

    def make(self, stream: str) -> StreamCipher:
        """Return the cipher of a stream; its key is made if it is not here. See `sync`.

        :raises KeyGone: it was made before, and is not here.
        """
        with self._lock:
            key = self._key(stream)
            if key is None and stream_id(self._owner(stream)) in self._gone:
                raise self._key_gone(stream)
            if key is None:
                key = secrets.token_bytes(KEY_BYTES)
                self._fresh[stream_id(self._owner(stream))] = key
            return self._derived(stream, key)

    def _key(self, stream: str) -> bytes | None:
        sid = stream_id(self._owner(stream))
        return self._keys.get(sid) or self._fresh.get(sid)

    def _derived(self, stream: str, key: bytes) -> StreamCipher:
        if stream not in self._ciphers:
            if len(self._ciphers) >= CIPHERS_MAX:
                self._ciphers.clear()
            self._ciphers[stream] = StreamCipher(key, stream_id(stream))
        return self._ciphers[stream]

    def sync(self) -> None:
        """Append the keys that were made, and sync the file. See the port."""
        if not self._fresh:
            return
        with self._lock:
            fresh, self._fresh = self._fresh, {}
            try:
                with datafile.storing(self.path):
                    self._append(fresh)
            except (DiskFull, StorageFailed):
                self._ciphers.clear()  # those of keys that are nowhere now
                raise
            self._keys |= fresh

    def _append(self, fresh: dict[bytes, bytes]) -> None:
        records = b"".join(self._record(self._identity, *made) for made in fresh.items())
        with opened_file(self.path, os.O_RDWR) as file:
            file.seek(self._end)
            file.write(records)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
        self._end += len(records)

    def forget(self, sid: bytes) -> bool:
        """Delete the key of the owner whose stream has this id, for good; say if there was one."""
        with self._lock, datafile.storing(self.path):
            if self._fresh.pop(sid, None) is not None:
                self._ciphers.clear()  # else the next key that is made would not be the one in use
            self._gone.discard(sid)
            if sid not in self._keys:
                return False
            left = {owner: key for owner, key in self._keys.items() if owner != sid}
            with opened_file(self.path, os.O_RDWR) as old:
                records = (self._record(self._identity, *kept) for kept in left.items())
                datafile.write_whole(self.path, b"".join((_head(self._identity), *records)))
                with suppress(OSError):  # the file is gone: this is about what the disk still has
                    os.pwrite(old.fileno(), bytes(os.fstat(old.fileno()).st_size), 0)
                    os.fsync(old.fileno())
            self._keys, self._end = left, _HEAD_BYTES + _RECORD_BYTES * len(left)
            self._ciphers.clear()
            return True


@contextmanager
def opened(path: Path, owner: Callable[[str], str] = str) -> Iterator[KeyFile]:
    """Hold a file of keys, to be given to `EventLog.open`; nothing is read or made before that."""
    keys = KeyFile(path, owner)
    try:
        yield keys
    finally:
        keys.close()


def _head(identity: bytes) -> bytes:
    head = _MAGIC + identity
    return head + _CRC.pack(zlib.crc32(head))
