"""A block of archived payloads: its bytes, its bounds, and that damage to any of them shows."""

import struct
import zlib

import pytest

from eventlog import CorruptLog, UnknownEvent
from eventlog.lmdb import segment
from eventlog.lmdb.segment import Entry

PLACE = b"stream" * 4
ENTRIES = [Entry(n, bytes([n]) * 16, b"payload %d " % n * n) for n in range(1, 9)]
CODEC_AT, RAW_AT, STORED_AT, HEADER_BYTES = 9, 12, 16, 20


@pytest.fixture(params=["zstd", "zlib"])
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compress with each codec; without zstandard installed, zlib is taken."""
    if request.param == "zlib":
        monkeypatch.setattr(segment, "zstandard", None)
    elif segment.zstandard is None:
        pytest.skip("zstandard is not installed")
    return request.param


def resealed(data: bytes) -> bytes:
    """Return a block with the CRC that its bytes should have."""
    return struct.pack(">I", zlib.crc32(data[4:], zlib.crc32(PLACE))) + data[4:]


@pytest.mark.parametrize("slot", [-1, len(ENTRIES), 70_000])
def test_a_slot_that_is_not_there_is_refused(slot: int):
    with pytest.raises(CorruptLog, match="slot"):
        segment.unpack(segment.pack(ENTRIES, PLACE), PLACE).entry(slot)


@pytest.mark.usefixtures("codec")
def test_a_bomb_does_not_go_off():
    """The block states a small size, and would decompress to a large one."""
    small, large = (
        segment.pack(ENTRIES, PLACE),
        segment.pack([Entry(1, bytes(16), bytes(1 << 24))], b""),
    )
    stored = large[HEADER_BYTES:]
    header = bytearray(small[:HEADER_BYTES])
    header[CODEC_AT] = large[CODEC_AT]
    struct.pack_into(">I", header, STORED_AT, len(stored))

    with pytest.raises(CorruptLog, match="does not decompress"):
        segment.unpack(resealed(bytes(header) + stored), PLACE)


def test_unknown_formats_and_codecs_are_not_called_damage():
    data = segment.pack(ENTRIES, PLACE)
    for at, what in ((8, "format 7"), (CODEC_AT, "codec 7")):
        newer = data[:at] + b"\7" + data[at + 1 :]
        with pytest.raises(UnknownEvent, match=what):
            segment.unpack(resealed(newer), PLACE)


@pytest.mark.usefixtures("codec")
@pytest.mark.parametrize("raw_bytes", [0, 1, 100, 2**32 - 1])
def test_a_wrong_size_is_refused_before_memory_is_taken(raw_bytes: int):
    """Even one whose CRC is right: nobody may make a reader take gigabytes."""
    data = bytearray(segment.pack(ENTRIES, PLACE))
    struct.pack_into(">I", data, RAW_AT, raw_bytes)

    with pytest.raises(CorruptLog):
        segment.unpack(resealed(bytes(data)), PLACE)


def test_content_that_is_no_block_is_damage():
    """CRC and size are right, but the slots do not add up."""
    for raw, slots in ((b"x", 1), (bytes(28), 1 << 12), (bytes(29), 1)):
        stored = zlib.compress(raw)
        header = struct.pack(">I4sBBHII", 0, b"EVBK", 1, segment.ZLIB, slots, len(raw), len(stored))
        with pytest.raises(CorruptLog):
            segment.unpack(resealed(header + stored), PLACE)
