"""The demonstration, with the real model, and the data it comes with."""

import json
import re
import shutil
from datetime import datetime
from importlib.resources import files
from pathlib import Path

import pytest
import structlog
from click.testing import CliRunner
from support.fakes import FakeEmbedder

from memory_actors.cli import App, main
from memory_actors.cli.demo.run import known_questions
from memory_actors.cli.demo.scoring import mean, recall

DATA = files("memory_actors.cli.demo")


@pytest.fixture(autouse=True)
def plain(monkeypatch, tmp_path: Path):
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(tmp_path)
    yield
    structlog.reset_defaults()


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
        assert one.question.endswith("?")
        assert one.answer
        assert one.evidence
        assert set(one.evidence) <= ids


# --- the score


def test_recall_is_the_part_of_the_evidence_among_the_first() -> None:
    assert recall(["a", "b"], ["x", "a", "y", "b"], 2) == 0.5
    assert recall(["a", "b"], ["b", "a"], 2) == 1.0
    assert recall(["a"], ["x"], 10) == 0.0
    assert mean([]) == 0.0


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
    again = report["reopened"]
    assert again["memories_before"] == again["memories_after"] == 148
    assert (again["events"], again["ok"]) == (148, True)
    assert [entry["event"] for entry in report["history"]] == ["long_term.added"]


def test_the_recall_it_reports_is_the_one_of_its_hits(report: dict) -> None:
    asked = report["questions"]
    assert len(asked) == 10
    for one in asked:
        ids = [hit["memory_id"] for hit in one["hits"]]
        assert len(ids) == len(set(ids)) == 10
        assert one["recall_at_5"] == recall(one["evidence"], ids, 5)
        assert one["recall_at_10"] == recall(one["evidence"], ids, 10)
        assert all(hit["content"].startswith(f"{hit['role']}: ") for hit in one["hits"])
        marked = {hit["memory_id"] for hit in one["hits"] if hit["evidence"]}
        assert marked == set(one["evidence"]) & set(ids)
    assert report["turn_recall_at_10"] == pytest.approx(mean(q["recall_at_10"] for q in asked))
    assert report["turn_recall_at_5"] == pytest.approx(mean(q["recall_at_5"] for q in asked))


def test_the_demo_finds_some_of_the_evidence(report: dict) -> None:
    assert 0.6 <= report["turn_recall_at_10"] <= 1.0  # 0.77 by meaning alone
    assert report["turn_recall_at_5"] <= report["turn_recall_at_10"]


def test_the_demo_fills_a_context_document(report: dict) -> None:
    """The demo fills a context document, and makes room in it."""
    context = report["context"]
    assert 1_500 < context["warned_at"]["tokens"] <= 2_000
    assert context["refused"].startswith("MEMORY.md exceeds hard limit")
    assert len(context["made_room"]["archived"]) < context["entries"]
    assert context["made_room"]["tokens"] <= 900
    assert [hit["entry_id"] for hit in context["found"]] == context["restored"]["entry_ids"]
    assert context["same_bytes"]


def test_the_demo_improves_a_note_and_keeps_every_round(report: dict) -> None:
    improved = report["improving"]
    assert improved["scores"] == sorted(improved["scores"])
    assert improved["scores"][-1] > improved["scores"][0] + 0.2
    assert improved["words_after"] < improved["words_before"]
    assert set(improved["left"]) < set(improved["found"])
    assert {"repetition", "known term", "passive voice"} <= set(improved["found"])
    assert improved["rounds_recorded"] == len(improved["scores"]) == improved["iterations"]
    assert improved["same"] is True
    assert {line[0] for line in improved["diff"]} == {"-", "+"}


def test_the_demo_reads_from_top_to_bottom() -> None:
    result = CliRunner().invoke(main, ["demo"], obj=App(embedder=FakeEmbedder()))
    assert (result.exit_code, result.stderr) == (0, "")
    said = result.stdout
    parts = ["Remember", "148 memories", "Find", *(q.question for q in known_questions())]
    parts += ["turn recall@5: ", "turn recall@10: ", "Close, open again", "✓ 148 memories"]
    parts += [
        "✓ 148 events",
        "long_term.added",
        "approaching soft limit",
        "Archive before continuing",
    ]
    parts += ["With auto-archive", "✓ archive, then restore: the same bytes"]
    parts += ["A text gets better", "✓ 4 rounds in the log", "a question (median)"]
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
