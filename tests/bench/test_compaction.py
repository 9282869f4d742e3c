"""`bench compaction` on something tiny, and the corpus it is fed with."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench import compaction
from bench.__main__ import main
from bench.compaction import rows
from bench.compaction.recall import Asked, _quoted
from bench.corpus import NO_TOPIC, START, TopicEmbedder, corpus, end, questions

TINY = ("--memories", "300", "--calls", "10", "--runs", "1", "--embedder", "hashed")
TALK = [
    {"speaker": "Ada", "dia_id": f"D1:{n}", "text": f"Yes {n}, skiing in the Alps was great fun!"}
    for n in range(1, 9)
]
CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {"session_1_date_time": "1:56 pm on 8 May, 2023", "session_1": TALK},
    "qa": [{"question": "What did Ada enjoy?", "evidence": ["D1:3"], "category": 4}],
}


def bench(directory: Path, *arguments: str) -> Result:
    command = ["compaction", *TINY, "--json", "--dir", str(directory), *arguments]
    return CliRunner().invoke(main, command, catch_exceptions=False)


def tables(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table by column, by its title."""
    return {
        table["title"]: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in json.loads(result.stdout)["tables"]
    }


def test_everything_is_measured_and_nothing_lost(tmp_path: Path) -> None:
    result = bench(tmp_path)
    stored, retrieved, busy, steps, checks = tables(result).values()
    assert result.exit_code == 0
    assert [row["what"] for row in stored] == [*rows.FILES, "together"]
    assert sum(row["before MB"] for row in stored[:-1]) == pytest.approx(stored[-1]["before MB"])
    assert stored[-1]["saved"] > 0
    assert [row["store"] for row in retrieved] == ["before", "after", "after, without summaries"]
    assert [row["call"] for row in busy] == ["add", "retrieve"]
    assert all(row["idle p99"] >= row["idle p50 ms"] > 0 for row in busy)
    assert {"cluster", "summarise", "together"} <= {row["step"] for row in steps}
    assert {row["so"] for row in checks} == {"yes"}
    assert "300 added" in checks[0]["found"]
    assert "0 lost" in checks[0]["found"]
    assert not list(tmp_path.iterdir())


def test_a_memory_that_is_lost_fails_the_bench(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def all_but_one(user: Any) -> list[Any]:
        return (await plain(user))[1:]

    plain = compaction.checks.all_of
    monkeypatch.setattr(compaction.checks, "all_of", all_but_one)
    result = bench(tmp_path)
    assert result.exit_code == 1
    assert tables(result)["Nothing is lost"][0]["so"] == "NO"


def test_recall_is_counted_by_summariser(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([CONVERSATION]))
    found = tables(bench(tmp_path, "--locomo", str(path)))
    recall, compacted = found["Recall on LoCoMo"], found["LoCoMo, compacted"]
    assert [row["summariser"] for row in recall] == ["extractive", "first 5"]
    assert all(row["before"] == 1 for row in recall), "8 turns, 10 are found"
    assert [row["turns"] for row in compacted] == [8, 8]


def test_evidence_behind_a_summary_is_found_word_for_word() -> None:
    """Evidence behind a summary is found, and counts as quoted only word for word."""
    asked = Asked(frozenset({"a", "b"}), frozenset(), frozenset({"a", "c"}), frozenset())
    assert asked.recall() == 0.5
    assert asked.recall(summaries=False) == 0
    said = "Ada: Thanks! I went skiing in the Alps today."
    assert _quoted(said, "Of March: I went skiing in the Alps today. It was cold.")
    assert not _quoted(said, "Thanks! Somebody went skiing.")


def test_it_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bench(tmp_path, "--plot", str(tmp_path / "plots"))
    names = sorted(path.name for path in (tmp_path / "plots").iterdir())
    assert names == ["compaction.png", "compaction.svg"]


# --- the corpus


def test_a_corpus_comes_from_its_seed() -> None:
    assert corpus(500, 1) == corpus(500, 1) != corpus(500, 2)
    assert questions(500, 1, 20) == questions(500, 1, 20)


def test_a_corpus_is_half_a_year_in_order() -> None:
    """A corpus is half a year in order with no text twice."""
    found = corpus(5_000, 1)
    times = [one.occurred_at for one in found]
    assert len({one.text for one in found}) == len(found) == 5_000
    assert times == sorted(times)
    assert START <= times[0] < times[-1] <= end()
    assert not any("{" in one.text or "}" in one.text for one in found)


def test_topics_are_many_and_skewed_and_a_tenth_is_noise() -> None:
    sizes = Counter(one.topic for one in corpus(12_000, 1))
    assert sizes.pop(NO_TOPIC) == 1_200
    assert len(sizes) == 300
    largest, *_, smallest = sizes.most_common()
    assert largest[1] > 15 * smallest[1] > 15 * 5


def test_a_small_corpus_has_fewer_topics() -> None:
    sizes = Counter(one.topic for one in corpus(300, 1))
    assert sizes.pop(NO_TOPIC) == 30
    assert len(sizes) == 10
    assert min(sizes.values()) >= 10


def test_hashed_topics_lie_together_and_apart() -> None:
    found = [one for one in corpus(400, 1) if one.topic in (0, 1)]
    vectors = TopicEmbedder(found).embed([one.text for one in found])
    topics = np.array([one.topic for one in found])
    cosines = vectors @ vectors.T
    same = topics[:, None] == topics[None, :]
    assert cosines[same].min() > 0.7 > 0.3 > np.abs(cosines[~same]).max()
