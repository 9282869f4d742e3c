"""compact; compaction stats, expand, undo."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from memory_actors import CompactionProgress, MemorySystem
from memory_actors.cli.showing import short_id

COMMITS = 12
TOPICS = {
    "commit": "Commit {n} fixed the login redirect bug in the auth service for good",
    "run": "Morning run number {n} along the river was windy but fast and pleasant",
}


@pytest.fixture
def filled(program, tmp_path: Path) -> Any:
    """Two topics and some of neither, in 2024; one memory of now."""
    lines = [
        {"content": text.format(n=n), "id": f"{topic}{n}", "timestamp": f"2024-01-{n + 1:02}"}
        for topic, text in TOPICS.items()
        for n in range(COMMITS)
    ]
    lines += [
        {"content": f"Alone{n} stands{n} apart{n}", "id": f"alone{n}", "timestamp": "2024-03-01"}
        for n in range(3)
    ]
    lines += [{"content": TOPICS["commit"].format(n=99), "id": "now"}]
    path = tmp_path / "memories.jsonl"
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    program.ok("import", str(path))
    return program


def ids(program, *options: str) -> set[str]:
    return {
        memory["memory_id"]
        for memory in program.json("list", "--limit", "100", "--user", "default", *options)
    }


def summaries(program) -> list[dict[str, Any]]:
    return [
        one for one in program.json("list", "--user", "default") if one["source"] == "compressed"
    ]


def test_an_unknown_user_is_named_with_the_closest_one(filled) -> None:
    said = filled("compact", "--user", "defalt").stderr
    assert "There is no user defalt here. Is it default?" in said


def test_old_memories_that_are_alike_become_summaries(filled) -> None:
    said = filled.ok("compact")
    assert re.search(r"2024-01-01 to 2024-01-12 +12 +\d+ B +\d+ B +Commit 0 fixed the login", said)
    assert "Compressed 24 of 27 old memories into 2 summaries: " in said
    assert re.search(r"saved \(\d\d %\)\.", said)
    assert all(short_id(one["memory_id"]) in said for one in summaries(filled))
    left = ids(filled)
    assert {"alone0", "alone1", "alone2", "now"} < left
    assert len(left) == 6


def test_a_dry_run_says_the_same_and_changes_nothing(filled) -> None:
    before = filled.json("list", "--limit", "100")
    said = filled.ok("compact", "--dry-run")
    assert "Would compress 24 of 27 old memories into 2 summaries: " in said
    assert "[Summary of 12 memories from 2024-01-01 to 2024-01-12]: " in said
    assert "Files:" not in said
    assert filled.json("list", "--limit", "100") == before
    dry = filled.json("compact", "--dry-run")
    assert (dry["dry_run"], dry["originals"], dry["compressed"]) == (True, 24, 2)
    assert {one["outcome"] for one in dry["clusters"]} == {"would_compress"}
    done = filled.json("compact")
    assert [one["bytes_after"] for one in done["clusters"]] == [
        one["bytes_after"] for one in dry["clusters"]
    ]


def test_programs_get_the_report_with_what_was_saved(filled) -> None:
    report = filled.json("compact")
    assert (report["users"], report["compressed"], report["originals"]) == (1, 2, 24)
    assert report["bytes_saved"] == report["bytes_before"] - report["bytes_after"] > 0
    assert 0 < report["compression_ratio"] < 1
    assert not report["cancelled"]
    for one in report["clusters"]:
        assert (one["outcome"], one["original_count"], len(one["sample"])) == ("compressed", 12, 3)


def test_episodes_that_ended_are_compressed_when_asked_for(program) -> None:
    lines = [
        {"memory_type": "episodic", "id": f"run{n}", "timestamp": f"2024-01-{n + 1:02}",
         "data": {"goal": f"{TOPICS['run'].format(n=n)} so that I stay fit and happy",
                  "agent_id": "bot", "status": "done", "result": "it went well all in all, " * 4}}
        for n in range(COMMITS)
    ]  # fmt: skip
    Path("episodes.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    program.ok("import", "episodes.jsonl")
    assert program.json("compact", "--no-episodes")["memories_considered"] == 0
    assert program.json("compact")["memories_considered"] == 0
    report = program.json("compact", "--episodes")
    (cluster,) = report["clusters"]
    assert (cluster["memory_type"], cluster["original_count"]) == ("episodic", 12)
    shown = program.ok("get", cluster["memory_id"])
    assert re.search(r"Goal: \[Summary of 12 memories from 2024-01-01 to 2024-01-12\]: ", shown)
    assert re.search(r"agent +bot", shown)
    assert len(program.json("compaction", "expand", cluster["memory_id"])) == 12
    assert program.json("compaction", "stats")["originals"] == 12
    assert "Restored 12 memories" in program.ok("compaction", "undo", cluster["memory_id"])
    assert ids(program) == {f"run{n}" for n in range(12)}


def test_a_summary_expands_to_its_originals(filled) -> None:
    filled.ok("compact")
    for summary in summaries(filled):
        originals = filled.json("compaction", "expand", summary["memory_id"])
        assert [one["memory_id"] for one in originals] == summary["data"]["compressed_from_ids"]
        topic = originals[0]["memory_id"].rstrip("0123456789")
        assert [one["content"] for one in originals] == [
            TOPICS[topic].format(n=n) for n in range(COMMITS)
        ]
        assert originals[0]["content"] in filled.ok("compaction", "expand", summary["memory_id"])


def test_undo_brings_the_originals_back(filled) -> None:
    before = ids(filled)
    filled.ok("compact")
    first, second = summaries(filled)
    receipts = filled.json("compaction", "undo", first["memory_id"])
    assert len(receipts) == COMMITS
    said = filled.ok("compaction", "undo", second["memory_id"])
    assert said == f"Restored 12 memories in place of {second['memory_id']}.\n"
    assert ids(filled) == before


def test_an_llm_without_setup_is_refused_with_advice(filled, monkeypatch) -> None:
    """An LLM that is not set up is refused with the variables to set."""
    for name in list(os.environ):
        if name.startswith(("MEMORY_ACTORS_LLM", "OPENAI")):
            monkeypatch.delenv(name)
    error = filled.refused("compact", "--summarizer", "llm")
    assert error["type"] in ("InvalidInputError", "MissingExtraError")
    assert summaries(filled) == []
    assert filled.refused("compact", "--summarizer", "magic", code=2)["type"] == "UsageError"


def test_ctrl_c_stops_after_the_cluster_in_hand(filled, monkeypatch) -> None:
    plain = MemorySystem.compact

    def interrupted(self: MemorySystem, user_id: str | None = None, **given: Any) -> Any:
        heard = given["progress"]
        sent: list[bool] = []

        def progress(at: CompactionProgress) -> None:
            heard(at)
            if at.clusters_done == 1 and not sent:
                sent.append(True)
                os.kill(os.getpid(), signal.SIGINT)

        return plain(self, user_id, **{**given, "progress": progress})

    monkeypatch.setattr(MemorySystem, "compact", interrupted)
    result = filled("compact")
    assert result.exit_code == 130
    assert "Compressed 12 of " in result.stdout
    assert "Interrupted: " in result.stderr
    assert len(summaries(filled)) == 1
    monkeypatch.undo()
    assert filled.json("compact")["originals"] == 12
