"""The readers of bytes of the store, behind one function: the first byte picks one.

A target may raise errors of the log only (and those of msgspec where whoever calls it expects
them). Run as a script, with the extra `fuzz`, atheris looks for inputs that make it raise others.
"""

import struct
import sys
import zlib
from collections.abc import Callable

import msgspec

from eventlog import EventLogError, EventRegistry
from eventlog.core import frame
from eventlog.keys.cryptography import StreamCipher
from eventlog.lmdb import segment
from eventlog.lmdb.segment import Entry
from memory_actors.kinds import snapshots, user_state

POSITION = 7
PLACE = b"a place"
CIPHER = StreamCipher(bytes(32), bytes(16))

registry = EventRegistry(salt=lambda count: bytes(count))
META = registry.packed_meta({"by": "me"})


@registry.event("fuzz.noted", schema=3, keys=lambda event: [event.text[:9]])
class Noted(msgspec.Struct, frozen=True):
    """An event with fields of all kinds."""

    text: str
    numbers: list[int] = []
    names: dict[str, float | None] = {}
    data: bytes = b""


@registry.upcaster("fuzz.noted", from_schema=1)
def _from_1(fields: dict[str, object]) -> dict[str, object]:
    return {"text": str(fields.get("text"))}


class UntypedError(Exception):
    """A target has raised what it should not."""


def _frame(data: bytes) -> None:
    _, _, _, _, _, schema, tag, raw = frame.read(POSITION, data)
    if isinstance(raw, bytes):
        registry.decode_tagged(tag, schema, raw)


def _whole_frame(data: bytes) -> None:
    taken = frame.unpack(POSITION, data)
    taken.follows(frame.chain_start(taken.stream_id))
    if isinstance(taken.payload, bytes):
        registry.decode_tagged(taken.tag, taken.schema, taken.payload)


def _sealed_frame(data: bytes) -> None:
    """Give a frame the CRC that its bytes should have, so that they are looked at."""
    sealed = struct.pack(">I", zlib.crc32(data[4:]) ^ POSITION) + data[4:]
    _frame(sealed)
    _whole_frame(sealed)


def _encrypted(data: bytes) -> None:
    CIPHER.decrypt(data, PLACE)


def _payload(data: bytes) -> None:
    registry.decode("fuzz.noted", data[0] % 5 if data else 0, data[1:])


def _block(data: bytes) -> None:
    taken = segment.unpack(data, PLACE)
    for slot in range(len(taken.versions)):
        taken.entry(slot)


def _sealed_block(data: bytes) -> None:
    _block(zlib.crc32(data[4:], zlib.crc32(PLACE)).to_bytes(4, "big") + data[4:])


def _snapshot(data: bytes) -> None:
    try:
        snapshots.load(data)
    except ValueError:
        return  # whoever loads one expects it, and reads the stream instead


TARGETS: dict[str, Callable[[bytes], None]] = {
    "frame": _frame,
    "sealed frame": _sealed_frame,
    "compressed frame": _sealed_frame,
    "stub": _sealed_frame,
    "payload": _payload,
    "block": _block,
    "sealed block": _sealed_block,
    "snapshot": _snapshot,
    "encrypted frame": _sealed_frame,
    "encrypted": _encrypted,
}


def feed(data: bytes) -> None:
    """Let a target read bytes.

    :raises UntypedError: it has raised what it should not.
    """
    if not data:
        return
    target = list(TARGETS.values())[data[0] % len(TARGETS)]
    try:
        target(data[1:])
    except EventLogError:
        return
    except Exception as error:
        raise UntypedError(f"{type(error).__name__}: {error}") from error


def samples() -> dict[str, bytes]:
    """Return whole bytes for each target."""
    plain = _packed(Noted("hello", [1, 2**40], {"a": 0.5, "b": None}, b"bytes"))
    entries = [Entry(version, bytes(16), b"payload " * 9) for version in range(1, 5)]
    blocks = segment.pack(entries, PLACE)
    payload = registry.prepare(Noted("hello"), META).raw
    return {
        "frame": plain,
        "sealed frame": plain,
        "compressed frame": _packed(Noted("hello " * 900)),
        "stub": frame.stub(POSITION, plain, frame.Place(1, 40, 3)),
        "payload": b"\x03" + payload,
        "block": blocks,
        "sealed block": blocks,
        "snapshot": snapshots.dump(user_state.UserState()),
        "encrypted frame": _packed(Noted("hello"), CIPHER),
        "encrypted": CIPHER.encrypt(b"hello", PLACE),
    }


def _packed(event: Noted, cipher: StreamCipher | None = None) -> bytes:
    sid = frame.stream_id("fuzz")
    packed, _ = frame.pack(
        registry.prepare(event, META), position=POSITION, sid=sid, version=1,
        recorded_at_us=1_700_000_000_000_000, prev=frame.chain_start(sid), cipher=cipher,
    )  # fmt: skip
    return packed


if __name__ == "__main__":
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, feed)
    atheris.Fuzz()
