"""Several processes that write through one store, while the one that owns it is killed and stopped.

Processes of processes_child.py begin at the same moment on a directory that is not there yet. Then
one fault after another strikes: see `FAULTS`. A process that is gone is replaced by a new one, at
once. When all faults have struck and each place has written enough, all processes are stopped, and
processes_check.py checks the content of the store, and the files beside it.

Besides, two processes open a new store at the same moment, many times.
"""

import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import NamedTuple

from bench.faults.processes_check import Notes, harm, leftovers
from bench.faults.processes_child import work
from bench.faults.row import Counts, Row
from bench.faults.trials import in_child
from memory_actors.sharing.address import read_address
from memory_actors.sharing.connecting import SILENCE_S

PAIRS = {"quick": 1, "middle": 20, "full": 200}
GAP_S_MIN = 0.05  # between two faults
END_S_MAX = 60.0
CHECK_S_MAX = 300.0
_fork = get_context("fork")


class Plan(NamedTuple):
    """The size of a row."""

    rounds: int
    processes: int
    writes: int
    """The minimum of each place."""
    times: int
    """The count of each fault in a round."""
    gap_s_max: float
    """Between two faults."""
    frozen_s: float
    for_long: bool
    """True if an owner is also stopped for longer than clients wait."""


PLANS = {
    "quick": Plan(1, 3, 60, 1, 0.4, 0.5, for_long=False),
    "middle": Plan(1, 8, 1_000, 4, 0.8, 5.0, for_long=True),
    "full": Plan(8, 8, 1_000, 5, 0.8, 5.0, for_long=True),
}


def run(counts: Counts, seed: int, scratch: Path) -> Row:
    """Strike processes that share a store, and see what is lost."""
    row, plan = (
        Row(fault="processes that share a store are killed, stopped and closed"),
        PLANS[counts],
    )
    for n in range(plan.rounds):
        _round(row, plan, scratch / f"{n}", seed * 1_000 + n)
    for n in range(PAIRS[counts]):
        _pair(row, scratch / f"pair {n}", seed + n)
    return row


def _round(row: Row, plan: Plan, scratch: Path, seed: int) -> None:
    scratch.mkdir()
    rng = random.Random(seed)
    crew = Crew(scratch, plan, rng)
    faults = [*FAULTS] * plan.times + ["owner stopped for long"] * plan.for_long
    rng.shuffle(faults)
    try:
        for fault in faults:
            time.sleep(rng.uniform(GAP_S_MIN, plan.gap_s_max))
            STRIKES[fault](crew)
            crew.replace_dead()
            row.survive(fault)
        hung = crew.finish(plan.writes)
    finally:
        crew.kill_all()
    if hung:
        row.fail("hung", f"{hung} processes do not end")
    _judge(row, crew, timeouts=plan.for_long)


def _judge(row: Row, crew: "Crew", *, timeouts: bool) -> None:
    if left := leftovers(crew.store):
        row.fail("left", str(left))
    notes = Notes(crew.notes)
    row.count("acknowledged", len(notes.writes))
    longest_s = max((call["took_s"] for call in notes.done), default=0.0)
    row.detail["longest call, s"] = max(longest_s, float(row.detail.get("longest call, s", 0)))
    ending = in_child(partial(_checked, crew, timeouts=timeouts), CHECK_S_MAX)
    if ending.kind != "harmless":
        for line in ending.detail.splitlines():
            what, _, example = line.partition(": ")
            row.fail(what, example, lost=what in ("lost", "twice", "wrong", "half"))


def _checked(crew: "Crew", *, timeouts: bool) -> tuple[str, str]:
    found = list(harm(crew.store, Notes(crew.notes), crew.kills, timeouts=timeouts))
    said = "\n".join(f"{what}: {example}"[:600] for what, example in found[:40])
    return ("harm", said) if found else ("harmless", "")


def _pair(row: Row, scratch: Path, seed: int) -> None:
    scratch.mkdir()
    crew = Crew(scratch, Plan(1, 2, 1, 0, 0.0, 0.0, for_long=False), random.Random(seed))
    try:
        hung = crew.finish(1)
    finally:
        crew.kill_all()
    if hung:
        row.fail("hung", f"{hung} of two processes do not end")
    else:
        row.survive("opened at once")
    _judge(row, crew, timeouts=False)


class Crew:
    """Processes that have one store open."""

    def __init__(self, scratch: Path, plan: Plan, rng: random.Random):
        self.store = scratch / "store"
        self.plan, self.rng = plan, rng
        self.kills: list[float] = []
        """The moments of all kills, and of stops beside them that count as such."""
        self.notes: list[Path] = []
        self._places: list[list[Path]] = [[] for _ in range(plan.processes)]
        self._processes = [self._begun(place) for place in range(plan.processes)]

    def _begun(self, place: int) -> BaseProcess:
        life = len(self._places[place])
        name = f"w{place}g{life}"
        notes = self.store.with_name(name)
        self._places[place].append(notes)
        self.notes.append(notes)
        seed = self.rng.randrange(1 << 30)
        process = _fork.Process(target=work, args=(self.store, name, notes, seed), daemon=True)
        process.start()
        return process

    def replace_dead(self) -> None:
        """Begin a new process in the place of each that has gone."""
        for place, process in enumerate(self._processes):
            if not process.is_alive():
                process.join()
                self._processes[place] = self._begun(place)

    def owner(self, wait_s: float = 10.0) -> int:
        """Return the process that has the store; 0 if there is none for so long."""
        until = time.monotonic() + wait_s
        while time.monotonic() < until:
            address = read_address(self.store)
            if address is not None and address.pid in self.alive():
                return address.pid
            time.sleep(0.002)
        return 0

    def alive(self) -> list[int]:
        """Return the processes that live."""
        return [one.pid for one in self._processes if one.is_alive() and one.pid]

    def clients(self) -> list[int]:
        """Return the processes that live and do not have the store."""
        owner = self.owner()
        return [pid for pid in self.alive() if pid != owner]

    def taking_over(self) -> int:
        """Return the process that tries to get the store, or just has; 0 if there is none."""
        inode = f":{self.store.stat().st_ino}"
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].endswith(inode):
                pid = int(fields[4])
                return pid if pid in self.alive() else 0
        return self.owner(0.001)

    def signal(self, pid: int, sent: signal.Signals) -> None:
        """Send a signal, and note when it kills."""
        if not pid:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, sent)
        if sent is signal.SIGKILL:
            self.kills.append(time.time())
            self._join(pid)

    def _join(self, pid: int) -> None:
        for process in self._processes:
            if process.pid == pid:
                process.join(10)

    def close(self, pid: int) -> None:
        """Tell a process to stop, and wait until it has."""
        self.signal(pid, signal.SIGTERM)
        self._join(pid)

    def finish(self, writes: int) -> int:
        """Tell all to stop when each place has written enough; return how many do not end."""
        until = time.monotonic() + END_S_MAX
        while min(map(self._written, self._places)) < writes and time.monotonic() < until:
            time.sleep(0.05)
            self.replace_dead()
        for pid in self.alive():
            self.signal(pid, signal.SIGTERM)
        until = time.monotonic() + END_S_MAX
        for process in self._processes:
            process.join(max(0.0, until - time.monotonic()))
        return len(self.alive())

    def _written(self, place: list[Path]) -> int:
        return sum(notes.read_bytes().count(b'"done"') for notes in place if notes.exists())

    def kill_all(self) -> None:
        """Kill every process, at once."""
        pids = self.alive()
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if pids:
            self.kills.append(time.time())
        for pid in pids:
            self._join(pid)


# --- faults


def _kill_owner(crew: Crew) -> None:
    crew.signal(crew.owner(), signal.SIGKILL)


def _kill_successors(crew: Crew) -> None:
    crew.signal(crew.owner(), signal.SIGKILL)
    for _ in range(len(crew.alive()) - 1):
        until = time.monotonic() + 2
        while not (pid := crew.taking_over()) and time.monotonic() < until:
            pass
        time.sleep(crew.rng.uniform(0, 0.05))
        crew.signal(pid, signal.SIGKILL)


def _stop_owner(crew: Crew, for_s: float | None = None) -> None:
    pid = crew.owner()
    crew.signal(pid, signal.SIGSTOP)
    time.sleep(crew.plan.frozen_s if for_s is None else for_s)
    crew.signal(pid, signal.SIGCONT)


def _stop_and_kill_owner(crew: Crew) -> None:
    pid = crew.owner()
    crew.signal(pid, signal.SIGSTOP)
    crew.kills.append(time.time())  # from now on it writes nothing
    time.sleep(crew.plan.frozen_s / 2)
    crew.signal(pid, signal.SIGKILL)


def _stop_client(crew: Crew) -> None:
    for pid in crew.clients()[:1]:
        crew.signal(pid, signal.SIGSTOP)
        crew.signal(crew.owner(), signal.SIGKILL)
        time.sleep(crew.plan.frozen_s / 2)
        crew.signal(pid, signal.SIGCONT)
        crew.kills.append(time.time())  # it notes only now what the owner answered before


def _kill_clients(crew: Crew) -> None:
    for pid in crew.clients()[:2]:
        crew.signal(pid, signal.SIGKILL)


FAULTS: dict[str, Callable[[Crew], None]] = {
    "owner killed": _kill_owner,
    "owner killed again": _kill_owner,
    "successors killed": _kill_successors,
    "owner stopped": _stop_owner,
    "owner stopped and killed": _stop_and_kill_owner,
    "client stopped, owner killed": _stop_client,
    "clients killed": _kill_clients,
    "all killed": Crew.kill_all,
    "owner closed": lambda crew: crew.close(crew.owner()),
}
STRIKES = {**FAULTS, "owner stopped for long": partial(_stop_owner, for_s=SILENCE_S + 3)}
