"""`bench churn` with signs over few rows."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench import churn
from bench.__main__ import main
from bench.churn import Churn, maintain
from memory_actors.search.dot_products import coded_units
from memory_actors.search.indexes import dense


@pytest.fixture(autouse=True)
def few_are_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dense, "EXACT_MAX", 500)
    monkeypatch.setattr(dense, "PROPOSED_MIN", 50)


def bench(directory: Path) -> Result:
    size = ("--rows", "1000", "--queries", "20", "--runs", "1")
    return CliRunner().invoke(main, ["churn", *size, "--dir", str(directory), "--json"])


def steps(result: Result) -> list[dict[str, Any]]:
    table = json.loads(result.stdout)["tables"][0]
    return [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]


def test_churn_measures_before_and_after_the_background(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(churn, "RECALL_MIN", 0.0)
    result = bench(tmp_path)
    assert result.exit_code == 0, result.output
    found = steps(result)
    names = ("filled", "50% replaced", "90% deleted")
    assert [(row["step"], row["background"]) for row in found] == [
        (name, when) for name in names for when in ("before", "after")
    ]
    filled, replaced, deleted = found[1], found[3], found[5]
    ways = [row["searched by"] for row in found]
    assert ways == ["signs", "signs", "signs", "signs", "scan", "scan"]
    assert found[2]["dead"] > 400
    assert all(row["dead"] == 0 for row in (filled, replaced, deleted))
    assert all(row["recall@10"] >= 0.95 for row in (filled, replaced, deleted))
    assert all(row["p50 us"] > 0 for row in found)


def test_low_recall_is_printed_and_exits_with_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(churn, "RECALL_MIN", 1.01)
    result = bench(tmp_path)
    assert result.exit_code == 1
    assert len(steps(result)) == 6


@pytest.mark.parametrize("asked", ["proposed", "scores"])
def test_recall_is_of_what_ranking_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str
) -> None:
    """The measurement shows an index that answers worse."""
    whole = getattr(dense.DenseIndex, asked)
    worse = {
        "proposed": lambda *args: None if (rows := whole(*args)) is None else rows[::2],
        "scores": lambda *args: -whole(*args),
    }
    monkeypatch.setattr(dense.DenseIndex, asked, worse[asked])
    result = bench(tmp_path)
    assert result.exit_code == 1
    filled = steps(result)[1]  # and searched by signs
    assert filled["recall@10"] < 0.8


def test_what_is_kept_is_what_lives_in_the_index() -> None:
    """The texts kept beside the index are those of the rows that live in it."""
    bench = Churn(400, 5, 1, np.random.default_rng(1))
    bench.add(400)
    bench.replace(0.5)
    bench.delete(0.9)
    view = maintain(bench._index).view()
    order = np.argsort(view.labels[view.alive])
    kept = np.argsort(bench._labels)
    np.testing.assert_array_equal(view.labels[view.alive][order], bench._labels[kept])
    living = view.vectors.at(view.alive).codes[order]
    np.testing.assert_array_equal(living, coded_units(bench._vectors[kept]).codes)
