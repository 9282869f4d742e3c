"""The demonstration, with the real model, and the data it comes with."""

import json
import shutil
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from support.fakes import FakeEmbedder

from memory_actors.cli import App, main

DATA = files("memory_actors.cli.demo")


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)


def known_questions() -> list[dict[str, Any]]:
    return json.loads((DATA / "questions.json").read_text())


def recall(evidence: list[str], found: list[str], k: int) -> float:
    return len({*evidence} & {*found[:k]}) / len({*evidence})


# --- the bundled conversation


@pytest.fixture(scope="module")
def report() -> dict:
    result = CliRunner().invoke(main, ["demo", "--json"])
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def test_the_demo_reports_every_figure(report: dict) -> None:
    assert (report["memories"], report["sessions"]) == (148, 9)
    assert report["import_s"] > 0
    assert report["retrieve_ms_median"] > 0
    assert [step["event"] for step in report["why"]["steps"]] == ["long_term.added"]
    true = [[one["target"] for one in report["facts"][when]] for when in ("then", "now")]
    assert true == [["Bristol"], ["Glasgow"]]


def test_a_writer_that_is_killed_loses_nothing_that_was_acknowledged(report: dict) -> None:
    killed = report["killed"]
    assert killed["acknowledged"] >= 20
    assert (killed["lost"], killed["ok"]) == (0, True)


def test_the_demo_reads_from_top_to_bottom() -> None:
    result = CliRunner().invoke(main, ["demo"], obj=App(embedder=FakeEmbedder()))
    assert (result.exit_code, result.stderr) == (0, "")
    said = result.stdout
    questions = [question["question"] for question in known_questions()]
    parts = ["148 messages", *(one[:50] for one in questions), "first hit answers"]
    parts += ["recall in the top 10", "cosine", questions[0], "✓ 0 of ", "✓ Every event"]
    parts += ["✓ Where Maya lives: Bristol on 2024-12-24, Glasgow now", "Add --ui"]
    at = 0
    for part in parts:
        assert (at := said.find(part, at)) >= 0, part
    assert len(said.splitlines()) <= 36  # a screen


def test_the_demo_leaves_the_users_own_memory_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_DATA", str(tmp_path / "mine"))
    assert CliRunner().invoke(main, ["demo"], obj=App(embedder=FakeEmbedder())).exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_the_demo_keeps_its_store_and_runs_again(
    tmp_path: Path,
) -> None:
    """The demo keeps its store where it is told to, and may run there again."""
    for _ in range(2):
        result = CliRunner().invoke(
            main, ["demo", "--data", "kept", "--json"], obj=App(embedder=FakeEmbedder())
        )
        assert json.loads(result.stdout)["memories"] == 148
    assert (tmp_path / "kept" / "log.mdb").exists()
    shutil.rmtree(tmp_path / "kept")
