"""kill -9 while a log is archived, dropped from, erased from, backed up and shrunk.

Acknowledged events must be there afterwards, erased ones must not, and a backup is whole or absent.

A tracer ends the process at each line of the code that does the upkeep, one after another, the
first time it comes there. `bench/kill.py` kills whole stores at random moments.

An event's text follows from its stream and version, so that whatever is read can be checked. A
process writes to a pipe what has been acknowledged. Its parent then opens the same log and checks
that every stream goes as far as was acknowledged, that every text is right, that all of it
verifies, and that no unknown file is left.
"""

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pytest

from eventlog import Dropped, EventLog, EventLogError, EventRegistry, copy_log
from eventlog.lmdb.segment import parse_name

TRACED = {
    "archive", "copying", "datafile", "environment", "erasing", "log_directory", "opening",
    "segment", "upkeep",
}  # fmt: skip
FOREVER = 2**62

registry = EventRegistry()


@registry.event("test.noted", keys=lambda event: [event.text[:9]])
class Noted(msgspec.Struct, frozen=True):
    text: str


class Findings(msgspec.Struct):
    """The findings after kills."""

    kills: int = 0
    lost: int = 0
    wrong: int = 0
    damaged: list[str] = []
    left: list[str] = []

    @property
    def harm(self) -> tuple[int, int, list[str], list[str]]:
        """Return what should be nothing."""
        return self.lost, self.wrong, self.damaged, self.left


NO_HARM: tuple[int, int, list[str], list[str]] = (0, 0, [], [])


def event(stream: str, version: int) -> Noted:
    size = 30 if version % 17 else 3000
    return Noted(f"{stream} {version:06} " + "content " * (size // 8))


async def check(path: Path, acknowledged: dict[str, int], findings: Findings) -> None:
    async with EventLog.open(path, registry) as log:
        report = await log.verify()
        findings.damaged += [found.message for found in report.findings]
        left = texts_in(path)
        for stream in {*acknowledged, *await log.streams()}:
            events = await log.read_stream(stream, 0, 1_000_000, dropped="mark")
            findings.lost += max(0, acknowledged.get(stream, 0) - len(events))
            findings.wrong += sum(
                not isinstance(each.data, Dropped) and each.data != event(stream, each.version)
                for each in events
            )
            erased = (await log.head(stream)).erased_version
            findings.left += [f"{stream} {n}" for n in range(1, erased + 1) if (stream, n) in left]
        segments = (await log.archive_statistics()).segments
    await check_backups(path, findings)
    names = {file.name for file in path.iterdir()} - {"archive"}
    findings.left += names - {"log.mdb", "log.mdb-lock", "log.mdb.lock", "log.anchor"}
    archived = [file.name for file in path.glob("archive/*")]
    if len(archived) != segments or any(parse_name(name) is None for name in archived):
        findings.left += archived


async def check_backups(path: Path, findings: Findings) -> None:
    for directory in path.parent.glob(f"{path.name}.backup-*"):
        if directory.suffix == ".partial":
            continue
        try:
            copy_log(directory, path.with_name("restored"), registry)
            async with EventLog.open(path.with_name("restored"), registry) as log:
                findings.damaged += [found.message for found in (await log.verify()).findings]
        except EventLogError as error:
            findings.damaged.append(f"{directory.name}: {error}")
        for done in (directory, path.with_name("restored")):
            shutil.rmtree(done, ignore_errors=True)


def texts_in(path: Path) -> set[tuple[str, int]]:
    """Return the events of whose texts a file of the log has the beginning: stream and version."""
    begins = re.compile(rb"([a-d]) (\d{6}) content")
    found = [begins.findall(file.read_bytes()) for file in path.rglob("log.mdb*")]
    return {(stream.decode(), int(version)) for each in found for stream, version in each}


async def scenario(path: Path, acknowledge: Callable[[str, int], None]) -> None:
    """Do every kind of upkeep once, with appends between."""

    async def append(log: EventLog, stream: str, count: int = 1) -> None:
        version = (await log.head(stream)).version
        events = [event(stream, version + 1 + n) for n in range(count)]
        await log.append(stream, events, version)
        acknowledge(stream, version + count)

    async with EventLog.open(path, registry) as log:
        await append(log, "a", 40)
        await log.archive("a", range(1, 31))
        await append(log, "a")
        await log.shrink(force=True)
        await append(log, "b", 20)
        await log.archive("b", range(1, 11))
        await log.drop_archived(FOREVER, "a")
        await log.backup(unused(path))
        await append(log, "a")
        await log.shrink(force=True)
        await append(log, "b")
        await log.erase("b")
        await append(log, "b")


def unused(path: Path) -> Path:
    """Return where the next backup of a log goes."""
    return path.with_name(f"{path.name}.backup-{os.getpid()}-{time.monotonic_ns()}")


Line = tuple[str, int]


def traced(reached: Callable[[Line], None]) -> None:
    """Tell of every line of the upkeep's code that is about to run, in every thread."""

    def local(frame: FrameType, what: str, _: Any) -> Any:
        if what == "line":
            reached((frame.f_code.co_filename, frame.f_lineno))
        return local

    def called(frame: FrameType, _what: str, _: Any) -> Any:
        path = Path(frame.f_code.co_filename)
        return local if path.stem in TRACED and path.parents[1].name == "eventlog" else None

    threading.settrace(called)
    sys.settrace(called)


def lines_of_the_scenario(path: Path) -> list[Line]:
    """Return every line that the scenario comes to, in order of the first time."""
    lines: dict[Line, None] = {}
    traced(lambda line: lines.setdefault(line))
    try:
        asyncio.run(scenario(path, lambda _stream, _version: None))
    finally:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]
    return list(lines)


def die_at(wanted: Line, path: Path) -> dict[str, int]:
    """Run the scenario in a child that dies at a line; return what it had acknowledged."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        traced(lambda line: os.kill(os.getpid(), signal.SIGKILL) if line == wanted else None)
        asyncio.run(
            scenario(path, lambda stream, v: os.write(write_end, f"{stream} {v}\n".encode()))
        )
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        acknowledged = {stream: int(version) for stream, version in map(str.split, pipe)}
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), f"{wanted} was not reached"
    return acknowledged


def kill_at_lines(directory: str, every: str) -> None:
    """Kill at each n-th line, each time over a new log; print what was found. Run as a script."""
    findings = Findings()
    lines = lines_of_the_scenario(Path(directory) / "whole")
    for n, line in enumerate(lines[:: int(every)]):
        path = Path(directory) / str(n)
        acknowledged = die_at(line, path)
        findings.kills += 1
        asyncio.run(check(path, acknowledged, findings))
        asyncio.run(again(path, acknowledged, findings))
        if findings.harm != NO_HARM:
            findings.left.append(f"first at {line}")
            break
        shutil.rmtree(path)
    sys.stdout.buffer.write(msgspec.json.encode(findings))


async def again(path: Path, acknowledged: dict[str, int], findings: Findings) -> None:
    """Do it all once more in what a dead process has left."""
    await scenario(path, lambda stream, version: acknowledged.update({stream: version}))
    await check(path, acknowledged, findings)


def killed_at_lines(path: Path, every: int) -> Findings:
    """Run `kill_at_lines` in a process without threads of its own: its children are forks."""
    run = subprocess.run(
        [sys.executable, __file__, str(path), str(every)],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True, timeout=900, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr.decode()
    return msgspec.json.decode(run.stdout, type=Findings)


@pytest.mark.parametrize("every", [36])
def test_kill_9_at_lines_of_upkeep_loses_nothing(tmp_path: Path, every: int) -> None:
    findings = killed_at_lines(tmp_path, every)

    assert findings.harm == NO_HARM
    assert findings.kills > 10


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_9_at_any_line_of_upkeep_loses_nothing(tmp_path: Path) -> None:
    findings = killed_at_lines(tmp_path, 1)

    print(findings.kills)
    assert findings.harm == NO_HARM
    assert findings.kills > 300


if __name__ == "__main__":
    kill_at_lines(*sys.argv[1:])
