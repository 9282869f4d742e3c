"""Opening a log: its files, checked against each other before anything is read or written.

Also the store's own record: which format its tables have, and what is counted over all the files
it has had.
"""

from contextlib import ExitStack
from pathlib import Path

import msgspec

from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, DiskFull, LogBusy, StorageFailed, UnknownEvent
from eventlog.core.frame import chain_of
from eventlog.core.keys import NO_KEYS, Keys
from eventlog.core.logs import get_logger
from eventlog.core.rows import U64, seal, seal_record, unseal, unseal_record
from eventlog.core.rules import matching_keys
from eventlog.files.datafile import is_there
from eventlog.files.log_directory import ANCHOR, ARCHIVE, LOG, Anchor, finish_restore, read_anchor
from eventlog.files.pages import CHECKED_BYTES_MAX
from eventlog.lmdb.archive import Archive
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.erasing import Erasing
from eventlog.lmdb.file import Transaction
from eventlog.lmdb.ledger import Ledger, load_totals, put_totals
from eventlog.lmdb.reading import LogReading
from eventlog.lmdb.tables import TABLES, all_segments

STORE_FORMAT, ENCRYPTED_FORMAT = 4, 5
ROW = b"format"
KEYS_ROW = b"keys"
_LOST = "the store has lost its format: restore a backup"

_logger = get_logger("eventlog")


class Files(msgspec.Struct, frozen=True):
    """The open and checked files of a log."""

    env: Environment
    anchor: Anchor
    archive: Archive
    ledger: Ledger
    reading: LogReading
    erasing: Erasing
    registry: EventRegistry
    position: int
    """Of the last event."""
    totals: dict[str, int]
    keys: Keys | None = None
    """The keys, or None if the log is not encrypted."""

    @classmethod
    def open(
        cls,
        directory: Path,
        registry: EventRegistry,
        now_us: int,
        size_max_bytes: int,
        checked_bytes_max: int = CHECKED_BYTES_MAX,
        keys: Keys | None = None,
        busy: type[LogBusy] = LogBusy,
    ) -> "Files":
        """Open and check the files in `directory`. Blocks.

        Raises as `EventLog.open` does.
        """
        finish_restore(directory)
        _check_there(directory)
        with ExitStack() as opened:
            env = Environment(
                directory / LOG,
                TABLES,
                size_max_bytes=size_max_bytes,
                checked_bytes_max=checked_bytes_max,
                busy=busy,
            )
            opened.callback(env.close)
            anchor = Anchor(directory / ANCHOR)
            opened.callback(anchor.close)
            identity = _matched(env, keys)
            keys = keys if identity else None
            ledger, archive = Ledger(env, keys), Archive(directory / ARCHIVE)
            position = _check_anchor(env, ledger, anchor)
            env.write(lambda txn: put_format(txn, now_us, identity))
            with env.read() as txn:
                totals = load_totals(txn)
            reading = LogReading(env, ledger, registry, archive, keys)
            erasing = Erasing(env, ledger, reading, archive, keys)
            if keys is not NO_KEYS and _finish_erasures(env, erasing):
                with env.read() as txn:
                    tail = ledger.tail(txn)
                anchor.write(tail._replace(transaction=env.last_transaction()))
            _clear(env, archive)
            opened.pop_all()
            return cls(
                env, anchor, archive, ledger, reading, erasing, registry, position, totals, keys
            )

    def close(self) -> None:
        """Close the files. Blocks while somebody reads."""
        self.anchor.close()
        self.env.close()


def _check_there(directory: Path) -> None:
    """See that nothing was committed where there is no log: LMDB would begin an empty one."""
    path, log = directory / ANCHOR, directory / LOG
    if not is_there(path):
        return
    known = read_anchor(path)
    if known.is_known and not (is_there(log) and log.stat().st_size):
        raise CorruptLog(
            f"{log} is empty or not there, but {known.position} events had been committed: "
            "restore a backup"
        )


def _matched(env: Environment, keys: Keys | None) -> bytes:
    """Return the identity of the keys of a log that is or will be encrypted; else nothing.

    Transactions are numbered behind those of the files that this one has replaced from now on.

    :raises UnknownEvent: another version made the file; it is untouched.
    :raises EncryptionMismatch: it is encrypted and there are no keys, or the reverse.
    """
    with env.read() as txn:
        record = check_format(txn)
        identity = load_keys_identity(txn)
        streams = [] if identity is None else Ledger(env).streams_to_read(txn)
    if record is not None:
        env.count_from(record.transactions)
    found = matching_keys(
        keys, str(env.path.parent), encrypted=identity is not None, new=record is None
    )
    return b"" if found is None else found.attach(identity, streams)


def _check_anchor(env: Environment, ledger: Ledger, anchor: Anchor) -> int:
    known = anchor.read()
    with env.read() as txn:
        last = ledger.tail(txn)
        chain = b""
        if known.position:
            chain = chain_of(txn.get(U64.pack(known.position), b"", db=txn.tables["events"]))
    if chain != known.chain or env.last_transaction() < known.transaction:
        raise CorruptLog(
            f"the log ends at position {last.position}, but {known.position} had been committed "
            "with another content, or later commits are missing: the file was damaged or "
            "replaced; restore a backup"
        )
    return last.position


def _finish_erasures(env: Environment, erasing: Erasing) -> bool:
    try:
        with env.read() as txn:
            pending = erasing.pending(txn)
        for sid in pending:
            erasing.carry_out(sid)
        if pending:
            env.shrink(put_shrunk)
            env.write(lambda txn: erasing.done(txn, pending))
    except (CorruptLog, DiskFull, StorageFailed) as error:  # it is tried again, or asked for again
        _logger.warning("erasure not finished", error=str(error))
        return True
    return bool(pending)


def _clear(env: Environment, archive: Archive) -> None:
    """Remove segments that a crash has left without a record.

    If a record is damaged, its segment may look unnamed: then nothing is removed.
    """
    with env.read() as txn:
        try:
            named = dict(all_segments(txn))
        except CorruptLog as error:
            _logger.warning("archive not cleared", error=str(error))
            return
        whole = len(named) == txn.stat(txn.tables["segments"])["entries"]
    if whole:
        archive.remove_unnamed({s for s, r in named.items() if r.dropped_at_us is None})


# --- the record of the store: its format, and what is counted over all the files it has had


class FormatRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The format of the tables in this file."""

    format: int
    created_at_us: int
    transactions: int = 0
    """Committed to the files that this one has replaced. See environment.py."""
    slack_bytes: int = 0
    """Taken out of rows since this file was made, in pages that are still held for them."""


def check_format(txn: Transaction) -> FormatRecord | None:
    """Return the record of a store, None if it has none.

    :raises UnknownEvent: the file was made by another version.
    :raises CorruptLog: the record is damaged.
    """
    value = txn.get(ROW, db=txn.tables["meta"])
    record = None if value is None else unseal_record(value, FormatRecord, "the store's format")
    if record is not None and record.format not in (STORE_FORMAT, ENCRYPTED_FORMAT):
        raise UnknownEvent(
            f"the store has format {record.format}, not {STORE_FORMAT} or {ENCRYPTED_FORMAT}: "
            "open it with the version that made it"
        )
    return record


def load_keys_identity(txn: Transaction) -> bytes | None:
    """Return the identity of an encrypted store's keys; or None without encryption.

    :raises CorruptLog: the row is damaged, or is missing in an encrypted store.
    """
    record = check_format(txn)
    if record is None or record.format != ENCRYPTED_FORMAT:
        return None
    value = txn.get(KEYS_ROW, db=txn.tables["meta"])
    if value is None:
        raise CorruptLog("the store has lost the identity of its keys: restore a backup")
    return unseal(value, "the identity of the store's keys", KEYS_ROW)


def put_format(txn: Transaction, now_us: int, identity: bytes = b"") -> None:
    """Make the record of a new store.

    `identity` is that of the keys of a new store that is encrypted.

    :raises CorruptLog: the store is not new and has no record.
    """
    if check_format(txn) is not None:
        return
    if any(txn.stat(txn.tables[table])["entries"] for table in ("meta", "events")):
        raise CorruptLog(_LOST)
    _put_record(txn, FormatRecord(ENCRYPTED_FORMAT if identity else STORE_FORMAT, now_us))
    if identity:
        txn.put(KEYS_ROW, seal(identity, KEYS_ROW), db=txn.tables["meta"])
    put_totals(txn, {})


def load_format(txn: Transaction) -> FormatRecord:
    """Return the record of a store that has one.

    :raises CorruptLog: it is missing or damaged.
    """
    record = check_format(txn)
    if record is None:
        raise CorruptLog(_LOST)
    return record


def add_slack(txn: Transaction, slack_bytes: int) -> None:
    """Count bytes that a new file would not have."""
    record = load_format(txn)
    slack_bytes += record.slack_bytes
    _put_record(txn, msgspec.structs.replace(record, slack_bytes=slack_bytes))


def put_shrunk(txn: Transaction, transactions: int) -> None:
    """Make the record that of a new file, in the place of one that counted so far."""
    record = load_format(txn)
    _put_record(txn, msgspec.structs.replace(record, transactions=transactions, slack_bytes=0))


def _put_record(txn: Transaction, record: FormatRecord) -> None:
    txn.put(ROW, seal_record(record), db=txn.tables["meta"])
