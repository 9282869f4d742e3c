"""Nodes that share a store in PostgreSQL, struck by one fault after another while all are busy.

Every node is a process (node.py), reaches the database through a proxy of its own, and is reached
by the others through another (frames.py). Its workers call the users of all nodes, and note before
and after each call what they asked and were answered (journal.py). When a fault has struck some
times (faults.py), all nodes end, and their notes are compared with each other, and with the store
(check.py). Then the next cluster begins, on a store of its own.

`pause` is the longest call about a user that was under way when a fault struck or began before the
next one: those of the workers of the node that was struck do not count.

Two controls show that harm would be seen. Without the fence every append passes, and nodes that
were frozen must be seen to write what they may not. Without the lease a node answers from what it
holds whether or not others may have taken it over, and must be seen to answer what is old.
"""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from bench.cluster.check import Harm, all_harm, journals_of, stale, stale_commits
from bench.cluster.cluster import Cluster, Plan, preload, running
from bench.cluster.faults import FAULTS, Struck, settle, strike
from bench.cluster.journal import Line
from bench.cluster.node import Without
from bench.postgres import served_by
from bench.report import Options, Report, Table, facts, percentile, scratch

CONTROL_FAULTS = ("freeze-batch", "freeze")
SEEN_WITHOUT = {"fence": "stale commit", "lease": "stale read"}
LOST = ("lost", "another answer")
STALE = ("stale commit", "stale read")
SHOWN_MAX = 8
"""Examples that are shown of one fault."""
NOTES = (
    "pauses in s: longest call about a user in each round, of workers of nodes not struck",
    "other harm: gaps, epochs or versions that fell, diverged or damaged states, errors, hung",
    "woken: s from SIGCONT to the first answer that a worker of the frozen node got",
)


class Outcome(msgspec.Struct):
    """The result of one fault, tried many times."""

    fault: str
    rounds: int = 0
    writes: int = 0
    reads: int = 0
    harm: Counter[str] = msgspec.field(default_factory=Counter)
    examples: list[str] = []
    pauses_s: list[float] = []
    """Pauses of the users of the node that was struck."""
    others_s: list[float] = []
    woken_s: list[float] = []

    def row(self) -> list[Any]:
        """Return a row of the report."""
        counted = self.harm
        known = (*LOST, "doubled", *STALE)
        return [
            self.fault, self.rounds, self.writes, self.reads,
            sum(counted[what] for what in LOST), counted["doubled"],
            counted["stale commit"], counted["stale read"],
            sum(n for what, n in counted.items() if what not in known),
            *_of(self.pauses_s), *_of(self.others_s), *_of(self.woken_s)[:1],
        ]  # fmt: skip


COLUMNS = (
    "fault", "rounds", "writes", "reads", "lost", "doubled", "stale commits", "stale reads",
    "other harm", "pause p50", "p99", "max", "others p50", "p99", "max", "woken p50",
)  # fmt: skip


def _of(times_s: Sequence[float]) -> list[float | None]:
    if not times_s:
        return [None, None, None]
    return [percentile(times_s, 50), percentile(times_s, 99), max(times_s)]


def run(faults: Sequence[str], rounds: int, plan: Plan, options: Options) -> Report:
    """Strike with each fault so many times; in a control, count what is stale."""
    preload()
    outcomes = [Outcome(fault) for fault in faults]
    with scratch(options) as directory, served_by(directory, {"fsync": "off"}) as server:
        try:
            for number, outcome in enumerate(outcomes):
                for first in range(0, rounds, plan.rounds_max):
                    schema = f"cluster_{number}_{first}"
                    seed = options.seed * 100_000 + number * 1_000 + first
                    strikes = [outcome.fault] * min(plan.rounds_max, rounds - first)
                    with running(directory / schema, server, schema, plan, seed) as cluster:
                        live(cluster, outcome, strikes)
                    server = cluster.server
                    _tell(outcome)
        finally:
            server.remove()
        about = facts(
            directory, options, ("psycopg", "lmdb"),
            nodes=plan.nodes, users=plan.users, workers=plan.workers * plan.nodes,
            without=plan.without or "-",
        )  # fmt: skip
    tables = [Table("Harm and pauses", COLUMNS, [one.row() for one in outcomes])]
    harm = sum((outcome.harm for outcome in outcomes), Counter[str]())
    ok = not harm if plan.without is None else harm[SEEN_WITHOUT[plan.without]] > 0
    return Report("Cluster", about, [*tables, *_examples(outcomes)], NOTES, ok=ok)


def _examples(outcomes: Sequence[Outcome]) -> Iterator[Table]:
    rows = [[outcome.fault, one] for outcome in outcomes for one in outcome.examples]
    if rows:
        yield Table("Examples", ("fault", "harm"), rows)


def live(cluster: Cluster, outcome: Outcome, faults: Sequence[str]) -> None:
    """Strike a cluster with one fault after another, end it, and note what came of it."""
    struck: list[Struck] = []
    settle(cluster)
    for fault in faults:
        one = strike(cluster, fault)
        struck.append(one._replace(over_s=settle(cluster)))
    cluster.finish()
    journals = journals_of(cluster)
    outcome.rounds += len(faults)
    for noted in journals.values():
        outcome.writes += sum(line.what == "done" for line in noted)
        outcome.reads += sum(line.what == "read" for line in noted)
    _measure(outcome, struck, journals)
    _judge(cluster, outcome, journals)


def _judge(cluster: Cluster, outcome: Outcome, journals: dict[str, list[Line]]) -> None:
    if cluster.plan.without is not None:
        outcome.harm += Counter(one.what for one in stale(cluster, journals))
        return
    killed = {name for name, noted in journals.items() if not noted or noted[-1].what != "ended"}
    found: list[Harm] = list(all_harm(cluster, journals, killed))
    outcome.harm.update(one.what for one in found)
    shown = Counter[str]()
    for one in found:
        shown[one.what] += 1
        if shown[one.what] <= SHOWN_MAX:
            outcome.examples.append(f"{one.what}: {one.example}"[:700])


def _measure(outcome: Outcome, struck: Sequence[Struck], journals: dict[str, list[Line]]) -> None:
    """Note the pause of every user at every fault; what the one before left is its own."""
    ends_s = [*(one.at_s for one in struck[1:]), time.monotonic()]
    before_s = 0.0
    for one, end_s in zip(struck, ends_s, strict=True):
        longest: dict[str, float] = {}
        for name, noted in journals.items():
            if name in one.names:
                continue
            for line in noted:
                took_s = min(line.at_s, end_s) - line.from_s
                if line.from_s > before_s and line.at_s > one.at_s:
                    longest[line.user] = max(took_s, longest.get(line.user, 0.0))
        for user, took_s in longest.items():
            (outcome.pauses_s if user in one.users else outcome.others_s).append(took_s)
        if one.woke_s:
            outcome.woken_s += _woken(one, journals)
        before_s = one.over_s


def _woken(struck: Struck, journals: dict[str, list[Line]]) -> list[float]:
    answers = (
        line.at_s - struck.woke_s
        for name in struck.names
        for line in journals[name]
        if line.what in ("done", "read") and line.at_s > struck.woke_s
    )
    return [first] if (first := next(answers, None)) is not None else []


def _tell(outcome: Outcome) -> None:
    counted = ", ".join(f"{n} {what}" for what, n in outcome.harm.items()) or "no harm"
    said = f"{outcome.fault}: {outcome.rounds} rounds, {counted}"
    print(said, *outcome.examples, sep="\n    ", file=sys.stderr, flush=True)


def names_of(faults: str | None, without: Without) -> tuple[str, ...]:
    """Return the faults that are named, separated by commas.

    :raises ValueError: there is no such fault.
    """
    names = CONTROL_FAULTS if without is not None else FAULTS
    names = names if faults is None else tuple(faults.split(","))
    if unknown := set(names) - set(FAULTS):
        raise ValueError(f"no faults {sorted(unknown)}: there are {', '.join(FAULTS)}")
    return names


__all__ = ["Outcome", "Plan", "live", "names_of", "run", "running", "stale_commits"]
