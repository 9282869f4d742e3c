"""A directory that comes whole or not at all, whenever the process that makes it dies."""

from collections.abc import Callable
from pathlib import Path

import pytest

from eventlog.files import log_directory as placing_module
from eventlog.files.log_directory import finish_restore, put_in_place, say_ready, written

pytestmark = pytest.mark.user


class Died(BaseException):
    """Stands for the end of a process: nothing is cleaned up."""


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "log"


def die(directory: Path, at: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a directory in a process that dies `at` some point."""

    def work() -> None:
        with written(directory, ".restoring") as scratch:
            (scratch / "file").write_text("whole")
            at(scratch)
            raise Died

    with monkeypatch.context() as patched:
        patched.setattr(placing_module, "_discard", lambda _scratch: None)
        with pytest.raises(Died):
            work()


def make(directory: Path, text: str) -> None:
    with written(directory, ".restoring") as scratch:
        (scratch / "file").write_text(text)
        say_ready(scratch)
        put_in_place(scratch, directory)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("at", [lambda scratch: None, say_ready])
def test_what_a_dead_process_has_left_is_in_nobodys_way(
    target: Path, at: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    die(target, at, monkeypatch)

    make(target, "again")

    assert (target / "file").read_text() == "again"
    assert names(target.parent) == ["log"]


@pytest.mark.parametrize("left", [[], [".unfinished"], [".unfinished", "file"]])
def test_a_removal_that_was_cut_off_is_in_nobodys_way(target: Path, left: list[str]) -> None:
    scratch = target.with_name("log.restoring")
    scratch.mkdir()
    for name in left:
        (scratch / name).touch()

    finish_restore(target)
    assert not target.exists()
    make(target, "again")

    assert names(target.parent) == ["log"]


def test_a_copy_that_was_not_verified_never_takes_a_place(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    die(target, lambda scratch: None, monkeypatch)

    finish_restore(target)

    assert not target.exists()
