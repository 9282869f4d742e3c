"""A reckoning of what very many users need: nodes, databases, bytes, money, and pauses at failures.

The command only calculates. The costs of calls are measured (the table of inputs names the command
for each); how people use it, what machines cost and how often they fail is assumed, and each of
these is an option. A year of failures is drawn at random by a seed: processes, databases and zones
fail independently, and a failed zone takes with it what stands in it.

A store is in one database. If one database cannot carry all users, this reckons with several
stores: the application picks the store of a user, and each store has nodes of its own.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bench.report import Options, Report, Table, facts, scratch

DAY_S = 86_400
ROUNDS = 100
YEAR_DAYS = 365
GB = 1e9
NOTES = (
    "units: of a resource at the peak, each filled to its share; what needs most units comes first",
    "pause: from a failure until the last of those who ask meanwhile is answered",
    "availability: of the seconds of active users; a call in a pause waits, it is not lost",
    "a zone that fails leaves two thirds of the nodes: they must carry the peak alone",
)


class Use(NamedTuple):
    """How people use it: all of it assumed."""

    users: int = 1_000_000_000
    active_a_day: int = 100_000_000
    sessions_a_day: float = 2.0
    session_s: float = 600.0
    writes_a_session: float = 10.0
    reads_a_session: float = 5.0
    memories: int = 100
    """The memories of a user, of all kinds, after compaction."""
    peak: float = 3.0
    """The busiest hour, of the mean."""


class Costs(NamedTuple):
    """The costs of its parts."""

    write_s: float = 0.0041
    """Processor time: an add at 10,000 memories, and its embedding."""
    read_s: float = 0.0045
    activation_s: float = 0.010
    live_bytes: float = 260_000.0
    stored_bytes: float = 4_000.0
    """The bytes of a memory in PostgreSQL: event, keys, its share of snapshots, vector and token
    states."""
    commit_s: float = 0.001
    """The time of a batch, with the lock of the log's tail held: a synchronous standby in another
    zone."""
    batch_s: float = 0.000_2
    """The time of the statements of a batch or a claim, with that lock held."""
    event_s: float = 0.000_015
    """The time of each event in a batch, with that lock held."""
    look_s: float = 0.000_15
    """Processor time of a node that looks where a log ends, having been told that it grew."""
    call_s: float = 0.000_05
    """Processor time of a database for a look or a renewal."""


class Machines(NamedTuple):
    """What is rented: assumed, and rounded."""

    node_cores: int = 8
    node_bytes: float = 32e9
    node_filled: float = 0.6
    database_bytes: float = 8e12
    database_filled: float = 0.7
    database_cores: int = 16
    database_connections: int = 1_600
    """A quarter of 64 GB, at 10 MB each."""
    copies: int = 2
    """A primary and a synchronous standby in another zone."""
    node_a_month: float = 250.0
    database_a_month: float = 1_400.0
    gigabyte_a_month: float = 0.10
    zones: int = 3


class Failures(NamedTuple):
    """How often something fails, and how long its failover takes."""

    node_days: float = 60.0
    """Between two failures of one node, deployments that kill it among them."""
    database_days: float = 365.0
    zone_days: float = 730.0
    lease_s: float = 2.0
    renewed_s: float = 0.4
    database_s: tuple[float, float] = (15.0, 60.0)
    """The shortest and the longest promotion of a standby."""


CONNECTIONS = 11
"""The connections of a node to its database."""
LOOKS_A_S = 100.0
"""The most that a node looks for what others have appended to a database."""


class Load(NamedTuple):
    """The load of each database at the peak."""

    writes_a_s: float
    claims_a_s: float
    batch: float
    """Appends of one batch, in the mean."""
    held_s: float
    """The time for which a batch holds the lock of the tail."""
    tail: float
    """The share of the time in which the lock is held; 1 or more: appends wait without end."""
    connections: int
    renewals_a_s: float
    looks_a_s: float
    """Of all nodes together."""
    looks_of_a_node_a_s: float


class Need(NamedTuple):
    """One resource: how much is needed at the peak, and how much a unit of it has."""

    name: str
    unit: str
    needed: float
    has: float
    removed_by: str

    @property
    def units(self) -> int:
        """The number of units, at least one."""
        return max(1, math.ceil(self.needed / self.has))


def run(use: Use, costs: Costs, options: Options) -> Report:
    """Reckon with this use and these costs."""
    machines, failures = Machines(), Failures()
    needs = needed(use, costs, machines)
    nodes, databases = _fleet(needs, machines)
    with scratch(options) as directory:
        about = facts(directory, options, ("numpy",))
    each = load(use, costs, machines, nodes, databases)
    drawn = a_year(use, costs, nodes, databases, machines, failures, options.seed)
    return Report(
        "Scale, on paper",
        about,
        [
            _inputs(use, costs, machines, failures),
            _limits(needs),
            _each_database(each, costs, machines),
            _money(use, costs, nodes, databases, machines),
            Table("A year of failures", YEAR_COLUMNS, drawn),
        ],
        NOTES,
    )


# --- what is needed


def needed(use: Use, costs: Costs, machines: Machines) -> list[Need]:
    """Return every resource that is needed, what takes the most units of its kind first.

    More nodes of a database mean more looks at it: so it is reckoned until the numbers stay.
    """
    nodes, databases = machines.zones, 1
    for _ in range(ROUNDS):
        found = _needed(use, costs, machines, load(use, costs, machines, nodes, databases))
        before, (nodes, databases) = (nodes, databases), _fleet(found, machines)
        if before == (nodes, databases):
            break
    return sorted(found, key=lambda need: (need.unit, -need.units))


def _needed(use: Use, costs: Costs, machines: Machines, each: Load) -> list[Need]:
    sessions_a_s, writes_a_s = _a_s(use)
    busy = writes_a_s * costs.write_s + sessions_a_s * (
        use.reads_a_session * costs.read_s + costs.activation_s
    )
    live = sessions_a_s * use.session_s
    left = (machines.zones - 1) / machines.zones
    cores = machines.node_cores * machines.node_filled - each.looks_of_a_node_a_s * costs.look_s
    room = machines.node_bytes * machines.node_filled * left
    stored = use.users * use.memories * costs.stored_bytes
    held = writes_a_s / each.batch * each.held_s + sessions_a_s * (costs.commit_s + costs.batch_s)
    return [
        Need("processor time", "node", busy, max(cores, 0.1) * left,
             "more nodes: users are spread over them; a faster model: its pass is half of a write"),
        Need("memory of live users", "node", live * costs.live_bytes, room,
             "a shorter `idle_s`: users are put away sooner, and wake up more often"),
        Need("lock of the tail", "database", held, machines.database_filled,
             "a standby that answers sooner; `add_many`; more stores, each in a database"),
        Need("stored bytes", "database", stored, machines.database_bytes * machines.database_filled,
             "compaction and retention; more stores, each in a database"),
    ]  # fmt: skip


def load(use: Use, costs: Costs, machines: Machines, nodes: int, databases: int) -> Load:
    """Return the load of each database.

    Each node has one batch on its way to its database, and what comes meanwhile is the next one. A
    batch waits for those of other nodes, as in a queue with one server and a constant time.
    """
    sessions_a_s, writes_a_s = _a_s(use)
    writes, claims = writes_a_s / databases, sessions_a_s / databases
    full, own = machines.database_filled, max(1.0, nodes / databases)
    batch = 1.0
    for _ in range(ROUNDS):
        held_s = costs.commit_s + costs.batch_s + batch * costs.event_s
        meanwhile = writes / own * held_s * (1 + full / (2 * (1 - full)))
        batch = meanwhile + math.exp(-meanwhile)  # of none meanwhile, the next append goes alone
    others = writes * (own - 1) / own
    looks = min(LOOKS_A_S, others)
    return Load(
        writes, claims, batch, held_s,
        writes / batch * held_s + claims * (costs.commit_s + costs.batch_s),
        math.ceil(own) * CONNECTIONS, own / Failures().renewed_s, own * looks, looks,
    )  # fmt: skip


def _a_s(use: Use) -> tuple[float, float]:
    sessions_a_s = use.active_a_day * use.sessions_a_day / DAY_S * use.peak
    return sessions_a_s, sessions_a_s * use.writes_a_session


def _fleet(needs: Sequence[Need], machines: Machines) -> tuple[int, int]:
    """Return the numbers of nodes and of databases that everything fits on."""
    most = {unit: max(n.units for n in needs if n.unit == unit) for unit in ("node", "database")}
    nodes = math.ceil(most["node"] / machines.zones) * machines.zones
    return nodes, most["database"]


def _inputs(use: Use, costs: Costs, machines: Machines, failures: Failures) -> Table:
    rows = [
        [name.replace("_", " "), str(value), source]
        for group, source in (
            (use, "assumed"), (costs, "see docs/scale.md"), (machines, "assumed"),
            (failures, "assumed"),
        )
        for name, value in group._asdict().items()
    ]  # fmt: skip
    return Table("Inputs", ["what", "value", "from"], rows)


def _limits(needs: Sequence[Need]) -> Table:
    rows = [[n.unit, n.name, n.needed, n.has, n.units, n.removed_by] for n in needs]
    columns = ["unit", "resource", "needed", "a unit has", "units", "removed by"]
    return Table("Limits, the first of each unit above", columns, rows)


def _each_database(each: Load, costs: Costs, machines: Machines) -> Table:
    calls = (each.looks_a_s + each.renewals_a_s) * costs.call_s
    rows: list[list[Any]] = [
        ["appends and claims a second", each.writes_a_s + each.claims_a_s, None, None, ""],
        ["appends of one batch", each.batch, None, None, "`add_many`"],
        ["time that the tail is locked", each.tail, 1.0, each.tail, "see above"],
        ["connections", each.connections, machines.database_connections,
         each.connections / machines.database_connections,
         "a smaller pool in each node"],
        ["lease renewals a second", each.renewals_a_s, None, None, ""],
        ["looks for what others have appended, a second", each.looks_a_s, None, None,
         "looking only where somebody waits for it"],
        ["cores busy with looks and renewals", calls, machines.database_cores,
         calls / machines.database_cores, "the same"],
        ["looks of one node a second", each.looks_of_a_node_a_s, None, None,
         "the same"],
        ["cores of one node busy with looks", each.looks_of_a_node_a_s * costs.look_s,
         machines.node_cores, each.looks_of_a_node_a_s * costs.look_s / machines.node_cores,
         "the same"],
    ]  # fmt: skip
    return Table("Each database", ["what", "at the peak", "of", "filled", "removed by"], rows)


def _money(use: Use, costs: Costs, nodes: int, databases: int, machines: Machines) -> Table:
    stored = use.users * use.memories * costs.stored_bytes * machines.copies
    parts = [
        ("nodes", nodes, nodes * machines.node_a_month),
        ("databases and standbys", databases * machines.copies,
         databases * machines.copies * machines.database_a_month),
        ("storage, GB", round(stored / GB), stored / GB * machines.gigabyte_a_month),
    ]  # fmt: skip
    total = sum(money for _, _, money in parts)
    rows = [[*part, round(part[2] / use.users * 1e6, 2)] for part in parts]
    rows.append(["all", None, total, round(total / use.users * 1e6, 2)])
    return Table("Money", ["part", "number", "a month", "a month and million users"], rows)


# --- what fails


YEAR_COLUMNS = [
    "what fails", "times", "active users each", "pause p50 s", "p99 s", "worst s",
    "user-hours waited", "availability",
]  # fmt: skip


def a_year(
    use: Use, costs: Costs, nodes: int, databases: int, machines: Machines, failures: Failures,
    seed: int,
) -> list[list[Any]]:  # fmt: skip
    """Draw a year of failures; return a row for each thing that fails, and one for all."""
    random = np.random.default_rng(seed)
    active = use.active_a_day * use.sessions_a_day * use.session_s / DAY_S
    asked_for_s = (use.writes_a_session + use.reads_a_session) / use.session_s
    rows, waited_s = [], 0.0
    for name, count, days, hit, survivors in (
        ("a node", nodes, failures.node_days, active / nodes, nodes - 1),
        ("a database", databases, failures.database_days, active / databases, nodes),
        ("a zone", machines.zones, failures.zone_days, active / machines.zones,
         nodes * (machines.zones - 1) // machines.zones),
    ):  # fmt: skip
        times = int(random.poisson(count * YEAR_DAYS / days))
        pauses = _pauses(random, name, times, failures)
        woken = 0.0 if name == "a database" else hit * costs.activation_s
        pauses += woken * min(1.0, asked_for_s * failures.lease_s) / _cores(survivors, machines)
        waited_s += (cost := float(pauses.sum()) * hit)
        rows.append(_row(name, times, hit, pauses, cost, active))
    rows.append(["all", sum(row[1] for row in rows), None, None, None, None,
                 round(waited_s / 3600), _availability(waited_s, active)])  # fmt: skip
    return rows


def _cores(nodes: int, machines: Machines) -> float:
    return max(1, nodes) * machines.node_cores * (1 - machines.node_filled)


def _pauses(
    random: np.random.Generator, name: str, times: int, failures: Failures
) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """Return how long each failure lasts for those who ask: leases end, standbys are promoted."""
    lease = failures.lease_s - random.uniform(0, failures.renewed_s, times)
    if name == "a node":
        return lease
    promoted = random.uniform(*failures.database_s, times)
    return np.maximum(lease, promoted)


def _row(name: str, times: int, hit: float, pauses: Any, cost: float, active: float) -> list[Any]:
    found = (
        [round(float(np.percentile(pauses, q)), 2) for q in (50, 99, 100)] if times else [None] * 3
    )
    return [name, times, round(hit), *found, round(cost / 3600), _availability(cost, active)]


def _availability(waited_s: float, active: float) -> str:
    return f"{100 * (1 - waited_s / (active * YEAR_DAYS * DAY_S)):.5f} %"
