"""The head anchor: where the log ended, outside the log."""

from pathlib import Path

import pytest

from eventlog import LogUnavailable
from eventlog.files.log_directory import Anchor, Tail

pytestmark = pytest.mark.user

CHAINS = [bytes([n]) * 32 for n in range(10)]
SLOT_BYTES = 52


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.anchor"


def written(path: Path, *positions: int) -> None:
    anchor = Anchor(path)
    for position in positions:
        anchor.write(tail(position))
    anchor.close()


def tail(position: int) -> Tail:
    return Tail(100 + position, position, CHAINS[position])


def read(path: Path) -> Tail:
    anchor = Anchor(path)
    try:
        return anchor.read()
    finally:
        anchor.close()


@pytest.mark.parametrize("size", [0, 1, SLOT_BYTES - 1, SLOT_BYTES, SLOT_BYTES + 1])
def test_a_write_torn_anywhere_leaves_one_of_the_last_two(path: Path, size: int):
    """Whatever part of the next write reaches the disk, the slot beside it is whole."""
    written(path, 1, 2)
    before = path.read_bytes()
    anchor = Anchor(path)
    anchor.write(tail(3))
    anchor.close()
    after = path.read_bytes()
    changed = [at for at in range(len(after)) if before[at] != after[at]]
    slot = changed[0] // SLOT_BYTES * SLOT_BYTES

    path.write_bytes(
        before[:slot] + after[slot : slot + min(size, SLOT_BYTES)] + before[slot + size :]
        if size < SLOT_BYTES
        else after
    )

    assert read(path) in (tail(1), tail(2), tail(3))


def test_a_flipped_bit_is_never_read_as_a_place(path: Path):
    written(path, 1, 2)
    data = path.read_bytes()
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        assert read(path) in (tail(1), tail(2))


def test_a_path_that_cannot_be_opened_is_unavailable(path: Path):
    path.mkdir()

    with pytest.raises(LogUnavailable):
        Anchor(path)
