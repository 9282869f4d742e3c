"""One flipped bit in a file of the log is detected or harmless; it is never served.

Each trial runs in a forked child of a process that this file starts with itself as the script: LMDB
may end a process by signal when its tree is damaged, and that counts as detected. A child opens the
log, reads everything in every way there is, verifies, and compares with what was written.
"""

import asyncio
import collections
import json
import os
import random
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from eventlog import Checkpoint, EventLog, EventLogError, EventRegistry, Snapshot

STREAMS = [f"u{n}" for n in range(12)]
OUTCOMES = ["harmless", "refused", "found", "killed", "untyped", "wrong", "wrong, and verified"]
EVENTS = {"all", "streams", "event", "head", "stream"}
LOOK_UPS = {"about", "request", "checkpoint", "entry", "snapshot"}
TRIAL_S = 20

registry = EventRegistry(salt=random.Random(7).randbytes)


@registry.event("test.noted", keys=lambda event: [event.about])
class Noted(msgspec.Struct, frozen=True):
    text: str
    about: str


async def write(path: Path) -> None:
    rng = random.Random(7)
    async with EventLog.open(path, registry, clock=lambda: 1_700_000_000_000_000) as log:
        for turn in range(160):
            stream = rng.choice(STREAMS)
            size = rng.choice([10, 100, 300, 3000])
            text = "".join(rng.choices("abcdefgh ", k=size))
            version = (await log.head(stream)).version
            await log.append(
                stream, [Noted(text, f"k{turn % 5}")], version, epoch=1,
                idempotency_key=f"r{turn}", request=b"add",
                checkpoint=Checkpoint("p", turn, {b"k%d" % (turn % 7): b"v%d" % turn}),
            )  # fmt: skip
            if turn % 40 == 39:
                await log.save_snapshot(stream, Snapshot(version, b"state" * 100), "f")


def queries(log: EventLog) -> dict[str, Callable[[], Awaitable[Any]]]:
    """Return everything that can be asked of the log, by a name."""
    asked: dict[str, Callable[[], Awaitable[Any]]] = {
        "all": lambda: log.read_all(0, 1000),
        "streams": log.streams,
        "checkpoint": lambda: log.load_checkpoint("p"),
    }
    for n in range(7):
        asked[f"entry {n}"] = lambda n=n: log.load_entry("p", b"k%d" % n)
    for position in range(1, 161):
        asked[f"event {position}"] = lambda position=position: log.read_event(position)
    for s in STREAMS:
        asked[f"head {s}"] = lambda s=s: log.head(s)
        asked[f"stream {s}"] = lambda s=s: log.read_stream(s)
        asked[f"snapshot {s}"] = lambda s=s: log.load_snapshot(s, "f")
        for n in range(5):
            asked[f"about {s} {n}"] = lambda s=s, n=n: log.versions_about(s, f"k{n}")
        for n in range(160):
            asked[f"request {s} {n}"] = lambda s=s, n=n: log.find_request(s, f"r{n}", b"add")
    return asked


def plain(name: str, answer: Any) -> Any:
    """Return an answer to compare and store; a snapshot may always be ignored."""
    if name == "streams":
        return sorted(answer)
    return msgspec.to_builtins(answer)


async def ask_everything(log: EventLog) -> tuple[dict[str, Any], int]:
    """Return the answers, and how many questions were refused by a typed error."""
    answers, refused = {}, 0
    for name, ask in queries(log).items():
        try:
            answers[name] = plain(name, await ask())
        except EventLogError:
            refused += 1
    return answers, refused


def is_wrong(name: str, answer: Any, truth: dict[str, Any]) -> bool:
    return answer != truth[name] and not (name.startswith("snapshot") and answer is None)


async def examine(path: Path, truth: dict[str, Any]) -> str:
    try:
        async with EventLog.open(path, registry) as log:
            answers, refused = await ask_everything(log)
            report = await log.verify()
    except EventLogError:
        return "refused"
    wrong = {name.split()[0] for name in answers if is_wrong(name, answers[name], truth)}
    if wrong:
        kind = "wrong, and verified" if report.ok and not refused else "wrong"
        return f"{kind}\t{' '.join(sorted(wrong))}"
    if refused:
        return "refused"
    return "harmless" if report.ok else "found"


def trial(source: Path, target: Path, name: str, seed: int, truth: dict[str, Any]) -> str:
    """Flip one bit of a copy and return how it went."""
    for file in ("log.mdb", "log.anchor"):
        (target / file).write_bytes((source / file).read_bytes())
    data = bytearray((target / name).read_bytes())
    bit = random.Random(seed).randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    (target / name).write_bytes(data)
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            outcome = asyncio.run(asyncio.wait_for(examine(target, truth), TRIAL_S))
        except BaseException as error:
            outcome = f"untyped\t{type(error).__module__}.{type(error).__name__}: {error}"[:200]
        os.write(write_end, outcome.encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        outcome = pipe.read()
    status = os.waitpid(child, 0)[1]
    if not outcome:
        outcome = f"killed\tby signal {os.WTERMSIG(status)}"
    return f"{outcome}\tbyte {bit // 8} of {len(data)}, seed {seed}"


def simulate(directory: str, name: str, trials: str) -> None:
    """Write a log, then run the trials, one line of output each."""
    source, target = Path(directory) / "whole", Path(directory) / "damaged"
    target.mkdir()
    asyncio.run(write(source))

    async def know() -> tuple[dict[str, Any], int]:
        async with EventLog.open(source, registry) as log:
            return await ask_everything(log)

    truth, refused = asyncio.run(know())
    assert refused == 0
    assert len(truth["all"]) == 160
    for seed in range(int(trials)):
        print(json.dumps(trial(source, target, name, seed, truth)), flush=True)


def outcomes_of(path: Path, name: str, trials: int, script: str = __file__) -> dict[str, list[str]]:
    """Run a simulation in another process; return its outcomes, by kind."""
    root = Path(__file__).parents[2]
    run = subprocess.run(
        [sys.executable, script, str(path), name, str(trials)],
        env={**os.environ, "PYTHONPATH": f"{root}:{root / 'tests'}"},
        capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    outcomes = collections.defaultdict(list)
    for line in run.stdout.splitlines():
        kind, _, detail = json.loads(line).partition("\t")
        outcomes[kind].append(detail)
    print({kind: len(outcomes[kind]) for kind in OUTCOMES})
    assert sum(map(len, outcomes.values())) == trials
    assert set(outcomes) <= set(OUTCOMES)
    return outcomes


def wrong_answers(outcomes: dict[str, list[str]], asked: set[str]) -> list[str]:
    """Return the trials in which a question of these kinds got a wrong answer."""
    wrong = outcomes["wrong"] + outcomes["wrong, and verified"]
    return [detail for detail in wrong if asked & set(detail.split("\t")[0].split())]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return outcomes_of(tmp_path_factory.mktemp("tables"), "log.mdb", 50)


def test_damage_to_the_tables_never_changes_what_the_log_says(outcomes: dict[str, list[str]]):
    assert wrong_answers(outcomes, EVENTS) == []
    assert len(outcomes["refused"]) + len(outcomes["found"]) > 10


def test_damage_to_the_tables_never_changes_what_is_looked_up(outcomes: dict[str, list[str]]):
    assert wrong_answers(outcomes, LOOK_UPS) == []


def test_damage_that_changes_an_answer_is_found_by_a_verification(outcomes: dict[str, list[str]]):
    assert outcomes["wrong, and verified"] == []


def test_damage_to_the_tables_raises_only_the_logs_own_errors(outcomes: dict[str, list[str]]):
    assert outcomes["untyped"] == []


def test_a_flipped_bit_in_the_anchor_costs_nothing(tmp_path: Path):
    """The other slot is still there; a log that is whole opens and answers."""
    outcomes = outcomes_of(tmp_path, "log.anchor", 20)

    assert len(outcomes["harmless"]) == 20


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_flipped_bits_change_no_event_and_are_found(tmp_path: Path):
    """Of many flipped bits none changes an event or escapes verification.

    A damaged branch page may hide a row of an index from a look-up; verification finds it.
    """
    trials = 3000
    outcomes = outcomes_of(tmp_path, "log.mdb", trials)

    assert wrong_answers(outcomes, EVENTS) == []
    assert len(wrong_answers(outcomes, LOOK_UPS)) <= trials // 500
    assert outcomes["wrong, and verified"] == outcomes["untyped"] == []


if __name__ == "__main__":
    simulate(*sys.argv[1:])
