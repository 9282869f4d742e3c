"""The pages of mapped files are let go, and come back."""

from pathlib import Path

import psutil
import pytest

from eventlog import Environment
from eventlog.files import mapped
from eventlog.lmdb.file import Transaction

ROWS, ROW_BYTES = 4_000, 2_000
pytestmark = pytest.mark.skipif(
    not Path("/proc/self/maps").exists(), reason="this system does not tell where files are"
)


@pytest.fixture
def env(tmp_path: Path):
    env = Environment(tmp_path / "x.mdb", ["rows"])

    def fill(txn: Transaction) -> None:
        for number in range(ROWS):
            txn.put(number.to_bytes(4, "big"), bytes(ROW_BYTES), db=txn.tables["rows"])

    env.write(fill)
    yield env
    env.close()


def read(env: Environment) -> int:
    with env.read() as txn, txn.cursor(txn.tables["rows"]) as cursor:
        return sum(len(value) for _, value in cursor)


def of_files() -> int:
    return int(psutil.Process().memory_info().shared)


def test_pages_that_were_read_are_let_go_and_come_back(env: Environment) -> None:
    assert read(env) == ROWS * ROW_BYTES
    before = of_files()
    mapped.release_pages()
    assert before - of_files() > ROWS * ROW_BYTES // 2
    assert read(env) == ROWS * ROW_BYTES
    assert before - of_files() < ROWS * ROW_BYTES // 4


def test_who_reads_meanwhile_reads_on(env: Environment) -> None:
    with env.read() as txn, txn.cursor(txn.tables["rows"]) as cursor:
        for number, (key, value) in enumerate(cursor):
            if number % 500 == 0:
                mapped.release_pages()
            assert (key, value) == (number.to_bytes(4, "big"), bytes(ROW_BYTES))


def test_a_file_that_took_the_place_of_another_is_known(env: Environment) -> None:
    env.shrink()
    assert read(env) == ROWS * ROW_BYTES
    before = of_files()
    mapped.release_pages()
    assert before - of_files() > ROWS * ROW_BYTES // 2


def test_only_files_that_are_open_are_looked_for(env: Environment, tmp_path: Path) -> None:
    known = set(mapped._files)
    other = Environment(tmp_path / "y.mdb", ["rows"])
    assert len(mapped._files) == len(known) + 1
    other.close()
    assert mapped._files == known


def test_a_system_that_does_not_tell_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapped, "_MAPS", Path("/nowhere"))
    mapped.release_pages()
    monkeypatch.setattr(mapped, "_madvise", lambda: None)
    mapped.release_pages()
