"""Three nodes on one database, killed, frozen and cut off while all are busy: a few rounds.

`python -m bench cluster` runs many of each fault.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.postgres import server

pytest.importorskip("psycopg", reason="PostgreSQL is not installed: pip install -e '.[dev]'")

from bench.cluster import Outcome, Plan, live, running, stale_commits
from bench.cluster.cluster import Cluster
from bench.cluster.faults import settle, strike

FAULTS = ("freeze-batch", "kill", "cut-database-one-way")
SEED = 7
CONTROL_ROUNDS_MAX = 6

pytestmark = pytest.mark.timeout(120)


@contextmanager
def cluster_of(tmp_path: Path, plan: Plan) -> Iterator[Cluster]:
    schema = f"cluster_{secrets.token_hex(4)}"
    with running(tmp_path / "cluster", server(), schema, plan, SEED) as cluster:
        yield cluster
    cluster.ask("DROP SCHEMA {schema} CASCADE")


def test_nothing_is_lost_doubled_or_stale_whatever_strikes_a_node(tmp_path) -> None:
    outcome = Outcome("a few of them")
    with cluster_of(tmp_path, Plan(nodes=3, users=6, workers=2)) as cluster:
        live(cluster, outcome, FAULTS)

    check(outcome)


def check(outcome: Outcome) -> None:
    assert outcome.examples == []
    assert not outcome.harm
    assert outcome.writes > 0
    assert outcome.reads > 0


def test_without_the_fence_a_node_that_was_frozen_writes_what_it_may_not(tmp_path) -> None:
    """The control: so the test above can see harm."""
    plan = Plan(nodes=2, users=6, workers=3, pause_s=0.005, without="fence")
    with cluster_of(tmp_path, plan) as cluster:
        for _ in range(CONTROL_ROUNDS_MAX):
            settle(cluster)
            strike(cluster, "freeze-batch")
            if found := stale_commits(cluster):
                break

    assert found
