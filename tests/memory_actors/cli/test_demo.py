"""The demonstration, with the real model, and the data it comes with."""

import json
import re
import shutil
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from statistics import fmean
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


def turns() -> list[dict[str, str]]:
    return [json.loads(line) for line in (DATA / "conversation.jsonl").read_text().splitlines()]


# --- the data


def test_the_conversation_has_148_ordered_turns() -> None:
    """The conversation has 148 turns in 9 sessions, in order of time."""
    said = turns()
    assert len(said) == len({turn["id"] for turn in said}) == 148
    assert len({turn["session"] for turn in said}) == 9
    times = [datetime.fromisoformat(turn["timestamp"]) for turn in said]
    assert times == sorted(times)
    assert all(turn["id"].startswith(turn["session"] + ":") for turn in said)


def test_the_ten_questions_have_answers_and_evidence_that_is_there() -> None:
    ids = {turn["id"] for turn in turns()}
    known = known_questions()
    assert len(known) == 10
    for one in known:
        assert one["question"].endswith("?")
        assert one["answer"]
        assert one["evidence"]
        assert set(one["evidence"]) <= ids


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


def test_the_recall_it_reports_is_the_one_of_its_hits(report: dict) -> None:
    asked = report["questions"]
    assert len(asked) == 10
    for one in asked:
        ids = [hit["memory_id"] for hit in one["hits"]]
        assert len(ids) == len(set(ids)) == 10
        assert one["recall_at_5"] == recall(one["evidence"], ids, 5)
        assert one["recall_at_10"] == recall(one["evidence"], ids, 10)
    assert report["turn_recall_at_10"] == pytest.approx(fmean(q["recall_at_10"] for q in asked))
    assert report["turn_recall_at_5"] == pytest.approx(fmean(q["recall_at_5"] for q in asked))


def test_the_demo_finds_some_of_the_evidence(report: dict) -> None:
    assert 0.6 <= report["turn_recall_at_10"] <= 1.0  # 0.77 by meaning alone
    assert report["turn_recall_at_5"] <= report["turn_recall_at_10"]


def test_the_demo_reads_from_top_to_bottom() -> None:
    result = CliRunner().invoke(main, ["demo"], obj=App(embedder=FakeEmbedder()))
    assert (result.exit_code, result.stderr) == (0, "")
    said = result.stdout
    parts = ["Remember", "148 memories", "Find", *(q["question"] for q in known_questions())]
    parts += ["turn recall@5: ", "turn recall@10: ", "A kill in mid-write", "✓ "]
    parts += ["0 of them are lost", "✓ every event matches", "long_term.added", "It is there."]
    parts += ["A fact changes", "Maya lives in Bristol", "Maya lives in Glasgow"]
    places = [said.find(part) for part in parts]
    assert -1 not in places, parts[places.index(-1)]
    assert places == sorted(places)
    assert said.count("Evidence in the top 10: ") == 10


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


# --- a LoCoMo file


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    def one(name: str, evidence: str) -> dict:
        texts = ["green tea", "a red bicycle", "Porto in spring"]
        said = [
            {"speaker": "Ada", "dia_id": f"D1:{n}", "text": text}
            for n, text in enumerate(texts, start=1)
        ]
        return {
            "sample_id": name,
            "conversation": {"session_1": said, "session_1_date_time": "1:56 pm on 8 May, 2023"},
            "qa": [
                {"question": "green tea", "evidence": [evidence], "category": 4},
                {"question": "lost", "evidence": ["D9:9"], "category": 1},
            ],
        }

    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([one("conv-1", "D1:1"), one("conv-2", "D1:2")]))
    return path


def test_a_locomo_file_is_scored_over_all_questions(locomo: Path) -> None:
    line = ["demo", str(locomo), "--json"]
    report = json.loads(CliRunner().invoke(main, line, obj=App(embedder=FakeEmbedder())).stdout)
    assert (report["conversations"], report["turns"], report["questions"]) == (2, 6, 2)
    assert report["turn_recall_at_10"] == 1.0
    assert [(row["name"], row["questions"]) for row in report["by_category"]] == [("single-hop", 2)]
    assert [row["name"] for row in report["by_conversation"]] == ["conv-1", "conv-2"]


def test_the_score_of_a_locomo_file_is_printed(locomo: Path) -> None:
    result = CliRunner().invoke(main, ["demo", str(locomo)], obj=App(embedder=FakeEmbedder()))
    assert (result.exit_code, result.stderr) == (0, "")
    assert re.search(r"^turn recall@10: 1\.000$", result.stdout, re.MULTILINE)
    assert re.search(r"^single-hop +2 ", result.stdout, re.MULTILINE)


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text("{}")
    for name in ("missing.json", "other.json"):
        line = ["demo", name, "--json"]
        result = CliRunner().invoke(main, line, obj=App(embedder=FakeEmbedder()))
        assert (result.exit_code, "InvalidInputError" in result.stdout) == (1, True)
