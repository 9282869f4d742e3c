"""From a frame to what callers get, the same in every store: decrypted and decoded, or gone.

Payloads of an encrypted log (keys.py) are decrypted only here. There nothing is read that is not
encrypted: it would have come from somebody without the key.
"""

from typing import Any

from eventlog.core import frame
from eventlog.core.codec import EventRegistry, decompress
from eventlog.core.errors import (
    CorruptLog,
    KeyGone,
    PayloadDropped,
    PayloadErased,
    UnknownEvent,
)
from eventlog.core.keys import Keys
from eventlog.core.records import Dropped, OnDropped, Recorded


class FrameReading:
    """Makes events of frames that were taken apart; `keys` are None in a log without encryption."""

    def __init__(self, registry: EventRegistry, keys: Keys | None):
        self._registry = registry
        self._keys = keys

    def recorded(
        self, position: int, taken: frame.Taken, name: str, payload: frame.Payload
    ) -> Recorded[Any]:
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
        except (CorruptLog, KeyGone, UnknownEvent) as error:
            raise about(error, position, name) from error
        return Recorded(
            name, version, position, recorded_at_us, tag, data, raw_bytes, stored_bytes, meta
        )

    def decrypted(self, taken: frame.Taken, name: str, payload: frame.Payload) -> bytes:
        """Return the uncompressed payload of an event of an encrypted log. Raises as `recorded`."""
        if isinstance(payload, frame.Pointer | frame.ErasedMark):
            raise CorruptLog("its header says that it has no payload: restore a backup")
        if self._keys is None or not isinstance(payload, frame.Encrypted):
            raise CorruptLog("it is encrypted and its log is not, or the reverse: restore a backup")
        sid, version, _, raw_bytes, stored_bytes, schema, tag, _ = taken
        place = frame.place_of(sid, version, schema, tag)
        body = self._keys.cipher(name).decrypt(payload.data, place)
        return decompress(body, raw_bytes) if stored_bytes < raw_bytes else body


def about(
    error: CorruptLog | KeyGone | UnknownEvent, position: int, name: str
) -> CorruptLog | KeyGone | UnknownEvent:
    """Return an error about an event that says which one it is."""
    return type(error)(f"event {position} of stream {name!r}: {error}")


def without_payload(
    position: int, taken: frame.Taken, name: str | None, gone: Dropped, dropped: OnDropped
) -> Recorded[Any]:
    """Return an event whose payload is gone, if the caller has asked for that.

    :raises PayloadDropped: the caller has not.
    """
    sid, version, recorded_at_us, raw_bytes, stored_bytes, _, tag, _ = taken
    if gone.erased or name is None:
        name = frame.erased_name(sid)
    check_wanted(name, version, gone, dropped)
    return Recorded(
        name, version, position, recorded_at_us, tag.decode(), gone, raw_bytes, stored_bytes, b""
    )


def check_wanted(name: str, version: int, gone: Dropped, dropped: OnDropped) -> None:
    """Refuse to return an event whose payload is gone, unless the caller has asked for that.

    :raises PayloadDropped: the caller has not.
    """
    if dropped != "mark":
        raise (PayloadErased if gone.erased else PayloadDropped)(name, version, gone.since_us)
