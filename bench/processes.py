"""Several processes on one store: what a client pays, what the owner pays, and what a kill costs.

- Calls: a client and the owner make the same call in turn, one after another, so that a busy moment
  of the machine hits both alike, and both find caches as cold. The difference is of the medians.
  The report also has a bare socket between two processes, one of which computes for as long as the
  owner's own call took before it answers: the cost of a call on this machine without us.
- Throughput: some client processes with a task each, beside the owner alone with as many tasks; the
  two take turns. Meanwhile the owner makes a call of its own every 5 ms, in both.
- Kills: the owner is killed again and again while clients write and search for users of many
  memories. The pause of a client is its longest call of those that were under way at a kill.
- A client: its import and its resident memory, in a fresh process.

The embedder hashes words: no model takes part.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bench.report import Options, Report, Table, facts, median, percentile, scratch

ROOT = Path(__file__).parents[1]
MORE_MS_MAX = {"working.get": 0.35, "retrieve": 0.5}
THROUGHPUT_MIN = 0.8
P99_RATIO_MAX = 2.0
PAUSE_S_MAX = 2.0
CLIENT_MB_MAX = 40.0
IMPORT_S_MAX = 0.3
CLIENTS_KILLED_BESIDE = 3
MEMORIES = 1_000
WARM_UP_CALLS = 20
KILL_GAP_S = 1.5
SMALL = """
import sys, time
started = time.perf_counter()
from memory_actors import MemorySystem
took = time.perf_counter() - started
import asyncio, json

async def main():
    memory = await MemorySystem.open(sys.argv[1])
    user = memory.user("user 0")
    for _ in range(20):
        await user.working.get("city")
        await user.retrieve("tea", top_k=10)
    lines = open("/proc/self/status").read().splitlines()
    kib = {line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("VmRSS")}
    print(json.dumps([took, kib["VmRSS:"] / 1024]))
    await memory.close()

asyncio.run(main())
"""


BARE = """
import socket, sys, time
with socket.socket(fileno=int(sys.argv[1])) as asked:
    while said := asked.recv(64):
        until = time.perf_counter() + float(said)
        while time.perf_counter() < until:
            pass
        asked.sendall(bytes(%d))
"""
BARE_BYTES = 5_000  # as ten memories
BARE_GAP_S = 0.005


class Child:
    """A process that does what it is told."""

    def __init__(self, store: Path, seed: int):
        command = [sys.executable, "-m", "bench.processes_child", str(store), str(seed)]
        env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=env, text=True
        )

    def tell(self, command: str, **arguments: Any) -> None:
        """Send the process a command."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([command, arguments]) + "\n")
        self.process.stdin.flush()

    def heard(self) -> Any:
        """Return the result of the last command."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"process {self.process.pid} has ended")
        return json.loads(line)

    def do(self, command: str, **arguments: Any) -> Any:
        """Have it do something."""
        self.tell(command, **arguments)
        return self.heard()

    def kill(self) -> None:
        """Kill it."""
        with self.process:
            self.process.kill()


@contextmanager
def _processes(store: Path, seed: int, number: int) -> Iterator[list[Child]]:
    children: list[Child] = []
    try:
        children += [Child(store, seed + n) for n in range(number)]
        children[0].do("open")
        for one in children[1:]:
            one.tell("open")
        for one in children[1:]:
            one.heard()
        yield children
    finally:
        for one in children:
            one.kill()


def run(
    clients: int, seconds: float, memories: int, kills: int, calls: int, options: Options
) -> Report:
    """Measure all of it."""
    with scratch(options) as directory:
        rows = [
            *_calls(directory / "calls", calls, options),
            *_throughput(directory / "throughput", clients, seconds, options),
            *_kills(directory / "kills", memories, kills, options.seed),
            *_client(directory / "client", options),
        ]
        about = facts(
            directory, options, ("msgspec", "numpy"),
            clients=clients, seconds=seconds, memories=memories, kills=kills, calls=calls,
        )  # fmt: skip
    return Report(
        "Processes", about, [Table("Asked and measured", COLUMNS, [row for row, _ in rows])],
        NOTES, ok=all(ok for _, ok in rows),
    )  # fmt: skip


COLUMNS = ("what", "in the owner, or alone", "by clients", "figure", "asked", "")
NOTES = (
    "calls: the figure is the difference; that of p10 is what a busy machine adds least to",
    "throughput: calls a second, of the median run; the owner's p99 in ms, of its own calls",
    "pauses: s, of each client at each kill",
)
Rated = tuple[list[Any], bool]
"""A row, and whether it is as asked."""


def _rated(what: str, own: Any, theirs: Any, figure: float, asked: str, *, ok: bool) -> Rated:
    return [what, own, theirs, figure, asked, "ok" if ok else "**missed**"], ok


def _calls(store: Path, calls: int, options: Options) -> Iterator[Rated]:
    with _processes(store, options.seed, 2) as (owner, client):
        owner.do("fill", users=1, memories=MEMORIES)
        for name, more_ms_max in MORE_MS_MAX.items():
            took: dict[Child, list[float]] = {owner: [], client: []}
            for one in (owner, client):
                one.do("timed", name=name, calls=WARM_UP_CALLS)
            for _ in range(calls * options.runs):
                for one, times_ms in took.items():
                    times_ms += one.do("timed", name=name, calls=1)
            for percent in (10, 50, 95):
                own, theirs = (percentile(times_ms, percent) for times_ms in took.values())
                asked = f"<= {more_ms_max} ms" if percent == 50 else "-"
                ok = percent != 50 or theirs - own <= more_ms_max
                yield _rated(f"{name} p{percent}, ms", own, theirs, theirs - own, asked, ok=ok)
            own = median(took[owner])
            theirs = _bare_ms(own, calls)
            what = f"a bare socket, as long as {name}, ms"
            yield _rated(what, own, theirs, theirs - own, "-", ok=True)


def _bare_ms(answered_ms: float, calls: int) -> float:
    """Return the median milliseconds of asking a process that computes for so long."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-c", BARE % BARE_BYTES, str(theirs.fileno())]
    took_ms = []
    with subprocess.Popen(command, pass_fds=[theirs.fileno()]), ours:
        theirs.close()
        for _ in range(calls):
            time.sleep(BARE_GAP_S)
            started_s = time.perf_counter()
            ours.sendall(str(answered_ms / 1e3).encode())
            unread = BARE_BYTES
            while unread:
                unread -= len(ours.recv(unread))
            took_ms.append((time.perf_counter() - started_s) * 1e3)
    return median(took_ms)


def _throughput(store: Path, clients: int, seconds: float, options: Options) -> Iterator[Rated]:
    alone: list[list[float]] = []
    shared: list[list[float]] = []
    with _processes(store, options.seed, clients + 1) as (owner, *others):
        owner.do("fill", users=clients + 1, memories=200)
        for _ in range(options.runs):
            done, probed = owner.do("work_and_probe", seconds=seconds, tasks=clients)
            alone.append([done / seconds, percentile(probed, 99)])
            for n, other in enumerate(others):
                other.tell("work", seconds=seconds, first=n, tasks=1)
            probed = owner.do("probe", seconds=seconds, number=clients)
            done = sum(other.heard() for other in others)
            shared.append([done / seconds, percentile(probed, 99)])
    (own, own_p99), (theirs, their_p99) = (
        [median(column) for column in zip(*rows, strict=True)] for rows in (alone, shared)
    )
    ratio, slower = theirs / own, their_p99 / own_p99
    what = f"throughput of {clients}, calls/s"
    yield _rated(what, own, theirs, ratio, f">= {THROUGHPUT_MIN}", ok=ratio >= THROUGHPUT_MIN)
    ok = slower <= P99_RATIO_MAX
    yield _rated("p99 of the owner's own calls, ms", own_p99, their_p99, slower, "<= 2", ok=ok)


def _kills(store: Path, memories: int, kills: int, seed: int) -> Iterator[Rated]:
    pauses: list[float] = []
    with _processes(store, seed, 1) as (owner,):
        owner.do("fill", users=CLIENTS_KILLED_BESIDE, memories=memories)
        owner.do("close")
    with _processes(store, seed, CLIENTS_KILLED_BESIDE + 1) as children:
        for n in range(kills):
            pauses += _pauses(children, store, seed + 100 + n)
    p99 = percentile(pauses, 99)
    yield _rated(
        f"pauses, {kills} kills, p50, s", None, median(pauses), median(pauses), "-", ok=True
    )
    ok = p99 < PAUSE_S_MAX
    yield _rated(f"pauses, {kills} kills, p99, s", None, p99, p99, f"< {PAUSE_S_MAX:g} s", ok=ok)


def _pauses(children: list[Child], store: Path, seed: int) -> list[float]:
    """Kill the owner; return the pause of each client, and put a new process in its place."""
    pid = json.loads((store / "owner.json").read_text())["pid"]
    owner = next(one for one in children if one.process.pid == pid)
    others = [one for one in children if one is not owner]
    for n, one in enumerate(others):
        one.do("begin", number=n)
    time.sleep(KILL_GAP_S)
    killed_s = time.time()
    owner.kill()
    time.sleep(KILL_GAP_S + PAUSE_S_MAX)
    calls = [one.do("end") for one in others]
    children[children.index(owner)] = Child(store, seed)
    next(one for one in children if one not in others).do("open")
    return [max(took for began, took in each if began + took > killed_s) for each in calls]


def _client(store: Path, options: Options) -> Iterator[Rated]:
    said = []
    with _processes(store, options.seed, 1) as (owner,):
        owner.do("fill", users=1, memories=MEMORIES)
        for _ in range(options.runs + 1):
            command = [sys.executable, "-c", SMALL, str(store)]
            done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
            said.append(json.loads(done.stdout))
    took_s, mb = (median(column) for column in zip(*said[1:], strict=True))  # the first compiles
    asked = f"<= {IMPORT_S_MAX} s"
    yield _rated("import of a client, s", None, took_s, took_s, asked, ok=took_s <= IMPORT_S_MAX)
    asked = f"<= {CLIENT_MB_MAX:g} MB"
    yield _rated("resident memory of a client, MB", None, mb, mb, asked, ok=mb <= CLIENT_MB_MAX)
