"""The messages of a child to its parent: progress, result, or the way it ended."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventlog import CorruptLog, DiskFull, LogLocked
from memory_actors import ReaderFailedError, repair_store, verify_store
from memory_actors.upkeep.offline.child import ChildDied, answer_parent, result_of_child

pytestmark = pytest.mark.user


class Answer(msgspec.Struct):
    number: int


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Let a line of shell be what a child does."""

    def be(line: str) -> None:
        script = tmp_path / "child"
        script.write_text(f"#!/bin/sh\n{line}\n")
        script.chmod(0o700)
        monkeypatch.setattr("sys.executable", str(script))

    return be


def test_progress_is_heard_before_the_result(child: Callable[[str], None]) -> None:
    child("""echo '{"done":1,"total":2}'; echo '{"done":2,"total":2}'; cat""")
    seen: list[tuple[int, int]] = []
    given = b'{"result":{"number":7}}\n'

    found = result_of_child("m", [], Answer, given=given, progress=lambda *at: seen.append(at))

    assert (found, seen) == (Answer(7), [(1, 2), (2, 2)])


def test_an_error_is_raised_again_by_its_name(child: Callable[[str], None]) -> None:
    child("""echo '{"error":"LogLocked","message":"close it"}'""")
    with pytest.raises(LogLocked, match="close it"):
        result_of_child("m", [], Answer)
    child("""echo '{"error":"Unheard","message":"of"}'""")
    with pytest.raises(CorruptLog, match="of"):
        result_of_child("m", [], Answer)


def test_a_child_dying_before_reading_is_told_by_its_end(child: Callable[[str], None]) -> None:
    child("exec 0<&-; kill -SEGV $$")
    with pytest.raises(ChildDied, match="SIGSEGV"):
        result_of_child("m", [], Answer, given=bytes(1 << 20))  # more than a pipe holds


@pytest.mark.parametrize(
    ("line", "how"),
    [("exit 1", "exit code 1"), ("exit 0", "exit code 0"), ("kill -KILL $$", "SIGKILL")],
)
def test_a_reader_that_fails_is_no_damage(
    child: Callable[[str], None], tmp_path: Path, line: str, how: str
) -> None:
    """An import that fails, or the system's OOM killer: a healthy store must not look damaged."""
    child(line)
    with pytest.raises(ReaderFailedError, match=how):
        verify_store(tmp_path)
    with pytest.raises(ReaderFailedError, match=how):
        repair_store(tmp_path / "old", tmp_path / "new")


def test_a_repair_that_dies_says_so(child: Callable[[str], None], tmp_path: Path) -> None:
    child("kill -BUS $$")
    with pytest.raises(CorruptLog, match=r"has died \(SIGBUS\)"):
        repair_store(tmp_path / "old", tmp_path / "new")


def test_a_childs_prints_do_not_mix_with_its_lines(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A child tells in lines, and its prints do not come between."""

    def work(progress: Callable[[int, int], object]) -> Answer:
        print("a line of a log")
        progress(1, 2)
        return Answer(7)

    def full(_: Any) -> Answer:
        raise DiskFull("no room")

    for each in (work, full):
        with monkeypatch.context() as restored:
            restored.setattr("sys.stdout", sys.stdout)
            answer_parent(each)

    out, err = capfd.readouterr()
    assert [json.loads(line) for line in out.splitlines()] == [
        {"done": 1, "total": 2},
        {"result": {"number": 7}},
        {"error": "DiskFull", "message": "no room"},
    ]
    assert err == "a line of a log\n"
