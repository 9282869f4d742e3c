"""The store's own record: its format, and what is counted over all the files it has had."""

import msgspec

from eventlog.core.errors import CorruptLog, UnknownEvent
from eventlog.lmdb.environment import Environment, Transaction
from eventlog.lmdb.tables import seal, seal_record, unseal, unseal_record
from eventlog.lmdb.totals import put_totals

# 2: with a row of totals; 3: with an archive, and a file that may be replaced; 4: with erasures;
# 5: that, encrypted. A store that is not encrypted stays 4, which earlier versions can open.
STORE_FORMAT = 4
ENCRYPTED_FORMAT = 5
UPGRADED = (
    2,
    3,
)  # what this version makes its own format of: they differ by what 4 may have beside
ROW = b"format"
KEYS_ROW = b"keys"
_LOST = "the store has lost its format: restore a backup"


class FormatRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which layout of tables this file has."""

    format: int
    created_at_us: int
    transactions: int = 0
    """Committed to the files that this one has replaced. See environment.py."""
    slack_bytes: int = 0
    """Taken out of rows since this file was made, in pages that are still held for them."""


def check_format(env: Environment, txn: Transaction) -> FormatRecord | None:
    """Return the record of a store, None if it has none.

    :raises UnknownEvent: the file was made by another version.
    :raises CorruptLog: the record is damaged.
    """
    value = txn.get(ROW, db=env.tables["meta"])
    record = None if value is None else unpack_format(value)
    if record is not None and record.format not in (STORE_FORMAT, ENCRYPTED_FORMAT, *UPGRADED):
        raise UnknownEvent(
            f"the store has format {record.format}, not {STORE_FORMAT} or {ENCRYPTED_FORMAT}: "
            "open it with the version that made it"
        )
    return record


def load_keys_identity(env: Environment, txn: Transaction) -> bytes | None:
    """Return whose the keys of an encrypted store are; None for one that is not encrypted.

    :raises CorruptLog: the row is damaged, or is missing in an encrypted store.
    """
    record = check_format(env, txn)
    if record is None or record.format != ENCRYPTED_FORMAT:
        return None
    value = txn.get(KEYS_ROW, db=env.tables["meta"])
    if value is None:
        raise CorruptLog("the store has lost the identity of its keys: restore a backup")
    return unseal(value, "the identity of the store's keys", KEYS_ROW)


def put_format(env: Environment, txn: Transaction, now_us: int, identity: bytes = b"") -> None:
    """Make the record of a new store, and upgrade that of an older one.

    `identity` is that of the keys of a new store that is encrypted.

    :raises CorruptLog: the store is not new and has no record.
    """
    record = check_format(env, txn)
    if record is None:
        _create(env, txn, now_us, identity)
    elif record.format in UPGRADED:
        _put(env, txn, msgspec.structs.replace(record, format=STORE_FORMAT))


def load_format(env: Environment, txn: Transaction) -> FormatRecord:
    """Return the record of a store that has one.

    :raises CorruptLog: it is missing or damaged.
    """
    record = check_format(env, txn)
    if record is None:
        raise CorruptLog(_LOST)
    return record


def unpack_format(value: bytes) -> FormatRecord:
    """Return the record in a row.

    :raises CorruptLog: it is damaged.
    """
    return unseal_record(value, FormatRecord, "the store's format")


def add_slack(env: Environment, txn: Transaction, slack_bytes: int) -> None:
    """Count bytes that a new file would not have."""
    record = load_format(env, txn)
    slack_bytes += record.slack_bytes
    _put(env, txn, msgspec.structs.replace(record, slack_bytes=slack_bytes))


def put_shrunk(env: Environment, txn: Transaction, transactions: int) -> None:
    """Make the record that of a new file, in the place of one that counted so far."""
    record = load_format(env, txn)
    _put(env, txn, msgspec.structs.replace(record, transactions=transactions, slack_bytes=0))


def _create(env: Environment, txn: Transaction, now_us: int, identity: bytes) -> None:
    if any(txn.stat(env.tables[table])["entries"] for table in ("meta", "events")):
        raise CorruptLog(_LOST)
    _put(env, txn, FormatRecord(ENCRYPTED_FORMAT if identity else STORE_FORMAT, now_us))
    if identity:
        txn.put(KEYS_ROW, seal(identity, KEYS_ROW), db=env.tables["meta"])
    put_totals(env, txn, {})


def _put(env: Environment, txn: Transaction, record: FormatRecord) -> None:
    txn.put(ROW, seal_record(record), db=env.tables["meta"])
