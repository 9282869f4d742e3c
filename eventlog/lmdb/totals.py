"""Totals: named numbers over all streams that change with an append, in its own transaction.

A limit over all streams needs a number that is exact, so it must not be kept beside the log: the
two would part at the first crash. All totals lie in one row, which is there from the file's first
transaction on. So damage to it, or its loss, shows as such and never as a lower number, and its CRC
covers the key under which it lies.

Three places know the totals. The row is the truth. `Counting` is what the writer's transaction
makes of it: it is read when the first append of a transaction counts, and written once for all of
them. `TotalsTally` is what the event loop knows without reading: what was committed, and what is
under way.
"""

from collections.abc import Mapping

import msgspec

from eventlog.core.errors import CorruptLog
from eventlog.core.records import TOTALS_MAX
from eventlog.core.requests import I64_MAX, count
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import seal_record, unseal_record

ROW = b"totals"


class TotalsRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All totals by name; one at zero is not listed."""

    totals: dict[str, int]


def put_totals(env: Environment, txn: Transaction, totals: dict[str, int]) -> None:
    """Store all totals."""
    txn.put(ROW, seal_record(TotalsRecord(totals), ROW), db=env.tables["meta"])


def load_totals(env: Environment, txn: Transaction) -> dict[str, int]:
    """Return all totals as stored.

    :raises CorruptLog: the row is damaged or missing.
    """
    value = txn.get(ROW, db=env.tables["meta"])
    if value is None:
        raise CorruptLog("the totals are missing: restore a backup, or run a verification")
    return unseal_totals(ROW, value)


def unseal_totals(row: bytes, value: bytes) -> dict[str, int]:
    """Return the totals in a row.

    :raises CorruptLog: it is damaged, or no row of totals.
    """
    return unseal_record(value, TotalsRecord, "the row of totals", row).totals


class Counting:
    """The totals within one transaction after another. Belongs to the writer's thread."""

    def __init__(self, env: Environment):
        self._env = env
        self._changed: dict[str, int] | None = None

    def begin(self) -> None:
        """Start a transaction: forget what one that failed has left."""
        self._changed = None

    def add(self, txn: Transaction, counters: Mapping[str, int]) -> None:
        """Apply an append's deltas, all or none; `finish` stores them.

        :raises InvalidAppend: see `count`.
        """
        before = load_totals(self._env, txn) if self._changed is None else self._changed
        self._changed = count(before, counters)

    def take(self, txn: Transaction, counted: Mapping[str, int]) -> None:
        """Take what a stream has counted out of the totals; none falls below 0."""
        before = load_totals(self._env, txn) if self._changed is None else self._changed
        gone = {name: -min(number, before.get(name, 0)) for name, number in counted.items()}
        self._changed = count(before, gone)

    def replace(self, totals: Mapping[str, int]) -> None:
        """Let these be the totals: those of a log that this one now is the same as."""
        self._changed = dict(totals)

    def finish(self, txn: Transaction) -> dict[str, int] | None:
        """Store the totals if the transaction has changed them, and return them."""
        if self._changed is not None:
            put_totals(self._env, txn, self._changed)
        return self._changed


class TotalsTally:
    """The totals as the event loop knows them, without reading: committed, and under way.

    A relaxed append counts from when it is accepted; every other one once it is committed.
    """

    def __init__(self, committed: dict[str, int]):
        self.committed = committed
        """With every commit that has been delivered. Replaced, never changed."""
        self._accepted: dict[str, int] = {}  # by relaxed appends under way
        self._swing: dict[str, int] = {}  # the others under way may change a total by this, or not

    def now(self) -> dict[str, int]:
        """Return the totals, with relaxed appends that are accepted."""
        now = dict(self.committed)
        for name, delta in self._accepted.items():
            _add(now, name, delta)
        return now

    def enter(self, counters: Mapping[str, int], *, relaxed: bool) -> None:
        """Take note of an append that is under way from now on."""
        for name, delta in counters.items():
            if relaxed:
                _add(self._accepted, name, delta)
            else:
                _add(self._swing, name, abs(delta))

    def leave(self, counters: Mapping[str, int], *, relaxed: bool) -> None:
        """Take note that it has landed or was refused; `committed` tells which."""
        for name, delta in counters.items():
            if relaxed:
                _add(self._accepted, name, -delta)
            else:
                _add(self._swing, name, -abs(delta))

    def is_certain(self, counters: Mapping[str, int]) -> bool:
        """Say whether these deltas pass `count`, whatever comes of the appends under way."""
        names = {*self.committed, *self._accepted, *self._swing, *counters}
        return len(names) <= TOTALS_MAX and all(
            self._is_certain(name, delta) for name, delta in counters.items()
        )

    def _is_certain(self, name: str, delta: int) -> bool:
        total = self.committed.get(name, 0) + self._accepted.get(name, 0) + delta
        swing = self._swing.get(name, 0)
        return swing <= total <= I64_MAX - swing


def _add(sums: dict[str, int], name: str, delta: int) -> None:
    """Add to one of the sums in place; what comes to zero goes, so that names do not pile up."""
    total = sums.get(name, 0) + delta
    if total:
        sums[name] = total
    else:
        sums.pop(name, None)
