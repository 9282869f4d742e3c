"""`bench clustering` on something tiny: it compares, skips with a reason, fails on other labels."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench import clustering
from bench.__main__ import main
from memory_actors.compaction.clusters import dbscan

needs_reference = pytest.mark.skipif(
    find_spec("sklearn") is None, reason="needs scikit-learn: the dev extra"
)


def bench(directory: Path, *arguments: str) -> Result:
    everywhere = ["--dir", str(directory), "--sizes", "400", "--json"]
    return CliRunner().invoke(main, ["clustering", *everywhere, *arguments], catch_exceptions=False)


def rows(result: Result) -> list[list[dict[str, Any]]]:
    """Return the rows of each table, by column."""
    tables = json.loads(result.stdout)["tables"]
    return [
        [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]] for table in tables
    ]


@needs_reference
def test_both_are_measured_and_the_labels_are_equal(tmp_path: Path) -> None:
    result = bench(tmp_path)
    found, (ratios,), skipped = rows(result)
    assert result.exit_code == 0
    assert not skipped
    assert [row["by"] for row in found] == ["memory-actors", "scikit-learn"]
    assert ratios["labels equal"] == "yes"
    assert ratios["times as fast"] > 0
    for row in found:
        assert row["clusters"] >= 2
        assert 0 < row["noise"] < 0.5
        assert row["peak MB"] is None or row["peak MB"] >= row["before MB"]
    assert not list(tmp_path.iterdir())


def test_without_scikit_learn_ours_is_measured_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clustering, "find_spec", lambda _name: None)
    result = bench(tmp_path)
    found, ratios, (skipped,) = rows(result)
    assert result.exit_code == 0
    assert [row["by"] for row in found] == ["memory-actors"]
    assert not ratios
    assert skipped["by"] == "scikit-learn"
    assert skipped["reason"].startswith("not installed")


def test_it_may_be_left_out(tmp_path: Path) -> None:
    _, ratios, (skipped,) = rows(bench(tmp_path, "--alone"))
    assert not ratios
    assert "--alone" in skipped["reason"]


def test_labels_that_differ_exit_with_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def child(name: str, directory: Path) -> clustering.Clustered:
        labels = dbscan(np.load(directory / "vectors.npy"))
        labels[0] = 99 if name == clustering.OURS else -1
        np.save(directory / f"{name}.npy", labels)
        return clustering.Clustered(1.0, None, None)

    monkeypatch.setattr(clustering, "_child", child)
    monkeypatch.setattr(clustering, "find_spec", lambda _name: object())
    result = bench(tmp_path)
    assert result.exit_code == 1
    assert rows(result)[1][0]["labels equal"] == "no"


def test_the_same_seed_gives_the_same_unit_vectors() -> None:
    first, again = (clustering.memories(300, np.random.default_rng(7)) for _ in range(2))
    assert np.array_equal(first, again)
    assert first.dtype == np.float32
    assert np.linalg.norm(first, axis=1) == pytest.approx(np.ones(300), abs=1e-5)
