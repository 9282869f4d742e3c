"""`bench limits` and `bench growth` on something tiny."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import limits
from bench.__main__ import main


def bench(directory: Path, *arguments: str) -> list[list[dict[str, Any]]]:
    """Return the rows of each table."""
    command = [*arguments, "--runs", "1", "--json", "--dir", str(directory)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    return [
        [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in json.loads(result.stdout)["tables"]
    ]


def test_each_path_has_a_floor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "installed_model", lambda: None)
    (rows,) = bench(tmp_path, "limits", "--memories", "100", "--calls", "3")
    assert [row["path"] for row in rows] == [
        "append", "append", "add", "retrieve", "activation", "reopen to an answer", "replay",
        "verify",
    ]  # fmt: skip
    for row in rows:
        assert row["ours"] > 0
        assert row["the floor"] > 0
        assert row["ours / floor"] == pytest.approx(row["ours"] / row["the floor"])


def test_growth_is_measured_by_memories_and_by_users(tmp_path: Path) -> None:
    sizes = ("--sizes", "30", "--sizes", "90", "--users", "2", "--users", "5")
    memories, users = bench(tmp_path, "growth", *sizes, "--calls", "3")
    assert [row["memories"] for row in memories] == [30, 90]
    assert [row["users"] for row in users] == [2, 5]
    assert memories[0]["disk KB"] > memories[1]["disk KB"] > 1, "a memory of many takes less"
    assert all(row[name] > 0 for row in memories + users for name in ("add ms", "retrieve ms"))
