"""`bench limits` and `bench growth` on something tiny."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import limits, starting
from bench.__main__ import main
from memory_actors.search.model.installed import model_path


def bench(directory: Path, *arguments: str) -> list[list[dict[str, Any]]]:
    """Return the rows of each table."""
    command = [*arguments, "--runs", "1", "--json", "--dir", str(directory)]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    return [
        [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in json.loads(result.stdout)["tables"]
    ]


@pytest.mark.skipif(model_path() is None, reason="the embedding model is not installed")
def test_processes_say_what_they_took(tmp_path: Path) -> None:
    table = starting.table(tmp_path, model_path(), runs=1)
    assert all(0 < processor < 60_000 for _, _, processor, _ in table.rows)
    nothing, *others = (most_mb for *_, most_mb in table.rows)
    assert all(nothing < most_mb < 500 for most_mb in others)


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
