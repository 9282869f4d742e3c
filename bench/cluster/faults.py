"""The faults that strike a cluster, each from its beginning until it is over."""

import signal
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Literal, NamedTuple

from bench.cluster.cluster import Cluster, Place, link_of
from bench.cluster.links import WAYS
from eventlog.postgres.leases import LEASE_S
from tests.support.postgres import Standby

DAY_S = 86_400.0
FROZEN_S = 2 * LEASE_S
AWAY_S = (0.3, 2 * LEASE_S)
"""The shortest and the longest time for which a network is away, or a node is not begun again."""
IN_HAND_S = 0.02
SETTLE_S = (0.3, 0.8)
"""Between two rounds."""
ANSWERED_S_MAX = 40.0
SYNCHRONOUS = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync'"


class Struck(NamedTuple):
    """A fault that struck."""

    at_s: float
    users: frozenset[str]
    """The users who were at the node that was struck."""
    names: frozenset[str]
    """The nodes whose own workers do not count: they were gone, frozen, or cut off."""
    woke_s: float = 0.0
    """The moment at which a frozen node went on."""
    over_s: float = 0.0
    """The moment from which every user was answered again."""


def strike(cluster: Cluster, fault: str) -> Struck:
    """Have a fault strike, and wait until it is over."""
    if fault in OF_USERS:
        at_s = time.monotonic()
        return Struck(at_s, frozenset(OF_USERS[fault](cluster)), frozenset())
    homes = cluster.homes()
    places = [one for one in cluster.places if one.pid in homes.values()] or cluster.places
    place = cluster.rng.choice(places)
    at_home = frozenset(user for user, pid in homes.items() if pid == place.pid)
    name, at_s = place.name, time.monotonic()
    woke_s = OF_NODES[fault](cluster, place)
    return Struck(at_s, at_home, frozenset([name, place.name]), woke_s or 0.0)


def settle(cluster: Cluster) -> float:
    """Wait until every user is answered again; return that moment, after some time at work."""
    since_s = time.monotonic()
    while time.monotonic() < since_s + ANSWERED_S_MAX:
        noted = [line for place in cluster.places for line in cluster.last(place)]
        if {line.user for line in noted if line.from_s > since_s} >= set(cluster.users):
            break
        time.sleep(0.05)
    over_s = time.monotonic()
    time.sleep(cluster.rng.uniform(*SETTLE_S))
    return over_s


def _kill(cluster: Cluster, place: Place) -> None:
    cluster.kill(place)
    time.sleep(cluster.rng.uniform(*AWAY_S))
    cluster.start(place)
    cluster.await_begun(place)


def _freeze(cluster: Cluster, place: Place) -> float:
    cluster.signal(place, signal.SIGSTOP)
    time.sleep(FROZEN_S)
    woke_s = time.monotonic()
    cluster.signal(place, signal.SIGCONT)
    _await_answer(cluster, place, woke_s)
    return woke_s


def _freeze_in_batch(cluster: Cluster, place: Place) -> float:
    """Freeze a node while what it has sent is on its way; that arrives when it goes on."""
    link = place.to_database
    cluster.links.do(link.hold("there"))
    time.sleep(IN_HAND_S)
    cluster.signal(place, signal.SIGSTOP)
    time.sleep(FROZEN_S)
    woke_s = time.monotonic()
    cluster.links.do(link.heal(reset=False))
    cluster.signal(place, signal.SIGCONT)
    _await_answer(cluster, place, woke_s)
    return woke_s


def _await_answer(cluster: Cluster, place: Place, woke_s: float) -> None:
    """Wait until a node has answered after it went on."""
    until_s = woke_s + FROZEN_S
    while time.monotonic() < until_s:
        last = cluster.last(place)
        if any(line.what in ("done", "read") and line.at_s > woke_s for line in last):
            return
        time.sleep(0.05)


def _cut(
    cluster: Cluster, place: Place, to: Literal["database", "peers"], *, one_way: bool
) -> None:
    ways = (cluster.rng.choice(WAYS),) if one_way else WAYS
    link = link_of(place, to)
    cluster.links.do(link.hold(*ways))
    time.sleep(cluster.rng.uniform(*AWAY_S))
    cluster.links.do(link.heal(reset=cluster.rng.random() < 0.5))


def _restart(cluster: Cluster) -> Iterable[str]:
    cluster.server.stop()
    time.sleep(cluster.rng.uniform(0, FROZEN_S))
    cluster.server.start()
    return cluster.users


def _promote(cluster: Cluster) -> Iterable[str]:
    """Give the database a synchronous standby, crash it, and have the standby take its place."""
    primary = cluster.server
    standby = Standby(primary, {"fsync": "off"})
    cluster.ask("ALTER SYSTEM SET synchronous_standby_names = '*'")
    cluster.ask("SELECT pg_reload_conf()")
    while not cluster.ask(SYNCHRONOUS):
        time.sleep(0.02)
    settle(cluster)
    primary.stop()
    time.sleep(cluster.rng.uniform(0, 0.5))
    cluster.move_to(standby)
    cluster.ask("SELECT pg_promote()")
    primary.remove()
    return cluster.users


def _clock(cluster: Cluster, place: Place) -> None:
    """Have a node go on with a clock that is a day off, until the next one is."""
    cluster.end(place)
    cluster.start(place, cluster.rng.choice((-DAY_S, DAY_S)))
    cluster.await_begun(place)
    time.sleep(cluster.rng.uniform(1, 2))


def _close(cluster: Cluster, place: Place) -> None:
    cluster.end(place)
    time.sleep(cluster.rng.uniform(0, 0.5))
    cluster.start(place)
    cluster.await_begun(place)


OF_NODES: dict[str, Callable[[Cluster, Place], float | None]] = {
    "kill": _kill,
    "freeze": _freeze,
    "freeze-batch": _freeze_in_batch,
    "cut-database": partial(_cut, to="database", one_way=False),
    "cut-database-one-way": partial(_cut, to="database", one_way=True),
    "cut-peers": partial(_cut, to="peers", one_way=False),
    "cut-peers-one-way": partial(_cut, to="peers", one_way=True),
    "clock": _clock,
    "close": _close,
}
"""The faults that strike the node of a place; those that stop it return the moment at which it went
on."""
OF_USERS: dict[str, Callable[[Cluster], Iterable[str]]] = {
    "restart": _restart,
    "promote": _promote,
}
"""What strikes something else; they return the users who were there."""
FAULTS = (*OF_NODES, *OF_USERS)
