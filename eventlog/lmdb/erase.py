"""Erasing a stream: every payload goes, wherever it lies; places, times and digests stay.

One transaction marks the stream as erased up to where it stands. From then on it reads so, whatever
is still on disk: its record has lost the name and says up to which version and since when. In the
same transaction what it counted leaves the totals, its snapshots and checkpoints go, and a row in
the table `erasures` says what remains to be done. Then, a bounded piece a transaction, so that
others go on writing in between:

    key         of an encrypted log: it is deleted from where keys are (keys.py)
    stubs       in the place of the frames: header, digest, chain, tag, and when it was erased
    rows        of the index of keys, idempotency keys, and the projections that were named
    segments    of the archive: their records keep the numbers only; then the files go
    shrink      a new file, which holds nothing but what is there (environment.py)
    done        the row in `erasures` goes

Each step finds out from the store what is left, so it can be repeated: a crash anywhere leaves a
row in `erasures`, and the next opening finishes the job. The digest of a payload was taken with a
salt, which goes with the payload, so nobody can test a guess against what stays.

Once its key is gone, what an old backup has of the stream cannot be read any more. Until then the
stream takes no writes, for they would be under the key that goes.

The stream may be written to again. It goes on behind the version up to which it was erased, and no
step touches what is behind that.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog, Fenced
from eventlog.core.rows import KEY_ID_BYTES, key_id, seal_record, unseal_record
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import Ledger
from eventlog.lmdb.tables import (
    U64,
    ErasureRecord,
    RequestRecord,
    SegmentRecord,
    StreamRecord,
    all_segments,
    next_number,
    put_segment,
    scan,
    snapshot_keys,
)

TABLE = "erasures"
STUBS_AT_ONCE = 512  # replaced in one transaction: some 3 ms, which an append may have to wait
ROWS_AT_ONCE = 2048  # deleted in one transaction
STEP_BYTES = 100 << 10  # what a step is taken to weigh in the writer's queue


class StreamErasing:
    """The steps of an erasure; each takes the transaction it happens in."""

    def __init__(self, env: Environment, ledger: Ledger, archive: Archive):
        self._env = env
        self._ledger = ledger
        self._archive = archive

    def mark(
        self,
        txn: Transaction,
        stream: str,
        now_us: int,
        counted: Mapping[str, int],
        projections: Sequence[str],
        epoch: int | None,
    ) -> ErasureRecord | None:
        """Let a stream read as erased from now on; return the erasure that is under way, if any.

        `counted` is taken out of the totals, down to 0; only when there is something to erase.

        :raises Fenced: the stream has another epoch.
        """
        sid, record = frame.stream_id(stream), self._ledger.stream(txn, stream)
        if epoch is not None and epoch != record.epoch:
            raise Fenced(stream, epoch, record.epoch)
        if not record.is_empty:
            self._ledger.take_out(txn, counted)
        return self._mark(txn, sid, record, now_us, [key_id(name) for name in projections])

    def mark_id(self, txn: Transaction, sid: bytes, now_us: int) -> ErasureRecord | None:
        """Mark a stream of which only the id is known; its totals are the caller's work."""
        return self._mark(txn, sid, self._ledger.stream_record(txn, sid), now_us, [])

    def _mark(
        self, txn: Transaction, sid: bytes, record: StreamRecord, now_us: int, names: list[bytes]
    ) -> ErasureRecord | None:
        pending = self.pending(txn).get(sid)
        if record.is_empty:
            return pending
        fresh = ErasureRecord(
            until=record.version,
            at_us=now_us,
            events=record.version - record.erased_version + (pending.events if pending else 0),
            segments_until=next_number(self._env, txn, sid) - 1,
            projections=names + (pending.projections if pending else []),
            stubs_until=pending.stubs_until if pending else record.erased_version,
        )
        erased = msgspec.structs.replace(
            record, name="", erased_version=record.version, erased_at_us=fresh.at_us
        )
        self._ledger.put_stream(txn, sid, erased)
        self._put(txn, sid, fresh)
        for key in snapshot_keys(self._env, txn, sid):
            txn.delete(key, db=self._env.tables["snapshots"])
        for name in fresh.projections:
            txn.delete(name, db=self._env.tables["checkpoints"])
        return fresh

    def pending(self, txn: Transaction) -> dict[bytes, ErasureRecord]:
        """Return the erasures that are under way, by stream id.

        :raises CorruptLog: a row is damaged.
        """
        return {
            sid: unseal_record(value, ErasureRecord, "the record of an erasure", sid)
            for sid, value in scan(self._env, txn, TABLE, b"")
        }

    def key_gone(self, txn: Transaction, sid: bytes) -> None:
        """Write down that the key was deleted, for good; the stream may be written to."""
        self._put(txn, sid, msgspec.structs.replace(self.pending(txn)[sid], key_gone=True))

    def step(self, txn: Transaction, sid: bytes) -> bool:
        """Do the next piece of an erasure; say whether there is more of them."""
        record = self.pending(txn)[sid]
        if record.stubs_until < record.until:
            self._put_stubs(txn, sid, record)
            return True
        rows = list(islice(self._rows(txn, sid, record), ROWS_AT_ONCE))
        for table, key in rows:
            txn.delete(key, db=self._env.tables[table])
        if rows:
            return True
        for segment, _ in list(all_segments(self._env, txn, sid)):
            if segment.number <= record.segments_until:
                gone = SegmentRecord(0, 0, 0, b"", record.at_us, record.at_us)
                put_segment(self._env, txn, segment, gone)
        return False

    def remove_files(self, sid: bytes) -> int:
        """Delete the stream's segments that no record names; return how many there were. Blocks.

        :raises StorageFailed: one could not be deleted; the erasure is still under way.
        """
        with self._env.read() as txn:
            segments = all_segments(self._env, txn, sid)
            kept = {segment for segment, record in segments if record.dropped_at_us is None}
        return self._archive.remove_stream(sid, kept)

    def done(self, txn: Transaction, sid: bytes) -> None:
        """Write down that nothing of an erasure is left to be done."""
        txn.delete(sid, db=self._env.tables[TABLE])

    def finish(
        self, shrink: Callable[[], object], forget_key: Callable[[bytes], object] | None
    ) -> bool:
        """Finish erasures that a process that died has left; say whether there were any. Blocks.

        `forget_key` deletes the key of a stream by its id, if the log is encrypted.

        :raises DiskFull: they could not be finished now; they are still under way.
        :raises StorageFailed: they could not be finished now; they are still under way.
        """
        write = self._env.write
        with self._env.read() as txn:
            pending = self.pending(txn)
        for sid, record in pending.items():
            if forget_key is not None and not record.key_gone:
                forget_key(sid)
                write(partial(self.key_gone, sid=sid))
            while write(partial(self.step, sid=sid)):
                pass
            self.remove_files(sid)
        if pending:
            shrink()
        for sid in pending:
            write(partial(self.done, sid=sid))
        return bool(pending)

    def _put(self, txn: Transaction, sid: bytes, record: ErasureRecord) -> None:
        txn.put(sid, seal_record(record, sid), db=self._env.tables[TABLE])

    def _put_stubs(self, txn: Transaction, sid: bytes, record: ErasureRecord) -> None:
        first = record.stubs_until + 1
        last = min(record.until, record.stubs_until + STUBS_AT_ONCE)
        events, versions = self._env.tables["events"], self._env.tables["versions"]
        for version in range(first, last + 1):
            at = txn.get(sid + U64.pack(version), db=versions)
            data = None if at is None else txn.get(at, db=events)
            if at is None or data is None:
                raise CorruptLog(f"event {version} of an erased stream is missing: verify the log")
            if not frame.is_erased(data):
                txn.put(at, frame.erased(U64.unpack(at)[0], data, record.at_us), db=events)
        self._put(txn, sid, msgspec.structs.replace(record, stubs_until=last))

    def _rows(
        self, txn: Transaction, sid: bytes, record: ErasureRecord
    ) -> Iterator[tuple[str, bytes]]:
        """Yield table and key of each row about what is erased."""
        for rest, _ in scan(self._env, txn, "keys", sid):
            if U64.unpack(rest[KEY_ID_BYTES:])[0] <= record.until:
                yield "keys", sid + rest
        for rest, value in scan(self._env, txn, "requests", sid):
            request = unseal_record(value, RequestRecord, "an idempotency key")
            if request.last_version <= record.until:
                yield "requests", sid + rest
        for name in record.projections:
            for rest, _ in scan(self._env, txn, "projections", name):
                yield "projections", name + rest
