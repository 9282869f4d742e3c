"""Snapshots: a stream's state as bytes, so that opening it reads only what came after.

A snapshot is derived data. One that is ahead of its stream when it is to be kept rests on a relaxed
append that was lost, and is not kept. One that fails its CRC or was taken under another schema of
the state is passed over, and the one before it, or the whole stream, is read instead. In a log that
is encrypted its data is, bound to the stream, the version and the schema.
"""

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher
from eventlog.core.records import SNAPSHOTS_KEPT, Snapshot
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import U64, scan, seal_record, unseal_record


class SnapshotRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A snapshot and the fingerprint of the state's schema when it was taken."""

    fingerprint: str
    data: bytes


def put_snapshot(
    env: Environment,
    txn: Transaction,
    stream: str,
    snapshot: Snapshot,
    fingerprint: str,
    cipher: Cipher | None = None,
) -> None:
    """Keep a snapshot that is not ahead of its stream; drop all but the newest two."""
    sid, table = frame.stream_id(stream), env.tables["snapshots"]
    data = snapshot.data
    if cipher is not None:
        data = cipher.encrypt(data, _place(sid, snapshot.version, fingerprint))
    record = SnapshotRecord(fingerprint, data)
    txn.put(sid + U64.pack(snapshot.version), seal_record(record), db=table)
    versions = [key for key, _ in scan(env, txn, "snapshots", sid)]
    for key in versions[:-SNAPSHOTS_KEPT]:
        txn.delete(sid + key, db=table)


def load_snapshot(
    env: Environment,
    txn: Transaction,
    stream: str,
    fingerprint: str,
    version_max: int,
    cipher: Cipher | None = None,
) -> Snapshot | None:
    """Return the newest snapshot that is whole, of this schema and not beyond a version."""
    sid = frame.stream_id(stream)
    found = list(scan(env, txn, "snapshots", sid))
    for key, value in reversed(found):
        version = U64.unpack(key)[0]
        try:
            record = unseal_record(value, SnapshotRecord, "a snapshot")
            if record.fingerprint == fingerprint and version <= version_max:
                return Snapshot(version, _opened(record, sid, version, cipher))
        except CorruptLog:
            continue
    return None


def _opened(record: SnapshotRecord, sid: bytes, version: int, cipher: Cipher | None) -> bytes:
    if cipher is None:
        return record.data
    return cipher.decrypt(record.data, _place(sid, version, record.fingerprint))


def _place(sid: bytes, version: int, fingerprint: str) -> bytes:
    """Return what a snapshot is bound to when it is encrypted."""
    return b"snapshot" + sid + U64.pack(version) + fingerprint.encode()
