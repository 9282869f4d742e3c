"""Checkpoints: how far a subscriber has come, stored with what it keeps, in one transaction."""

from eventlog.core.records import Checkpoint
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import U64, key_id, neighbours, seal, unseal


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
