"""`bench recall`: sets are read and checked, and its figures are what they say."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.calibration import bins, calibration_error
from bench.recall import run
from bench.recall_sets import read_set
from bench.report import Options
from memory_actors import InvalidInputError


def a_set(path: Path, **changes: Any) -> Path:
    users = [
        {
            "id": name,
            "memories": [
                {"id": f"m{number}", "text": f"{name} {fact}", "role": None, "session": None}
                for number, fact in enumerate(("owns a kayak", "owns a kayak", "plays the oboe"))
            ],
            "questions": [
                {"text": f"{name} owns a kayak", "evidence": ["m0", "m1"], "category": "thing"},
                {"text": "who is the dentist?", "evidence": [], "category": "none"},
            ],
        }
        for name in ("Ada", "Leon")
    ]
    data = {"name": "tiny", "licence": "ours", "source": "here", "users": users, **changes}
    path.write_text(json.dumps(data))
    return path


def test_a_set_is_scored_beside_the_baselines_in_one_run(tmp_path: Path) -> None:
    path = a_set(tmp_path / "tiny.json")
    options = ["recall", str(path), "--embedder", "hashed", "--dir", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    report = json.loads(done.stdout)
    by_set = report["tables"][0]["rows"]
    assert [row[1] for row in by_set] == ["ours", "cosine", "BM25", "sum"]
    assert all(row[2] == 2 for row in by_set)  # one answerable question a user
    ours = by_set[0]
    assert ours[3] == ours[6] == 1.0  # R@10 and hit@1: the words are the same
    assert report["ok"] is (done.exit_code == 0)


class LastFirst:
    """Turns the order of the hits around."""

    def score(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        assert query
        return range(len(texts))


def test_a_reranker_is_scored_beside_ours_with_what_it_takes(tmp_path: Path) -> None:
    path = a_set(tmp_path / "tiny.json")
    report = run([path], "hashed", Options(tmp_path, 1, 1), reranker=LastFirst())
    rows = {row[1]: row for row in report.tables[0].rows}
    assert rows["reranked"][3] == rows["ours"][3] == 1.0  # R@10: the same hits
    assert rows["ours"][6] == 1.0
    assert rows["reranked"][6] == 0.0  # hit@1: the worst comes first
    assert report.facts["reranker_ms"] >= 0
    options = ["recall", str(path), "--embedder", "hashed", "--reranker", "klingon"]
    refused = CliRunner().invoke(main, options)
    assert isinstance(refused.exception, InvalidInputError)


def test_other_systems_are_asked_the_same(tmp_path: Path) -> None:
    path = a_set(tmp_path / "tiny.json")
    options = ["recall", str(path), "--embedder", "hashed", "--dir", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, [*options, "--peer", "rank_bm25"], catch_exceptions=False)
    by_set = json.loads(done.stdout)["tables"][0]["rows"]
    assert [row[1] for row in by_set] == ["ours", "cosine", "BM25", "sum", "rank_bm25"]
    assert by_set[4][3] == 1.0
    refused = CliRunner().invoke(main, [*options, "--peer", "memory"])
    assert refused.exit_code == 2
    assert "no peer memory; there are memory-actors, chroma" in refused.stderr


def test_a_question_that_names_a_memory_nobody_has_is_refused(tmp_path: Path) -> None:
    asked = [{"text": "?", "evidence": ["gone"], "category": ""}]
    user = {"id": "Ada", "memories": [{"id": "m0", "text": "likes tea"}], "questions": asked}
    with pytest.raises(click.ClickException, match="no memories"):
        read_set(a_set(tmp_path / "tiny.json", users=[user]))


def test_calibration_error_is_mean_distance_of_score_and_share() -> None:
    """The calibration error is the mean distance of score and share."""
    scores, answers = [0.75] * 4 + [0.15] * 4, [True, True, True, False] + [False] * 4
    assert calibration_error(scores, answers) == pytest.approx(0.075)
    assert [(one.results, one.answers) for one in bins(scores, answers)] == [(4, 0.0), (4, 0.75)]
    assert calibration_error([], []) == 0
