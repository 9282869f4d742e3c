"""Derived data of a user, beside their stream in the store: for the node that has them next.

A node has embeddings and index files on its own disk, as a cache that may be deleted at any time.
If the store keeps derived data (`DerivingStore`), it has the same bytes as pieces:

    e + key             an embedding, as in the table of vectors, encrypted if that is
    f + name            the version of a file, and the place of its bytes
    f + name + 0 + ...  its bytes, in chunks

Saving follows behind writes and is tried again while the database is away. Nothing rests on it:
what is not there is derived again. Only the user's owner saves, under the epoch of the stream. One
that was fenced, or whose user was erased, is told so by the first save, and saves no more.

A file of several chunks takes several calls. They go to the slot that the file before does not lie
in, and the last call says so: a reader finds the one or the other, whole.
"""

import asyncio
import struct
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from itertools import islice
from typing import NamedTuple

import anyio.to_thread

from eventlog import CorruptLog, DerivingStore, EventLogError, LogClosed
from eventlog.core.logs import get_logger
from eventlog.core.rows import seal, unseal
from memory_actors.base.privacy import hashed, reason
from memory_actors.base.streams import user_of
from memory_actors.search.embedding.protocol import Embedded

SAVE_BEHIND_S = 0.05  # what comes within it goes in one call
SAVED_AT_ONCE = 512  # embeddings in one call: half a megabyte
WAITING_MAX = 16_384  # embeddings of a user that wait: some 20 MB; of more some are derived again
RETRY_S = 1.0  # after the store could not save
LEAVE_S = 4.0  # for what waits when the user is put away: closing gives it 5 s
CHUNK_BYTES = 8 << 20

_EMBEDDING, _FILE = b"e", b"f"
_HEAD = struct.Struct(">QBI")
_CHUNK = struct.Struct(">BBI")
_logger = get_logger("memory_actors.search.embedding")

Seal = Callable[[Mapping[bytes, Embedded | None]], dict[bytes, bytes | None]]
"""(embedding by digest) -> what lies in the table of vectors, by key; None stays None. Slow."""


class FileHead(NamedTuple):
    """The version of a file that the store has, and its place."""

    version: int
    slot: int
    chunks: int


class SharedDerived:
    """The pieces of one user, read-only until `own` is called."""

    def __init__(self, store: DerivingStore, stream: str, seal: Seal):
        self._store = store
        self._stream = stream
        self._seal = seal
        self._epoch: int | None = None
        """The epoch of the stream, while this node has it."""
        self._waiting: dict[bytes, Embedded | None] = {}
        """By digest, in the order they came. A value of None is a deletion."""
        self._saver: asyncio.Task[None] | None = None
        self._hurry = asyncio.Event()

    def own(self, epoch: int) -> None:
        """Save from now on, as the owner of the stream under an epoch."""
        self._epoch = epoch

    # --- embeddings

    async def embeddings(self, keys: Collection[bytes]) -> dict[bytes, bytes]:
        """Return the store's embeddings under keys of the table of vectors.

        :raises EventLogError: it cannot be read.
        """
        pieces = await self._store.load_derived(self._stream, [_EMBEDDING + key for key in keys])
        return {name.removeprefix(_EMBEDDING): piece for name, piece in pieces.items()}

    def put(self, embedded: Mapping[bytes, Embedded | None]) -> None:
        """Take embeddings, by digest, to be saved soon; None to be deleted."""
        if self._epoch is None or not embedded:
            return
        room = WAITING_MAX - len(self._waiting)
        if room < len(embedded):
            self._log("embeddings not shared", count=len(embedded) - room)
        self._waiting |= islice(embedded.items(), max(room, 0))
        if len(self._waiting) >= SAVED_AT_ONCE:
            self._hurry.set()
        if self._saver is None or self._saver.done():
            self._saver = asyncio.create_task(self._save_waiting())

    async def _save_waiting(self) -> None:
        is_failing = False
        while self._waiting:
            with suppress(TimeoutError):
                async with asyncio.timeout(RETRY_S if is_failing else SAVE_BEHIND_S):
                    await self._hurry.wait()
            batch = dict(islice(self._waiting.items(), SAVED_AT_ONCE))
            try:
                sealed = await anyio.to_thread.run_sync(self._seal, batch)
                await self._save({_EMBEDDING + key: value for key, value in sealed.items()})
            except EventLogError as error:
                self._hurry.clear()
                if not is_failing:
                    self._log("embeddings not shared yet", reason=reason(error))
                is_failing = True
                continue
            is_failing = False
            for digest, one in batch.items():
                if digest in self._waiting and self._waiting[digest] is one:  # else: a later one
                    del self._waiting[digest]
            if len(self._waiting) < SAVED_AT_ONCE:
                self._hurry.clear()

    async def _save(self, pieces: Mapping[bytes, bytes | None]) -> None:
        """Save pieces, if this node has the stream; let go of it where the store says it has not.

        :raises EventLogError: the store cannot save now.
        """
        if self._epoch is None or not pieces:
            return
        try:
            kept = await self._store.save_derived(self._stream, pieces, epoch=self._epoch)
        except LogClosed:
            kept = False
        if not kept:
            self._disown()

    def _disown(self) -> None:
        self._epoch = None
        self._waiting.clear()

    async def leave(self) -> None:
        """Save what waits, for a few seconds at most, and nothing more."""
        if self._saver is not None and not self._saver.done():
            self._hurry.set()
            await asyncio.wait([self._saver], timeout=LEAVE_S)
        if self._waiting:
            self._log("embeddings not shared", count=len(self._waiting))
        await self.drop()

    async def drop(self) -> None:
        """Save nothing more; nothing is under way any more when this returns."""
        self._disown()
        while self._saver is not None and not self._saver.done():
            self._saver.cancel()  # psycopg may take that for the end of a query alone
            await asyncio.wait([self._saver], timeout=SAVE_BEHIND_S)

    def _log(self, event: str, **facts: object) -> None:
        _logger.warning(event, user=hashed(user_of(self._stream)), **facts)

    # --- files

    async def file_head(self, name: str) -> FileHead | None:
        """Return the version of a file in the store, or None if it has none.

        :raises EventLogError: it cannot be read.
        """
        named = _FILE + name.encode()
        found = await self._store.load_derived(self._stream, [named])
        try:
            return FileHead(*_HEAD.unpack(unseal(found[named], "the head of a file", named)))
        except (CorruptLog, KeyError):
            return None

    async def file(self, name: str, head: FileHead) -> bytes:
        """Return the bytes of a file; not all of them if there is another one meanwhile.

        :raises EventLogError: it cannot be read.
        """
        names = [_chunk_name(name, head.slot, number) for number in range(head.chunks)]
        chunks = await self._store.load_derived(self._stream, names)
        return b"".join(chunks.get(one, b"") for one in names)

    async def save_file(self, name: str, version: int, data: bytes) -> None:
        """Keep a file at a version, in the place of the one before it.

        It is only logged if that cannot be: the next one will be kept.
        """
        if self._epoch is None:
            return
        try:
            await self._save_file(name, version, data)
        except EventLogError as error:
            self._log("index file not shared", reason=reason(error))

    async def _save_file(self, name: str, version: int, data: bytes) -> None:
        before, named = await self.file_head(name), _FILE + name.encode()
        slot = 0 if before is None else 1 - before.slot
        starts = range(0, len(data), CHUNK_BYTES)
        for number, start in enumerate(starts[:-1]):
            chunk = data[start : start + CHUNK_BYTES]
            await self._save({_chunk_name(name, slot, number): chunk})
        old = () if before is None else range(before.chunks)
        last = len(starts) - 1
        await self._save(
            {_chunk_name(name, 1 - slot, number): None for number in old}
            | {_chunk_name(name, slot, last): data[starts[last] :]}
            | {named: seal(_HEAD.pack(version, slot, len(starts)), named)}
        )


def _chunk_name(name: str, slot: int, number: int) -> bytes:
    return _FILE + name.encode() + _CHUNK.pack(0, slot, number)
