"""The rules of the log, the same in every store: who may append, under which key, what follows.

A store says where a stream ends, and puts what follows into its tables. `EventLog` applies the
rules in the transaction of the append (lmdb/ledger.py); `PgEventStore` in advance, to the end that
it assumes (postgres/plan.py).
"""

from collections.abc import Iterator, Mapping

from eventlog.core import frame
from eventlog.core.errors import (
    EncryptionMismatch,
    Fenced,
    IdempotencyConflict,
    InvalidAppend,
    WrongExpectedVersion,
)
from eventlog.core.keys import ENCRYPTIONS_MAX, NO_KEYS, Cipher, Keys
from eventlog.core.records import ANY_VERSION, TOTALS_MAX, Appended, Prepared, StreamHead
from eventlog.core.requests import I64_MAX, AppendRequest


class StreamEnd:
    """The end of a stream, as a store keeps it: its record has these fields, and others."""

    __slots__ = ()
    version: int
    epoch: int
    stored_bytes: int
    chain: bytes
    erased_version: int

    @property
    def is_empty(self) -> bool:
        """True if there is nothing to read: it never was, or all of it is erased."""
        return self.version == self.erased_version

    def head(self) -> StreamHead:
        """Return the end in its public form."""
        return StreamHead(
            self.version, self.epoch, self.stored_bytes, self.chain, self.erased_version
        )


class FirstAppend:
    """The append that an idempotency key stands for, as a store keeps it."""

    __slots__ = ()
    digest: bytes
    """The `blind_digest` of the request."""
    first_version: int
    last_version: int
    last_position: int

    def repeated(self, stream: str, key: str, digest: bytes) -> Appended:
        """Return its result again, if this is the digest of the same request.

        :raises IdempotencyConflict: it was another request.
        """
        if digest != self.digest:
            raise IdempotencyConflict(stream, key)
        return Appended(
            stream, self.first_version, self.last_version, self.last_position, duplicate=True
        )


def check_end(request: AppendRequest, version: int, epoch: int) -> None:
    """Refuse an append to a stream that ends elsewhere, or has another owner.

    :raises Fenced: the stream is held at a higher epoch than the request has.
    :raises WrongExpectedVersion: the stream is at another version than the request expects.
    """
    if request.epoch < epoch:
        raise Fenced(request.stream, request.epoch, epoch)
    expected = request.expected_version
    if expected != version and expected != ANY_VERSION:
        raise WrongExpectedVersion(request.stream, expected, version)


def matching_keys(keys: Keys | None, where: str, *, encrypted: bool, new: bool) -> Keys | None:
    """Return the keys that a store is or will be encrypted under, None if it is not encrypted.

    :raises EncryptionMismatch: it is encrypted and there are no keys, or the reverse.
    """
    if keys is None and encrypted:
        raise EncryptionMismatch(
            f"the store in {where} is encrypted: open it with its keys (encrypt=True, or the path "
            "of its key file)"
        )
    if keys is None or (keys is NO_KEYS and not encrypted):
        return None
    if not encrypted and not new:
        raise EncryptionMismatch(
            f"the store in {where} is not encrypted: open it without keys; to encrypt what is in "
            "it, export it and import that into a new, encrypted one"
        )
    return keys


def cipher_to_read(keys: Keys | None, stream: str) -> Cipher | None:
    """Return the cipher of a stream that has events, None in a log that is not encrypted.

    :raises KeyGone: its key is not here.
    """
    return None if keys is None else keys.cipher(stream)


def cipher_to_write(keys: Keys | None, stream: str, end: StreamEnd) -> Cipher | None:
    """Return the cipher for a write, None in a log that is not encrypted.

    The key of a stream that has nothing to read may be made.

    :raises KeyGone: its key is not here.
    :raises InvalidAppend: as much as one key may encrypt has been written under it.
    """
    if keys is None:
        return None
    if end.is_empty:
        return keys.make(stream)
    if end.version - end.erased_version >= ENCRYPTIONS_MAX:
        raise InvalidAppend(f"stream {stream!r} is full: its key encrypts no more")
    return keys.cipher(stream)


def packed(
    request: AppendRequest,
    sid: bytes,
    end: StreamEnd,
    position: int,
    recorded_at_us: int,
    cipher: Cipher | None,
) -> Iterator[tuple[Prepared, int, bytes]]:
    """Yield each event of an append behind the end of its stream, its version and its frame.

    `position` is what the frame of the last event before them is bound to.
    """
    version, chain = end.version, end.chain
    for prepared in request.events:
        position += 1
        version += 1
        data, chain = frame.pack(
            prepared, position=position, sid=sid, version=version,
            recorded_at_us=recorded_at_us, prev=chain, cipher=cipher,
        )  # fmt: skip
        yield prepared, version, data


def count(totals: Mapping[str, int], counters: Mapping[str, int]) -> dict[str, int]:
    """Return the totals after these deltas.

    :raises InvalidAppend: one would leave 0..2**63-1, or there would be over `TOTALS_MAX`.
    """
    after = dict(totals)
    for name, delta in counters.items():
        total = after.get(name, 0) + delta
        if not 0 <= total <= I64_MAX:
            raise InvalidAppend(
                f"total {name!r} is {total - delta}: {delta:+} would take it out of its range"
            )
        after[name] = total
        if not total:
            del after[name]
    if len(after) > TOTALS_MAX:
        raise InvalidAppend(f"there would be {len(after)} totals (max: {TOTALS_MAX})")
    return after


def without(totals: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
    """Return the totals without what a stream has counted; none falls below 0."""
    return count(totals, {name: -min(n, totals.get(name, 0)) for name, n in counted.items()})
