"""Opening a log: its files, checked against each other before anything is read or written."""

from contextlib import ExitStack
from functools import partial
from pathlib import Path

import msgspec

from eventlog.archive.archive import Archive
from eventlog.core.codec import EventRegistry
from eventlog.core.errors import CorruptLog, DiskFull, EncryptionMismatch, LogBusy, StorageFailed
from eventlog.core.keys import NO_KEYS, Keys
from eventlog.core.logs import get_logger
from eventlog.files.anchor import Anchor
from eventlog.files.atomic_directory import ANCHOR, ARCHIVE, LOG, finish_restore
from eventlog.files.datafile import CHECKED_BYTES_MAX, is_there
from eventlog.lmdb.environment import Environment
from eventlog.lmdb.erase import Erasing, finish
from eventlog.lmdb.ledger import Ledger
from eventlog.lmdb.reading import Reading
from eventlog.lmdb.segment_table import TABLE, all_segments
from eventlog.lmdb.store_format import check_format, load_keys_identity, put_format, put_shrunk
from eventlog.lmdb.tables import TABLES
from eventlog.lmdb.totals import load_totals

_logger = get_logger("eventlog")


class Files(msgspec.Struct, frozen=True):
    """The open and checked files of a log."""

    env: Environment
    anchor: Anchor
    archive: Archive
    ledger: Ledger
    reading: Reading
    erasing: Erasing
    registry: EventRegistry
    position: int
    """Of the last event."""
    totals: dict[str, int]
    keys: Keys | None = None
    """None if the log is not encrypted."""

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
            _count_on(env)
            identity = _matched(env, keys)
            keys = keys if identity else None
            ledger, archive = Ledger(env, keys), Archive(directory / ARCHIVE)
            position = _check_anchor(env, ledger, anchor)
            env.write(lambda txn: put_format(env, txn, now_us, identity))
            with env.read() as txn:
                totals = load_totals(env, txn)
            erasing = Erasing(env, ledger, archive)
            if keys is not NO_KEYS and _finish_erasures(env, erasing, keys):
                _write_anchor(env, ledger, anchor)
            _clear(env, archive)
            opened.pop_all()
            reading = Reading(env, ledger, registry, archive, keys)
            return cls(
                env, anchor, archive, ledger, reading, erasing, registry, position, totals, keys
            )

    def close(self) -> None:
        """Close the files. Blocks while somebody reads."""
        self.anchor.close()
        self.env.close()


def _check_there(directory: Path) -> None:
    """See that nothing was committed where there is no log: LMDB would begin an empty one.

    :raises CorruptLog: something was.
    """
    path, log = directory / ANCHOR, directory / LOG
    if not is_there(path):
        return
    anchor = Anchor(path)
    known = anchor.read()
    anchor.close()
    if known.is_known and not (is_there(log) and log.stat().st_size):
        raise CorruptLog(
            f"{log} is empty or not there, but {known.position} events had been committed: "
            "restore a backup"
        )


def _count_on(env: Environment) -> None:
    """Let transactions be numbered behind those of the files that this one has replaced.

    :raises UnknownEvent: another version made the file; it is untouched.
    """
    with env.read() as txn:
        record = check_format(env, txn)
    if record is not None:
        env.count_from(record.transactions)


def _matched(env: Environment, keys: Keys | None) -> bytes:
    """Return the identity of the keys of a log that is or will be encrypted; else nothing.

    :raises EncryptionMismatch: it is encrypted and there are no keys, or the reverse.
    """
    with env.read() as txn:
        is_new = check_format(env, txn) is None
        identity = load_keys_identity(env, txn)
        streams = [] if identity is None else Ledger(env).streams_to_read(txn)
    if keys is None and identity is not None:
        raise EncryptionMismatch(
            f"the store in {env.path.parent} is encrypted: open it with its keys (encrypt=True, or "
            "the path of its key file)"
        )
    if keys is None or (keys is NO_KEYS and identity is None):
        return b""
    if identity is None and not is_new:
        raise EncryptionMismatch(
            f"the store in {env.path.parent} is not encrypted: open it without keys; to encrypt "
            "what is in it, export it and import that into a new, encrypted one"
        )
    return keys.attach(identity, streams)


def _check_anchor(env: Environment, ledger: Ledger, anchor: Anchor) -> int:
    """Return the last position of a log that goes at least as far as its anchor says.

    :raises CorruptLog: it does not.
    """
    known = anchor.read()
    with env.read() as txn:
        last = ledger.tail(txn)
        chain = ledger.chain_at(txn, known.position) if known.position else b""
    if chain != known.chain or env.last_transaction() < known.transaction:
        raise CorruptLog(
            f"the log ends at position {last.position}, but {known.position} had been committed "
            "with another content, or later commits are missing: the file was damaged or "
            "replaced; restore a backup"
        )
    return last.position


def _finish_erasures(env: Environment, erasing: Erasing, keys: Keys | None) -> bool:
    """Finish what a crash has left of erasures; say whether there was anything."""
    try:
        shrink = partial(env.shrink, partial(put_shrunk, env))
        return finish(env, erasing, shrink, None if keys is None else keys.forget)
    except (CorruptLog, DiskFull, StorageFailed) as error:  # it is tried again, or asked for again
        _logger.warning("erasure not finished", error=str(error))
        return True


def _write_anchor(env: Environment, ledger: Ledger, anchor: Anchor) -> None:
    """Anchor what was done before there is a writer."""
    with env.read() as txn:
        tail = ledger.tail(txn)
    anchor.write(tail._replace(transaction=env.last_transaction()))


def _clear(env: Environment, archive: Archive) -> None:
    """Remove segments that a crash has left without a record.

    Where a record is damaged, its segment may look so: then nothing is removed.
    """
    with env.read() as txn:
        try:
            named = dict(all_segments(env, txn))
        except CorruptLog as error:
            _logger.warning("archive not cleared", error=str(error))
            return
        whole = len(named) == txn.stat(env.tables[TABLE])["entries"]
    if whole:
        archive.remove_unnamed({s for s, r in named.items() if r.dropped_at_us is None})
