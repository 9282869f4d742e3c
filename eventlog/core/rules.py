"""The rules of the log, the same in every store: who may append, what follows, what a read gives.

A store says where a stream ends, and puts what follows into its tables. `EventLog` applies the
rules in the transaction of the append (lmdb/ledger.py); `PgEventStore` in advance, to the end that
it assumes (postgres/plan.py).

Payloads of an encrypted log (keys.py) are decrypted only here. There nothing is read that is not
encrypted: it would have come from somebody without the key.
"""

from collections.abc import Mapping

import msgspec

from eventlog.core import errors, frame, records
from eventlog.core.codec import EventRegistry, decompress
from eventlog.core.keys import ENCRYPTIONS_MAX, NO_KEYS, Cipher, Keys
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

    def behind(self, request: AppendRequest) -> tuple[int, int, int]:
        """Return version, epoch and stored bytes behind an append."""
        return (
            self.version + len(request.events),
            max(self.epoch, request.epoch),
            self.stored_bytes + request.payload_bytes,
        )

    def head(self) -> records.StreamHead:
        """Return the end in its public form."""
        return records.StreamHead(
            self.version, self.epoch, self.stored_bytes, self.chain, self.erased_version
        )


class FirstAppend(msgspec.Struct, frozen=True, gc=False):
    """The append that an idempotency key stands for."""

    digest: bytes
    """The `blind_digest` of the request."""
    first_version: int
    last_version: int
    last_position: int

    def repeated(self, stream: str, key: str, digest: bytes) -> records.Appended:
        """Return its result again, if this is the digest of the same request.

        :raises IdempotencyConflict: it was another request.
        """
        if digest != self.digest:
            raise errors.IdempotencyConflict(stream, key)
        return records.Appended(
            stream, self.first_version, self.last_version, self.last_position, duplicate=True
        )


def check_end(request: AppendRequest, version: int, epoch: int) -> None:
    """Refuse an append to a stream that ends elsewhere, or has another owner.

    :raises Fenced: the stream is held at a higher epoch than the request has.
    :raises WrongExpectedVersion: the stream is at another version than the request expects.
    """
    if request.epoch < epoch:
        raise errors.Fenced(request.stream, request.epoch, epoch)
    expected = request.expected_version
    if expected != version and expected != records.ANY_VERSION:
        raise errors.WrongExpectedVersion(request.stream, expected, version)


def matching_keys(keys: Keys | None, where: str, *, encrypted: bool, new: bool) -> Keys | None:
    """Return the keys that a store is or will be encrypted under, None if it is not encrypted.

    :raises EncryptionMismatch: it is encrypted and there are no keys, or the reverse.
    """
    if keys is None and encrypted:
        raise errors.EncryptionMismatch(
            f"the store in {where} is encrypted: open it with its keys (encrypt=True, or the path "
            "of its key file)"
        )
    if keys is None or (keys is NO_KEYS and not encrypted):
        return None
    if not encrypted and not new:
        raise errors.EncryptionMismatch(
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
        raise errors.InvalidAppend(f"stream {stream!r} is full: its key encrypts no more")
    return keys.cipher(stream)


def count(totals: Mapping[str, int], counters: Mapping[str, int]) -> dict[str, int]:
    """Return the totals after these deltas.

    :raises InvalidAppend: one would leave 0..2**63-1, or there would be over `TOTALS_MAX`.
    """
    after = dict(totals)
    for name, delta in counters.items():
        total = after.get(name, 0) + delta
        if not 0 <= total <= I64_MAX:
            raise errors.InvalidAppend(
                f"total {name!r} is {total - delta}: {delta:+} would take it out of its range"
            )
        after[name] = total
        if not total:
            del after[name]
    if len(after) > records.TOTALS_MAX:
        raise errors.InvalidAppend(
            f"there would be {len(after)} totals (max: {records.TOTALS_MAX})"
        )
    return after


def without(totals: Mapping[str, int], counted: Mapping[str, int]) -> dict[str, int]:
    """Return the totals without what a stream has counted; none falls below 0."""
    return count(totals, {name: -min(n, totals.get(name, 0)) for name, n in counted.items()})


# --- reading: from a frame to what callers get, decrypted and decoded, or gone


class FrameReading:
    """Makes events of frames that were taken apart; `keys` are None in a log without encryption."""

    def __init__(self, registry: EventRegistry, keys: Keys | None):
        self._registry = registry
        self._keys = keys

    def recorded(
        self, position: int, taken: frame.Taken, name: str, payload: frame.Payload
    ) -> records.Recorded[object]:
        """Return an event of a stream; `payload` is what the frame or the archive has of it.

        :raises CorruptLog: it is not what was written.
        :raises KeyGone: it is encrypted, and its key is gone.
        :raises UnknownEvent: this program does not know its type.
        """
        _, version, recorded_at_us, raw_bytes, stored_bytes, schema, tag_bytes, _ = taken
        try:
            if self._keys is not None or type(payload) is not bytes:
                payload = self.decrypted(taken, name, payload)
            tag, data, meta = self._registry.decode_tagged(tag_bytes, schema, payload)
        except (errors.CorruptLog, errors.KeyGone, errors.UnknownEvent) as error:
            raise about(error, position, name) from error
        return records.Recorded(
            name, version, position, recorded_at_us, tag, data, raw_bytes, stored_bytes, meta
        )

    def decrypted(self, taken: frame.Taken, name: str, payload: frame.Payload) -> bytes:
        """Return the uncompressed payload of an event of an encrypted log. Raises as `recorded`."""
        if isinstance(payload, frame.Pointer | frame.ErasedMark):
            raise errors.CorruptLog("its header says that it has no payload: restore a backup")
        if self._keys is None or not isinstance(payload, frame.Encrypted):
            raise errors.CorruptLog(
                "it is encrypted and its log is not, or the reverse: restore a backup"
            )
        sid, version, _, raw_bytes, stored_bytes, schema, tag, _ = taken
        place = frame.place_of(sid, version, schema, tag)
        body = self._keys.cipher(name).decrypt(payload.data, place)
        is_compressed = stored_bytes < raw_bytes and not payload.is_redacted
        return decompress(body, raw_bytes) if is_compressed else body

    def rewritten(
        self, taken: frame.Taken, name: str, payload: frame.Payload, rewrite: records.Rewrite
    ) -> bytes | None:
        """Return the payload with its data rewritten, as a frame has it; None without a change.

        Raises as `recorded`.
        """
        if self._keys is not None or type(payload) is not bytes:
            payload = self.decrypted(taken, name, payload)
        data_at = 2 + int.from_bytes(payload[:2])
        said = msgspec.msgpack.decode(payload[data_at:])
        if (instead := rewrite(said)) == said:
            return None
        body = payload[:data_at] + msgspec.msgpack.encode(instead)
        if self._keys is None:
            return body
        sid, version, _, _, _, schema, tag, _ = taken
        return self._keys.cipher(name).encrypt(body, frame.place_of(sid, version, schema, tag))


def about(
    error: errors.CorruptLog | errors.KeyGone | errors.UnknownEvent, position: int, name: str
) -> errors.CorruptLog | errors.KeyGone | errors.UnknownEvent:
    """Return an error about an event that says which one it is."""
    return type(error)(f"event {position} of stream {name!r}: {error}")


def without_payload(
    position: int,
    taken: frame.Taken,
    name: str | None,
    gone: records.Dropped,
    dropped: records.OnDropped,
) -> records.Recorded[object]:
    """Return an event whose payload is gone, if the caller has asked for that.

    :raises PayloadDropped: the caller has not.
    """
    sid, version, recorded_at_us, raw_bytes, stored_bytes, _, tag, _ = taken
    if gone.erased or name is None:
        name = frame.erased_name(sid)
    check_wanted(name, version, gone, dropped)
    return records.Recorded(
        name, version, position, recorded_at_us, tag.decode(), gone, raw_bytes, stored_bytes, b""
    )


def check_wanted(
    name: str, version: int, gone: records.Dropped, dropped: records.OnDropped
) -> None:
    """Refuse to return an event whose payload is gone, unless the caller has asked for that.

    :raises PayloadDropped: the caller has not.
    """
    if dropped != "mark":
        raise (errors.PayloadErased if gone.erased else errors.PayloadDropped)(
            name, version, gone.since_us
        )
