"""`bench improve` with few rounds."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench import improve
from bench.__main__ import main


def bench(directory: Path) -> Result:
    size = ("--rounds", "200", "--kb", "50", "--runs", "1")
    return CliRunner().invoke(main, ["improve", *size, "--dir", str(directory), "--json"])


def rows(result: Result) -> list[dict[str, Any]]:
    table = json.loads(result.stdout)["tables"][0]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_the_loop_is_measured_beside_a_list_that_keeps_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improve, "SLOWER_MAX", 1_000.0)
    result = bench(tmp_path)
    assert result.exit_code == 0, result.output
    bounded, unbounded = rows(result)
    assert (bounded["history"], unbounded["history"]) == ("bounded", "list")
    assert bounded["grown MB"] < 5 < unbounded["grown MB"]
    assert bounded["rounds evicted"] == unbounded["rounds evicted"] > 150
    assert bounded["first 10 % us"] > 0


def test_a_loop_that_slows_down_exits_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(improve, "SLOWER_MAX", 0.0)
    assert bench(tmp_path).exit_code == 1
