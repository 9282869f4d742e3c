"""`bench longmemeval` on a small file of the benchmark's format, and what its rules count."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from bench.__main__ import main
from bench.longmemeval_file import Question, QuestionFile
from bench.longmemeval_rules import (
    BY_EVIDENCE,
    EVERYTHING,
    OFFICIAL,
    SESSION,
    TURN,
    evidence,
    haystack_of,
    memories_of,
)

HASHED = ("--embedder", "hashed")


def said(role: str, content: str, has_answer: bool | None = None) -> dict[str, Any]:
    """A turn; only sessions with evidence have the mark at all."""
    mark = {} if has_answer is None else {"has_answer": has_answer}
    return {"role": role, "content": content} | mark


FILLER = [
    said("user", "Recommend a bread recipe without kneading."),
    said("assistant", "Mix flour, water, salt and a pinch of yeast, and wait a day."),
]
BICYCLE = [
    said("user", "I bought a red bicycle for 300 euros yesterday.", True),
    said("assistant", "A fine colour! Do you ride to work?", False),
    said("user", "Only when it does not rain.", False),
    said("user", " ", False),
]
ADVICE = [
    said("user", "Name one painter from Delft.", False),
    said("assistant", "Johannes Vermeer lived in Delft.", True),
]
PIANO = [said("user", "My piano lessons with Ada cost 40 euros.", True)]


def asked(question_id: str, kind: str, text: str, **sessions: list[Any]) -> dict[str, Any]:
    """A question over a filler session and these, in the format of the public files."""
    haystack = {"sharegpt_1": FILLER, **sessions}
    return {
        "question_id": question_id,
        "question_type": kind,
        "question": text,
        "answer": 300,  # a number in some questions of the public files
        "question_date": "2023/06/01 (Thu) 10:00",
        "haystack_dates": [f"2023/05/{20 + day} (Sat) 02:21" for day in range(len(haystack))],
        "haystack_session_ids": list(haystack),
        "haystack_sessions": list(haystack.values()),
        "answer_session_ids": list(sessions),
    }


QUESTIONS = [
    asked("q1", "single-session-user", "What did my bicycle cost?", answer_1=BICYCLE),
    asked("q2", "single-session-assistant", "Which painter did you name?", answer_2=ADVICE),
    asked("q3", "multi-session", "What did I spend?", answer_3_1=BICYCLE, answer_3_2=PIANO),
    asked("q4_abs", "single-session-user", "What did my boat cost?"),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "longmemeval_s.json"
    path.write_text(json.dumps(QUESTIONS))
    return path


def question(number: int) -> Question:
    return msgspec.convert(QUESTIONS[number], Question)


def bench(directory: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["longmemeval", *arguments, "--dir", str(directory), "--json"])


def tables(result: Result) -> list[list[dict[str, Any]]]:
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)["tables"]
    return [[dict(zip(t["columns"], row, strict=True)) for row in t["rows"]] for t in found]


# --- the command


def test_official_leaves_out_what_all_counts_as_zero(tmp_path: Path, path: Path) -> None:
    questions, overall, by_type, speed = tables(bench(tmp_path, str(path), *HASHED))
    assert {row["what"]: row["questions"] for row in questions} == {
        "all: asked": 4,
        "all: no session to find, counts 0": 1,
        "all: no turn to find, counts 0": 1,
        "official: left out, abstention": 1,
        "official: left out, no marked user turn": 1,
        "official: counted": 2,
    }
    found = {(row["counted"], row["level"]): row for row in overall if row["ranking"][0] == "a"}
    assert found["official", "session"]["questions"] == 2
    assert found["official", "turn"]["R@20"] == 1.0  # there are five memories at most
    assert found["all", "session"]["questions"] == 4
    assert found["all", "session"]["R@20"] == 0.75  # the abstention
    assert found["all", "turn"]["R@20"] == 0.5  # and the assistant's turn, which is no memory
    kinds = {row["type"] for row in by_type if row["counted"] == "official"}
    assert kinds == {"single-session-user", "multi-session"}
    assert speed[0]["ingest texts/s"] > 0
    assert not list(tmp_path.glob(".bench-*")), "the scratch directory is still there"


# --- the rules


def test_evidence_depends_on_what_is_counted() -> None:
    one = question(1)  # only the assistant's turn is marked
    haystack = haystack_of(one)
    memories = memories_of(haystack, "user")
    levels = (SESSION, BY_EVIDENCE, TURN)
    official, everything = (
        [evidence(one, haystack, memories, counted, level) for level in levels]
        for counted in (OFFICIAL, EVERYTHING)
    )
    assert official == [set(), set(), set()]
    assert everything == [{"answer_2"}, {"answer_2"}, {"1:1"}]


# --- the file


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "empty file"),
        (json.dumps([{"sample_id": "conv-1"}]).encode(), "question_id"),
        (json.dumps([QUESTIONS[0] | {"haystack_dates": []}]).encode(), "dates, ids and sessions"),
        (json.dumps([QUESTIONS[0] | {"question_date": "May"}]).encode(), "not like"),
    ],
)
def test_a_wrong_file_is_refused_with_where_to_get_one(
    content: bytes, reason: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_bytes(content)
    with pytest.raises(click.ClickException, match=reason) as refused:
        QuestionFile(wrong)
    assert "https://huggingface.co/datasets/xiaowu0162/longmemeval-cleaned" in str(refused.value)
