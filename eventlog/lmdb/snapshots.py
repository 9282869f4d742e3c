"""Snapshots of streams, and checkpoints of subscribers: both are kept beside the events.

A snapshot is a stream's state as bytes, so that opening it reads only what came after. It is
derived data. One that is ahead of its stream when it is to be kept rests on a relaxed
append that was lost, and is not kept. One that fails its CRC or was taken under another schema of
the state is passed over, and the one before it, or the whole stream, is read instead. In a log that
is encrypted its data is, bound to the stream, the version and the schema.

A checkpoint says how far a subscriber has come. It is stored with what the subscriber keeps, in one
transaction.
"""

from itertools import takewhile

import msgspec

from eventlog.core import frame
from eventlog.core.errors import CorruptLog
from eventlog.core.keys import Cipher
from eventlog.core.records import SNAPSHOTS_KEPT, Checkpoint, Snapshot
from eventlog.core.rows import key_id, seal, seal_record, snapshot_place, unseal, unseal_record
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import U64, neighbours


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
        data = cipher.encrypt(data, snapshot_place(sid, snapshot.version, fingerprint))
    record = SnapshotRecord(fingerprint, data)
    txn.put(sid + U64.pack(snapshot.version), seal_record(record), db=table)
    for key in snapshot_keys(env, txn, sid)[:-SNAPSHOTS_KEPT]:
        txn.delete(key, db=table)


def snapshot_keys(env: Environment, txn: Transaction, sid: bytes) -> list[bytes]:
    """Return the keys of a stream's snapshots, the oldest first. This reads only keys."""
    with txn.cursor(env.tables["snapshots"]) as cursor:
        there = cursor.iternext(keys=True, values=False) if cursor.set_range(sid) else ()
        return list(takewhile(lambda key: key.startswith(sid), there))


def load_snapshot(
    env: Environment,
    txn: Transaction,
    stream: str,
    fingerprint: str,
    version_max: int,
    cipher: Cipher | None = None,
) -> Snapshot | None:
    """Return the newest snapshot that is whole, of this schema and not beyond a version."""
    sid, table = frame.stream_id(stream), env.tables["snapshots"]
    for key in reversed(snapshot_keys(env, txn, sid)):
        version, value = U64.unpack(key[len(sid) :])[0], txn.get(key, b"", db=table)
        try:
            record = unseal_record(value, SnapshotRecord, "a snapshot")
            if record.fingerprint == fingerprint and version <= version_max:
                place = snapshot_place(sid, version, fingerprint)
                data = record.data if cipher is None else cipher.decrypt(record.data, place)
                return Snapshot(version, data)
        except CorruptLog:
            continue
    return None


# --- checkpoints


def put_checkpoint(env: Environment, txn: Transaction, checkpoint: Checkpoint) -> None:
    """Store a checkpoint and the entries it guards."""
    name, table = key_id(checkpoint.name), env.tables["projections"]
    position = seal(U64.pack(checkpoint.position), name)
    txn.put(name, position, db=env.tables["checkpoints"])
    for key, value in checkpoint.writes.items():
        if value is None:
            txn.delete(name + key, db=table)
        else:
            txn.put(name + key, seal(value, name + key), db=table)


def load_checkpoint(env: Environment, txn: Transaction, name: str) -> int:
    """Return the position a subscriber has stored, 0 if none.

    :raises CorruptLog: it, or a row beside it, is not what was stored.
    """
    value = _found(env, txn, "checkpoints", key_id(name))
    return 0 if value is None else U64.unpack(value)[0]


def load_entry(env: Environment, txn: Transaction, name: str, key: bytes) -> bytes | None:
    """Return one entry of a projection.

    :raises CorruptLog: it, or a row beside it, is not what was stored.
    """
    return _found(env, txn, "projections", key_id(name) + key)


def _found(env: Environment, txn: Transaction, table: str, key: bytes) -> bytes | None:
    """Return a row's content; what looks like a miss may be a row whose key was damaged."""
    found = None
    for row, value in neighbours(env, txn, table, key):
        content = unseal(value, f"a row of {table}", row)
        if row == key:
            found = content
    return found
