"""Pages of an LMDB file: whatever LMDB has written passes, what would end a process does not."""

import random
import struct
from pathlib import Path

import pytest

from eventlog import CorruptLog, Environment
from eventlog.files.pages import check_file
from eventlog.lmdb.file import Transaction

TABLES = ("one", "two")
PAGE_BYTES = 4096
KEY_BYTES = (1, 8, 24, 200, 511)
VALUE_BYTES = (0, 1, 30, 300, 1900, 2100, 9000, 100_000)


def opened(path: Path) -> Environment:
    return Environment(path, TABLES)


def churn(path: Path, seed: int, commits: int) -> None:
    """Put, replace and delete rows of all sizes, now and then shrink or open again."""
    rng, keys, env = random.Random(seed), list[bytes](), opened(path)

    def change(txn: Transaction) -> None:
        for _ in range(rng.choice([1, 5, 40])):
            if keys and rng.random() < 0.45:
                txn.delete(keys.pop(rng.randrange(len(keys))), db=txn.tables["one"])
            else:
                keys.append(rng.randbytes(rng.choice(KEY_BYTES)))
                value = rng.randbytes(rng.choice(VALUE_BYTES))
                txn.put(keys[-1], value, db=txn.tables["one"])

    for n in range(commits):
        env.write(change)
        if n % 60 == 59:
            env.shrink()
        if n % 40 == 39:
            env.close()
            env = opened(path)
        check_file(path)
    env.close()


@pytest.mark.parametrize("seed", range(3))
def test_whatever_is_written_passes(tmp_path: Path, seed: int) -> None:
    churn(tmp_path / "log.mdb", seed, 150)


def test_a_file_whose_last_pages_were_never_written_opens(tmp_path: Path) -> None:
    """The pages were taken and given back in one transaction: the file ends before them."""
    path = tmp_path / "log.mdb"
    env = opened(path)

    def change(txn: Transaction) -> None:
        txn.put(b"kept", b"value", db=txn.tables["one"])
        txn.put(b"large", b"x" * 100_000, db=txn.tables["one"])
        txn.delete(b"large", db=txn.tables["one"])

    for _ in range(3):
        env.write(change)
    assert env.file_bytes() > path.stat().st_size
    env.close()

    env = opened(path)
    with env.read() as txn:
        assert txn.get(b"kept", db=txn.tables["one"]) == b"value"
    env.write(lambda txn: txn.put(b"large", b"x" * 200_000, db=txn.tables["one"]))
    env.close()
    check_file(path)


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    path = tmp_path / "log.mdb"
    env = opened(path)

    def fill(txn: Transaction) -> None:
        for n in range(400):
            txn.put(b"%04d" % n, b"v" * 100, db=txn.tables["one"])
        txn.put(b"large", b"x" * 20_000, db=txn.tables["one"])

    env.write(fill)
    env.write(lambda txn: txn.delete(b"0007", db=txn.tables["one"]))
    env.close()
    return path


def pages_of_kind(data: bytes, kind: int) -> list[int]:
    """Return the pages with these flags, free ones too."""
    numbers = range(2, len(data) // PAGE_BYTES)
    return [n for n in numbers if struct.unpack_from("=H", data, n * PAGE_BYTES + 10)[0] == kind]


@pytest.mark.parametrize(
    ("kind", "at", "value"),
    [
        (0x02, 0, struct.pack("=Q", 1 << 40)),  # its number
        (0x02, 10, struct.pack("=H", 0x01)),  # its kind
        (0x02, 12, struct.pack("=H", 60_000)),  # where its offsets end
        (0x02, 16, struct.pack("=H", 5000)),  # the first offset
        (0x01, 16, struct.pack("=H", 3)),
        (0x04, 10, struct.pack("=H", 0x02)),
        (0x04, 12, struct.pack("=I", 1)),  # how many pages its value has
    ],
)
def test_a_page_that_would_end_the_process_is_refused(
    whole: Path, kind: int, at: int, value: bytes
) -> None:
    data = bytearray(whole.read_bytes())
    for page in pages_of_kind(data, kind):
        data[page * PAGE_BYTES + at : page * PAGE_BYTES + at + len(value)] = value
    whole.write_bytes(data)

    with pytest.raises(CorruptLog, match="page"):
        opened(whole)


def test_a_page_that_is_used_twice_is_refused(whole: Path) -> None:
    """A loop in the tree would be followed for ever."""
    data = bytearray(whole.read_bytes())
    for branch in pages_of_kind(data, 0x01):
        base = branch * PAGE_BYTES
        first, second = struct.unpack_from("=HH", data, base + 16)
        data[base + first : base + first + 4] = data[base + second : base + second + 4]
    whole.write_bytes(data)

    with pytest.raises(CorruptLog, match="twice"):
        opened(whole)


def test_noise_in_any_used_page_is_refused(whole: Path) -> None:
    """Noise in a page is refused, unless the page is free."""
    data, rng = whole.read_bytes(), random.Random(5)
    refused = 0
    for page in range(2, len(data) // PAGE_BYTES):
        damaged = bytearray(data)
        damaged[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = rng.randbytes(PAGE_BYTES)
        whole.write_bytes(damaged)
        try:
            check_file(whole)
        except CorruptLog:
            refused += 1
    assert refused > 10


MANY_BYTES = 40 << 20


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some ten thousand pages, most of which are a tree of small rows."""
    path = tmp_path_factory.mktemp("large") / "log.mdb"
    env, value = opened(path), b"v" * 1_900  # two rows a page

    def fill(txn: Transaction) -> None:
        for n in range(MANY_BYTES // 2_048):
            txn.put(b"%08d" % n, value, db=txn.tables["one"], append=True)

    env.write(fill)
    env.close()
    return path


def with_noise_in_a_leaf(large: Path, path: Path) -> None:
    data = bytearray(large.read_bytes())
    page = pages_of_kind(data, 0x02)[-9]
    data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES] = random.Random(9).randbytes(PAGE_BYTES)
    path.write_bytes(data)


def test_a_damaged_page_among_many_thousands_is_refused(large: Path, tmp_path: Path) -> None:
    check_file(large)
    with_noise_in_a_leaf(large, tmp_path / "log.mdb")

    with pytest.raises(CorruptLog, match="page"):
        opened(tmp_path / "log.mdb")


def test_a_file_above_the_limit_is_not_looked_through(large: Path, tmp_path: Path) -> None:
    with_noise_in_a_leaf(large, tmp_path / "log.mdb")

    Environment(tmp_path / "log.mdb", TABLES, checked_bytes_max=MANY_BYTES // 2).close()


def test_a_large_file_cut_short_is_refused(large: Path, tmp_path: Path) -> None:
    data = large.read_bytes()
    (tmp_path / "log.mdb").write_bytes(data[: len(data) // 2])

    with pytest.raises(CorruptLog, match="cut short"):
        Environment(tmp_path / "log.mdb", TABLES, checked_bytes_max=0)


@pytest.mark.parametrize(
    ("at", "value"),
    [
        (0, struct.pack("=Q", 2**63 - 1)),  # the page that it says it is
        (12, struct.pack("=H", 17)),  # offsets end within one
        (16, struct.pack("=H", 4089)),  # the first offset is odd
    ],
)
def test_numbers_at_the_edge_of_what_can_be_are_refused(whole: Path, at: int, value: bytes) -> None:
    data = bytearray(whole.read_bytes())
    for page in pages_of_kind(data, 0x02):
        data[page * PAGE_BYTES + at : page * PAGE_BYTES + at + len(value)] = value
    whole.write_bytes(data)

    with pytest.raises(CorruptLog, match="page"):
        check_file(whole)


@pytest.mark.parametrize("last_page", [2**29, 2**63, 2**64 - 1])
def test_a_meta_page_that_states_too_much_is_refused(whole: Path, last_page: int) -> None:
    data = bytearray(whole.read_bytes())
    for meta in range(2):
        struct.pack_into("=Q", data, meta * PAGE_BYTES + 16 + 24 + 2 * 48, last_page)
    whole.write_bytes(data)

    with pytest.raises(CorruptLog, match="meta page"):
        check_file(whole)


@pytest.mark.parametrize("first", [2**63 - 1, 2**64 - 1, 0])
def test_a_value_whose_pages_cannot_be_is_refused(whole: Path, first: int) -> None:
    data = bytearray(whole.read_bytes())
    (page,) = (n for n in pages_of_kind(data, 0x02) if b"large" in data[n * 4096 : n * 4096 + 4096])
    at = data.index(b"large", page * PAGE_BYTES) + len(b"large")
    struct.pack_into("=Q", data, at, first)
    whole.write_bytes(data)

    with pytest.raises(CorruptLog, match="page"):
        check_file(whole)
