"""The reckoning of `bench scale`: its arithmetic, and its year of failures."""

import json

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.scale import Costs, Failures, Machines, Use, a_year, load, needed

SMALL = Use(users=1_000_000, active_a_day=86_400, sessions_a_day=1.0, peak=1.0)


def test_needs_follow_from_use_and_costs():
    needs = {need.name: need for need in needed(SMALL, Costs(), Machines())}
    # One session a second, of ten writes: each is a batch of its own, and the claim takes its turn.
    assert needs["lock of the tail"].needed == pytest.approx(10 * 0.001215 + 0.0012, rel=1e-3)
    assert needs["memory of live users"].needed == pytest.approx(600 * 260_000)
    assert needs["processor time"].needed == pytest.approx(10 * 0.0041 + 5 * 0.0045 + 0.010)
    assert needs["stored bytes"].needed == 1_000_000 * 100 * 4_000
    assert [need.units for need in needs.values()] == [1, 1, 1, 1]


def test_the_first_limit_of_a_billion_users():
    """It is the lock of the tail where a standby is in another zone, and else the room."""
    needs = needed(Use(), Costs(), Machines())
    assert [need.name for need in needs if need.unit == "database"] == [
        "lock of the tail", "stored bytes",
    ]  # fmt: skip
    assert needs[0].units > needs[1].units == 72
    quick = needed(Use(), Costs(commit_s=0.0001), Machines())
    assert [need.name for need in quick][:2] == ["stored bytes", "lock of the tail"]


def test_the_load_of_a_database_follows_from_nodes_and_databases():
    each = load(Use(), Costs(), Machines(), 216, 72)
    assert each.writes_a_s == pytest.approx(69_444 / 72, rel=0.001)
    assert each.connections == 3 * 11
    assert each.renewals_a_s == pytest.approx(7.5)
    assert each.looks_of_a_node_a_s == pytest.approx(100)
    assert each.looks_a_s == pytest.approx(300)

    fewer = load(Use(), Costs(), Machines(), 72, 72)
    assert 1 < each.batch < fewer.batch
    assert fewer.tail < each.tail
    assert load(SMALL, Costs(), Machines(), 3, 1).looks_a_s == pytest.approx(20)


def test_a_year_of_failures_repeats_by_its_seed():
    """A year of failures repeats by its seed and pauses are within their bounds."""

    def drawn(seed: int) -> list[list[object]]:
        return a_year(Use(), Costs(), 162, 72, Machines(), Failures(), seed)

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)
    node, database, _, every = drawn(3)
    assert node[1] == pytest.approx(162 * 365 / 60, rel=0.15)
    assert 1.5 <= node[3] <= node[4] <= 2.1
    assert 15 <= database[3] <= database[5] <= 60
    assert every[1] == sum(row[1] for row in drawn(3)[:3])


def test_the_command_prints_every_table(tmp_path):
    """The command prints every table and refuses more active users than there are."""
    done = CliRunner().invoke(main, ["scale", "--json", "--dir", str(tmp_path)])
    assert done.exit_code == 0, done.output
    titles = [table["title"] for table in json.loads(done.stdout)["tables"]]
    assert titles == [
        "Inputs", "Limits, the first of each unit above", "Each database", "Money",
        "A year of failures",
    ]  # fmt: skip
    refused = CliRunner().invoke(main, ["scale", "--users", "1000", "--active", "1001"])
    assert refused.exit_code == 2
    assert "cannot be active" in refused.output
