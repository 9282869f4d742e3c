"""The frame: its bytes, and that damage to any of them shows."""

import hashlib
import struct
import zlib
from pathlib import Path

import msgspec
import pytest

from eventlog import CorruptLog, Prepared, UnknownEvent
from eventlog.core import frame

GOLDEN = Path(__file__).parents[1] / "golden" / "frame_v1.bin"
GOLDEN_STUB = GOLDEN.with_name("stub_v1.bin")
GOLDEN_ERASED = GOLDEN.with_name("erased_v1.bin")
PLACE = {
    "position": 7,
    "sid": frame.stream_id("golden"),
    "version": 3,
    "recorded_at_us": 1_700_000_000_000_000,
    "prev": frame.chain_start(frame.stream_id("golden")),
}
DATA = msgspec.msgpack.encode({"text": "skiing", "count": 2})
META = msgspec.msgpack.encode({"by": "me"})


def prepared(raw: bytes = len(META).to_bytes(2, "big") + META + DATA) -> Prepared:
    return Prepared(
        event=None, tag="test.noted", schema=2, salt=bytes(range(16)), raw=raw, body=raw,
        compressed=False, keys=(),
    )  # fmt: skip


def resealed(data: bytes, position: int = PLACE["position"]) -> bytes:
    """Return a frame with the CRC that its bytes should have."""
    place = (position ^ position >> 32) & 0xFFFFFFFF
    return struct.pack(">I", zlib.crc32(data[4:]) ^ place) + data[4:]


def test_packing_gives_the_bytes_that_the_first_release_wrote():
    packed, _ = frame.pack(prepared(), **PLACE)

    assert packed == GOLDEN.read_bytes()


def test_a_frame_of_the_first_release_still_unpacks():
    taken = frame.unpack(7, GOLDEN.read_bytes())

    assert (taken.tag, taken.schema, taken.version) == (b"test.noted", 2, 3)
    assert taken.stream_id == hashlib.sha256(b"golden").digest()[:16]
    assert taken.recorded_at_us == 1_700_000_000_000_000
    assert taken.salt == bytes(range(16))
    assert taken.payload == len(META).to_bytes(2, "big") + META + DATA
    assert taken.follows(PLACE["prev"])


def test_a_tag_that_is_not_text_is_damage():
    """A tag that is no text is damage, even where the CRC is right."""
    data, _ = frame.pack(prepared(), **PLACE)
    at = data.index(b"test.noted")
    damaged = resealed(data[:at] + b"\xff" + data[at + 1 :])

    with pytest.raises(CorruptLog, match="no text"):
        frame.unpack(PLACE["position"], damaged)


def test_a_newer_format_is_refused_as_unknown_not_as_damage():
    data, _ = frame.pack(prepared(), **PLACE)
    newer = resealed(data[:4] + b"\2" + data[5:])

    with pytest.raises(UnknownEvent, match="format 2"):
        frame.unpack(7, newer)


def test_an_unknown_flag_is_refused_as_unknown():
    """A flag may change what the body means, so it is never read past."""
    data, _ = frame.pack(prepared(), **PLACE)
    flagged = resealed(data[:5] + b"\x80" + data[6:])

    with pytest.raises(UnknownEvent):
        frame.unpack(7, flagged)


def test_the_chain_can_be_computed_without_the_payload():
    """The chain is a SHA-256 of the chain before, header, tag and digest of the payload."""
    data, chain = frame.pack(prepared(), **PLACE)
    taken = frame.unpack(7, data)
    header = struct.pack(
        ">BHB16sQqII", 1, 2, len("test.noted"), PLACE["sid"], 3, PLACE["recorded_at_us"],
        taken.raw_bytes, taken.stored_bytes,
    )  # fmt: skip

    expected = hashlib.sha256(PLACE["prev"] + header + b"test.noted" + taken.digest).digest()

    assert chain == taken.chain == expected == frame.chain_of(data)


def test_the_digest_is_salted():
    first, _ = frame.pack(prepared(), **PLACE)
    other, _ = frame.pack(msgspec.structs.replace(prepared(), salt=b"\7" * 16), **PLACE)

    assert frame.unpack(7, first).digest != frame.unpack(7, other).digest
    assert frame.unpack(7, first).digest not in (
        hashlib.sha256(prepared().raw).digest(),
        hashlib.sha256(DATA).digest(),
    )


# --- stubs

ELSEWHERE = frame.Place(number=5, offset=123_456, slot=78)


def test_a_stub_has_the_bytes_of_the_first_release():
    assert frame.stub(7, GOLDEN.read_bytes(), ELSEWHERE) == GOLDEN_STUB.read_bytes()


# --- erased


def test_an_erased_frame_has_the_bytes_of_the_first_release():
    stub = frame.erased(7, GOLDEN.read_bytes(), 1_800_000_000_000_000)

    assert stub == GOLDEN_ERASED.read_bytes()
    assert frame.is_erased(stub)
    assert not frame.is_erased(GOLDEN.read_bytes())
    assert not frame.is_erased(GOLDEN_STUB.read_bytes())


def test_a_damaged_payload_can_be_erased():
    """A damaged payload can be erased, and a damaged header still shows."""
    whole = GOLDEN.read_bytes()
    payload_hit = frame.erased(7, whole[:-1] + b"?", 5)
    header_hit = frame.erased(7, whole[:30] + b"?" + whole[31:], 5)

    assert frame.unpack(7, payload_hit).follows(PLACE["prev"])
    assert not frame.unpack(7, header_hit).follows(PLACE["prev"])
    with pytest.raises(CorruptLog, match="cut short"):
        frame.erased(7, whole[:20], 5)
