"""The reckoning of `bench scale`: the first limit of a billion users, and its tables."""

import json

from click.testing import CliRunner

from bench.__main__ import main
from bench.scale import Costs, Machines, Use, needed


def test_the_first_limit_of_a_billion_users():
    """It is the lock of the tail where a standby is in another zone, and else the room."""
    needs = needed(Use(), Costs(), Machines())
    assert [need.name for need in needs if need.unit == "database"] == [
        "lock of the tail", "stored bytes",
    ]  # fmt: skip
    assert needs[0].units > needs[1].units == 72
    quick = needed(Use(), Costs(commit_s=0.0001), Machines())
    assert [need.name for need in quick][:2] == ["stored bytes", "lock of the tail"]


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
