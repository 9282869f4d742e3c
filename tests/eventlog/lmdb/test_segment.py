"""A segment: its name, its bytes, and what the first release wrote."""

from pathlib import Path

import pytest

from eventlog import CorruptLog
from eventlog.core import frame
from eventlog.core.frame import Place
from eventlog.lmdb import segment
from eventlog.lmdb.segment import Entry, SegmentId

GOLDEN = Path(__file__).parents[1] / "golden"
SID = frame.stream_id("golden")
FIRST = SegmentId(SID, 1)
ENTRIES = [
    Entry(n, bytes([n]) * 16, b"payload %d of the first release " % n * 300) for n in (3, 4, 9)
]


def written(directory: Path, entries: list[Entry], of: SegmentId = FIRST) -> list[Place]:
    data, places = segment.build(of, entries)
    (directory / of.name).write_bytes(data)
    return places


@pytest.mark.parametrize("codec", ["zlib", "zstd"])
def test_a_segment_of_the_first_release_is_still_read(codec: str):
    if codec == "zstd" and segment.zstandard is None:
        pytest.skip("zstandard is not installed")
    directory = GOLDEN / f"segment_v1_{codec}"

    found = [one.entry(slot) for _, one in segment.walk(directory, FIRST) for slot in range(3)]

    assert found == ENTRIES
    assert segment.read_block(directory, FIRST, 32).entry(1) == ENTRIES[1]


def test_the_layout_around_the_blocks_is_the_first_releases():
    data, places = segment.build(FIRST, ENTRIES)

    golden = (GOLDEN / "segment_v1_zlib" / FIRST.name).read_bytes()
    assert data[:32] == golden[:32]
    assert places == [Place(1, 32, 0), Place(1, 32, 1), Place(1, 32, 2)]


@pytest.mark.parametrize("offset", [0, 31, 33, 10_000_000])
def test_an_offset_where_no_block_begins_is_damage(tmp_path: Path, offset: int):
    written(tmp_path, ENTRIES)

    with pytest.raises(CorruptLog, match=FIRST.name):
        segment.read_block(tmp_path, FIRST, offset)


def test_names_are_made_of_the_streams_id_and_a_number():
    assert FIRST.name == f"{SID.hex()}-00000001.segment"
    for number in (1, 99_999_999, 100_000_000, segment.NUMBER_MAX):
        name = SegmentId(SID, number).name
        assert segment.parse_name(name) == (SegmentId(SID, number), False)
        assert segment.parse_name(name + ".tmp") == (SegmentId(SID, number), True)


@pytest.mark.parametrize(
    "name",
    [
        "", "log.mdb", "notes.segment", FIRST.name.upper(), FIRST.name + ".bak", "x" + FIRST.name,
        FIRST.name + "\n", FIRST.name.replace("00000001", "1"),
        FIRST.name.replace("00000001", "000000001"), FIRST.name.replace("00000001", "9999999999"),
    ],
)  # fmt: skip
def test_a_file_of_another_name_is_not_ours(name: str):
    assert segment.parse_name(name) is None
