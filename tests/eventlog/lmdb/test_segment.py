"""A segment: its name, its bytes, and what the first release wrote."""

from pathlib import Path

import pytest

from eventlog import CorruptLog, LogUnavailable
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
MANY = [Entry(n, n.to_bytes(16, "big"), b"%05d" % n * 100) for n in range(1, 1001)]


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


def test_walking_meets_every_entry_in_order(tmp_path: Path):
    written(tmp_path, MANY)

    versions = [v for _, one in segment.walk(tmp_path, FIRST) for v in one.versions]

    assert versions == [entry.version for entry in MANY]


def test_a_segment_under_another_name_is_noticed(tmp_path: Path):
    written(tmp_path, ENTRIES)
    for other in (SegmentId(SID, 2), SegmentId(frame.stream_id("other"), 1)):
        (tmp_path / other.name).write_bytes((tmp_path / FIRST.name).read_bytes())
        with pytest.raises(CorruptLog):
            segment.read_block(tmp_path, other, 32)
        with pytest.raises(CorruptLog):
            list(segment.walk(tmp_path, other))


@pytest.mark.parametrize("offset", [0, 31, 33, 10_000_000])
def test_an_offset_where_no_block_begins_is_damage(tmp_path: Path, offset: int):
    written(tmp_path, ENTRIES)

    with pytest.raises(CorruptLog, match=FIRST.name):
        segment.read_block(tmp_path, FIRST, offset)


def test_a_file_cut_short_is_damage_or_a_shorter_walk(tmp_path: Path):
    """A file cut between two blocks looks whole: its record counts the payloads."""
    places = written(tmp_path, MANY)
    data = (tmp_path / FIRST.name).read_bytes()
    ends = {place.offset for place in places}
    for size in range(0, len(data), 97):
        (tmp_path / FIRST.name).write_bytes(data[:size])
        if size in ends:
            continue
        with pytest.raises(CorruptLog):
            list(segment.walk(tmp_path, FIRST))


def test_a_directory_in_its_place_cannot_be_read(tmp_path: Path):
    (tmp_path / FIRST.name).mkdir()

    with pytest.raises((CorruptLog, LogUnavailable)):
        segment.read_block(tmp_path, FIRST, 32)


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
