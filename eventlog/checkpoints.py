"""Checkpoints: how far a subscriber has come, stored with what it keeps, in one transaction."""

from collections.abc import Mapping

import msgspec

from eventlog.environment import Environment, Transaction
from eventlog.tables import U64, key_id, seal, unseal

ENTRY_KEY_BYTES_MAX = 400  # LMDB's keys end at 511, and the name takes 16


class Checkpoint(msgspec.Struct, frozen=True):
    """A subscriber's position and the entries that go with it."""

    name: str
    position: int
    writes: Mapping[bytes, bytes | None] = {}
    """Entries of the projection `name` to put, by key of up to 400 bytes; None deletes one."""


def put_checkpoint(env: Environment, txn: Transaction, checkpoint: Checkpoint) -> None:
    """Store a checkpoint and the entries it guards."""
    name, table = key_id(checkpoint.name), env.tables["projections"]
    txn.put(name, seal(U64.pack(checkpoint.position)), db=env.tables["checkpoints"])
    for key, value in checkpoint.writes.items():
        if value is None:
            txn.delete(name + key, db=table)
        else:
            txn.put(name + key, seal(value), db=table)


def load_checkpoint(env: Environment, txn: Transaction, name: str) -> int:
    """Return the position a subscriber has stored, 0 if none."""
    value = txn.get(key_id(name), db=env.tables["checkpoints"])
    return 0 if value is None else U64.unpack(unseal(value, f"checkpoint {name!r}"))[0]


def load_entry(env: Environment, txn: Transaction, name: str, key: bytes) -> bytes | None:
    """Return one entry of a projection."""
    value = txn.get(key_id(name) + key, db=env.tables["projections"])
    return None if value is None else unseal(value, f"an entry of {name!r}")
