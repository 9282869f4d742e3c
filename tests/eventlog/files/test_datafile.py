"""Files that are there whole, or as they were before."""

import os
import stat
from pathlib import Path

import pytest

from eventlog import LogLocked
from eventlog.files.datafile import lock, unlock, write_whole, written_whole

pytestmark = pytest.mark.user


@pytest.mark.parametrize("contested", [False, True])
def test_a_finished_file_is_for_its_owner_only(tmp_path: Path, contested: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"before")
    with written_whole(path, contested=contested) as file:
        file.write(b"after")
        file.flush()
        assert path.read_bytes() == b"before"
    assert path.read_bytes() == b"after"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("contested", [False, True])
@pytest.mark.parametrize("call", ["os.fsync", "pathlib.Path.replace"])
def test_a_failure_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, contested: bool
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    path = tmp_path / "file"
    path.write_bytes(b"before")
    with monkeypatch.context() as failing:
        failing.setattr(call, fail)
        with (
            pytest.raises(OSError, match="No space"),
            written_whole(path, contested=contested) as file,
        ):
            file.write(b"after")
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_two_writers_of_one_file_do_not_mix(tmp_path: Path) -> None:
    """Two who write a contested file at once do not mix."""
    path = tmp_path / "file"
    with written_whole(path, contested=True) as one:
        one.write(b"one" * 1000)
        with written_whole(path, contested=True) as other:
            other.write(b"other" * 1000)
        assert path.read_bytes() == b"other" * 1000
    assert path.read_bytes() == b"one" * 1000


def test_a_name_is_on_disk_when_the_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = []
    monkeypatch.setattr("os.fsync", lambda fd: synced.append(os.fstat(fd).st_ino))
    write_whole(tmp_path / "file", b"data")
    assert synced == [(tmp_path / "file").stat().st_ino, tmp_path.stat().st_ino]


@pytest.mark.parametrize(
    "damage", [b"", b"x", b"1 9999999999999999999999", b"1 99999999999999", b"\xff" * 50]
)
def test_a_lock_is_refused_by_name_whatever_its_file_says(tmp_path: Path, damage: bytes) -> None:
    held = lock(tmp_path / "lock")
    (tmp_path / "lock").write_bytes(damage)
    with pytest.raises(LogLocked, match="is open in process"):
        lock(tmp_path / "lock")
    unlock(held)
