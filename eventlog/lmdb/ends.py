"""The ends of the log and its streams, while the writer appends to them.

A transaction takes the appends of many callers and puts their events together; until then
`Accepted` has them. `KnownEnds` has what earlier transactions left, so that the next one need not
read it back.
"""

from dataclasses import dataclass, field

from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import EventRows, StreamRecord

ENDS_MAX = 8192  # of streams, kept in memory: some 4 MB


@dataclass(slots=True, eq=False)
class Accepted:
    """The appends that a transaction has accepted and not put yet."""

    position: int
    """Of the last event."""
    rows: EventRows = field(default_factory=EventRows)
    streams: dict[bytes, StreamRecord] = field(default_factory=dict)
    """Their ends, by stream id."""


class KnownEnds:
    """The ends of the log and of streams as the last commit left them, and appends before it.

    They are known to stand as long as the transaction that put them is the last one that was
    committed: not if it was given up, nor if anybody else has written since.
    """

    def __init__(self, env: Environment) -> None:
        self._env = env
        self.streams: dict[bytes, StreamRecord] = {}
        self.position = 0
        """Of the last event; 0: not known."""
        self._transaction = 0

    def clear(self) -> None:
        """Know nothing."""
        self.streams.clear()
        self.position = 0

    def begin(self) -> None:
        """Keep, in a transaction that begins, only what is known to stand."""
        if self._env.committed != self._transaction:
            self.clear()

    def put(self, txn: Transaction, accepted: Accepted) -> None:
        """Take note of what this transaction has put."""
        self._transaction, self.position = self._env.number(txn), accepted.position
        if len(self.streams) + len(accepted.streams) > ENDS_MAX:
            self.streams.clear()
        self.streams |= accepted.streams
