"""Copying the streams of a shard that moves: as they are, and then what has changed.

A stream is copied as it is at a mark: version, epoch, how far it is erased, its archive, snapshots
and pieces. Nothing is kept under a mark before it was read back, its chain was checked, and its
rows were counted at both places. Of a stream that is erased meanwhile, the new place takes nothing
any more that is older than that.

The statements are in shard_rows.py.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

import msgspec

from eventlog.core import frame
from eventlog.core.capabilities import Progress
from eventlog.core.errors import CorruptLog, MoveTakenOver
from eventlog.postgres.arrays import Bytes, Ints
from eventlog.postgres.database import Database, Row, cancel_all
from eventlog.postgres.shard_rows import (
    ARCHIVE,
    CHAIN_AT,
    COPIED,
    COUNTS,
    COUNTS_FIXED,
    DROP_PIECES,
    EVENTS,
    HEADS,
    IS_MINE,
    KEEP,
    KEYS,
    PIECES,
    PUT_PIECES,
    READ_PIECES,
    RECEIVE,
    REQUESTS,
    SIDS,
    SNAPSHOTS,
    CopiedTable,
)

EVENTS_AT_ONCE = 256
ROWS_AT_ONCE = 1024
PIECES_AT_ONCE = 64
STREAMS_AT_ONCE = 6  # fewer than a pool has connections
HEADS_AT_ONCE = 1024
TIME_MIN, VERSION_MAX = -(2**63), 2**63 - 1

T = TypeVar("T")
Counted: TypeAlias = Callable[[str], Awaitable[Mapping[str, int]]]
"""Says what a stream has added to the totals of the old place."""


class _StreamMark(msgspec.Struct, frozen=True, array_like=True):
    """The numbers of which one changes when anything of a stream does."""

    version: int
    epoch: int
    erased_version: int
    erased_at: int
    archived: int
    archived_at: int
    snapshot: int
    pieces: int

    def copied_from(self, before: "_StreamMark | None") -> int:
        """Return the version up to which nothing but the end has changed since another mark."""
        if before is None:
            return 0
        same = [getattr(one, name) for one in (self, before) for name in _REWRITTEN]
        return before.version if same[: len(_REWRITTEN)] == same[len(_REWRITTEN) :] else 0


_REWRITTEN = ("erased_version", "erased_at", "archived", "archived_at")


class _StreamHead(NamedTuple):
    sid: bytes
    name: bytes | None
    version: int
    epoch: int
    stored_bytes: int
    chain: bytes
    recorded_at: int
    erased_version: int
    erased_at: int
    archived: int
    archived_at: int
    snapshot: int
    pieces: int

    @property
    def mark(self) -> _StreamMark:
        return _StreamMark(self.version, self.epoch, *self[7:])


class _Changed(Exception):
    """A stream has changed at either place while it was copied, or the mover: look again."""


class ShardCopy:
    """Copies the streams of one shard."""

    def __init__(
        self,
        shard: int,
        databases: tuple[Database, Database],
        counted: Counted,
        progress: Progress,
    ):
        """Take a shard, its old and new place, and what says what a stream has in the totals."""
        self.events = 0
        """The number of events that were copied."""
        self.streams = 0
        """The number of streams that the old place had when they were last looked at."""
        self.mover = b""
        """The name of the mover, as both places know it."""
        self._step = 0
        self.differed: set[bytes] = set()
        """Streams that had other rows than the old place when they were last copied."""
        self._shard = shard
        self._old, self._new = databases
        self._counted = counted
        self._progress = progress

    async def changed(self) -> int:
        """Copy every stream that has changed since it was last copied; return how many had.

        :raises MoveTakenOver: another mover goes on.
        :raises CorruptLog: what has arrived is not what is at the old place.
        """
        heads, copied = await self._heads(), await self._new.run(COPIED, [self._shard])
        self.streams, self._step = len(heads), max([self._step, *(row[4] for row in copied)])
        known = {
            sid: msgspec.json.decode(mark, type=_StreamMark) for sid, mark, *_ in copied if mark
        }
        if known.keys() - {head.sid for head in heads}:
            raise CorruptLog(
                f"of shard {self._shard} there are streams that the old place has not: verify that"
            )
        changed = [head for head in heads if head.mark != known.get(head.sid)]
        done, turns = len(heads) - len(changed), asyncio.Semaphore(STREAMS_AT_ONCE)

        async def one(head: _StreamHead) -> None:
            nonlocal done
            async with turns:
                try:
                    await self._copy(head, known.get(head.sid))
                except _Changed:
                    await self._check_mover()
                    return
            done += 1
            self._progress(done, len(heads))

        await all_of([one(head) for head in changed])
        return len(changed)

    async def _heads(self) -> list[_StreamHead]:
        """Return the streams of the old place, read in parts, however many there are."""
        sids = [sid for [sid] in await self._old.run(SIDS, [self._shard])]
        return [
            _StreamHead(*row)
            for start in range(0, len(sids), HEADS_AT_ONCE)
            for row in await self._old.run(HEADS, [Bytes(sids[start : start + HEADS_AT_ONCE])])
        ]

    async def _check_mover(self) -> None:
        if not await self._new.run(IS_MINE, [self._shard, self.mover]):
            raise MoveTakenOver(self._shard)

    def _next(self, head: _StreamHead) -> list[Any]:
        """Return the values of `TAKEN` for the next step of copying a stream."""
        self._step += 1
        step = self._step
        return [self._shard, self.mover, step, head.sid, head.erased_version, step]

    async def _copy(self, head: _StreamHead, before: _StreamMark | None) -> None:
        """Copy a stream as it is at its mark, and keep that only once it was read back."""
        after = head.mark.copied_from(before)
        counts = await self._count(head)
        await self._copy_events(head, after)
        for table in (ARCHIVE, KEYS, REQUESTS, SNAPSHOTS):
            await self._copy_rows(table, head, after)
        await self._copy_pieces(head)
        mark, step = await self._counted_mark(head, after), self._next(head)
        values = [
            *step[:3], msgspec.json.encode(mark), head.name, head.epoch, head.stored_bytes,
            head.recorded_at, head.erased_at, Bytes(name.encode() for name in counts),
            Ints(counts.values()), *step[3:],
        ]  # fmt: skip
        if not await self._new.run(KEEP, values):
            raise _Changed

    async def _counted_mark(self, head: _StreamHead, after: int) -> _StreamMark:
        """Count what was copied at both places; return the mark that it may be kept under.

        Here, and not when the shard has left: its users would wait for the count of all its rows.
        Rows that differ are copied anew once, as an erasure that came late may have deleted some.
        If the old place has other snapshots and pieces by now, the mark says to copy these again.

        :raises CorruptLog: they differ again, and nothing has changed.
        """
        [mine] = await self._old.run(COUNTS, _ranges(head, after, head.version))
        [there] = await self._new.run(COUNTS, _ranges(head, after, VERSION_MAX))
        if mine == there:
            self.differed.discard(head.sid)
            return head.mark
        [now] = await self._old.run(HEADS, [Bytes([head.sid])])
        has_changed = _StreamHead(*now).mark != head.mark
        if has_changed and mine[:COUNTS_FIXED] == there[:COUNTS_FIXED]:
            return msgspec.structs.replace(head.mark, pieces=-1)
        if not has_changed and head.sid in self.differed:
            raise CorruptLog(
                f"of a stream of shard {self._shard} there are rows {there} where the old place "
                f"has {mine}: verify that, and move it again"
            )
        self.differed.add(head.sid)
        raise _Changed

    async def _count(self, head: _StreamHead) -> dict[str, int]:
        if head.name is None or head.version == head.erased_version:
            return {}
        return {k: n for k, n in (await self._counted(head.name.decode())).items() if n}

    async def _copy_events(self, head: _StreamHead, after: int) -> None:
        sid, chain = head.sid, frame.chain_start(head.sid)
        if after:
            [[header]] = await self._new.run(CHAIN_AT, [sid, after])
            chain = frame.chain_of(header)
        while True:
            rows = await self._old.run(EVENTS, [sid, after, head.version, EVENTS_AT_ONCE])
            rows = [_as_erased(row, head) for row in rows]
            last = frame.chain_of(rows[-1][1]) if rows else chain
            await self._receive(head, last, rows)
            if not rows:
                break
            found = await self._new.run(EVENTS, [sid, after, rows[-1][0], EVENTS_AT_ONCE])
            chain = _checked(head, found, rows, chain)
            after, self.events = rows[-1][0], self.events + len(rows)
            if after == head.version:
                break
        if after != head.version or chain != head.chain:
            raise CorruptLog(f"a stream of shard {self._shard} is not whole: verify the old place")

    async def _receive(self, head: _StreamHead, chain: bytes, rows: Sequence[Row]) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * 4
        self._step += 1
        values = [
            head.sid, self._shard, self.mover, self._step, head.erased_version, chain,
            Ints(columns[0]), Bytes(columns[1]), Bytes(columns[2]),
            Ints(TIME_MIN if at is None else at for at in columns[3]),
        ]  # fmt: skip
        [[is_taken]] = await self._new.run(RECEIVE, values)
        if not is_taken:
            raise _Changed

    async def _copy_rows(self, table: CopiedTable, head: _StreamHead, after: int) -> None:
        """Copy rows that are newer than a version; from 0 on, in the place of those there."""
        is_anew = table is SNAPSHOTS or not after
        after = head.erased_version if is_anew else after
        if is_anew:
            await self._new.run(table.clear, [*self._next(head), head.sid])
        last = list(table.first)
        while True:
            values = [
                head.sid,
                after,
                head.version,
                *last,
                EVENTS_AT_ONCE if table is ARCHIVE else ROWS_AT_ONCE,
            ]
            rows = await self._old.run(table.read, values)
            if not rows:
                return
            made = {"i": Ints, "b": Bytes}
            columns = zip(*rows, strict=True)
            arrays = [made[kind](one) for kind, one in zip(table.kinds, columns, strict=True)]
            await self._new.run(table.put, [*self._next(head), head.sid, *arrays])
            last = list(rows[-1][: len(last)])

    async def _copy_pieces(self, head: _StreamHead) -> None:
        mine: dict[bytes, bytes] = dict(await self._old.run(PIECES, [head.sid]))
        there: dict[bytes, bytes] = dict(await self._new.run(PIECES, [head.sid]))
        if gone := Bytes(there.keys() - mine.keys()):
            await self._new.run(DROP_PIECES, [*self._next(head), head.sid, gone])
        wanted = sorted(name for name, digest in mine.items() if there.get(name) != digest)
        for start in range(0, len(wanted), PIECES_AT_ONCE):
            some = Bytes(wanted[start : start + PIECES_AT_ONCE])
            rows = await self._old.run(READ_PIECES, [head.sid, some])
            names, pieces = Bytes(name for name, _ in rows), Bytes(piece for _, piece in rows)
            await self._new.run(PUT_PIECES, [*self._next(head), head.sid, names, pieces])


def _ranges(head: _StreamHead, after: int, until: int) -> list[Any]:
    """Return the values of `COUNTS`: of each table, the versions that were copied just now."""
    afters = [after, *[max(after, head.erased_version)] * 3, head.erased_version]
    return [part for one in afters for part in (head.sid, one, until)] + [head.sid]


def _as_erased(row: Row, head: _StreamHead) -> Row:
    """Return an event as an erasure leaves it, if its stream is erased so far."""
    version, header, _, gone_at = row
    if version > head.erased_version:
        return row
    return version, header, None, head.erased_at if gone_at is None else gone_at


def _checked(head: _StreamHead, found: Sequence[Row], sent: Sequence[Row], chain: bytes) -> bytes:
    """Check events that were read back; return the chain at the last of them.

    :raises CorruptLog: they are not what was sent, or do not follow from what is before them.
    """
    if list(found) != list(sent):
        raise CorruptLog("events that have arrived are not those that were sent: move it again")
    for version, header, payload, gone_at in found:
        whole = frame.erased(version, header, gone_at or 0) if payload is None else header + payload
        taken = frame.unpack(version, whole)
        if (taken.stream_id, taken.version) != (head.sid, version) or not frame.check_chain(
            taken, chain
        ):
            raise CorruptLog(f"version {version} of a stream does not follow: verify the old place")
        chain = frame.chain_of(header)
    return chain


async def all_of(works: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    """Return what all of these return; where one raises, the others are ended, and it is raised."""
    tasks = [asyncio.ensure_future(one) for one in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        if tasks:
            await cancel_all(tasks)
