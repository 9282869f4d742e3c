"""Each command of `python -m bench` runs on something tiny and says what it should."""

import asyncio
import json
import random
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner
from support.postgres import server

from bench import processes, report
from bench.__main__ import main
from bench.hashed import HashedEmbedder
from bench.locomo import score
from bench.opened import command_of, live_user, opened
from bench.report import Options, Report, Table, filesystem, scratch
from bench.stalls import Stalled, ticking
from bench.workload import life, unique_sentences
from memory_actors import Settings
from memory_actors.base.weights import Weights
from memory_actors.interchange.locomo import Question
from memory_actors.kinds.long_term import AddMemories, MemoryAdded

CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            {"speaker": "Ada", "dia_id": "D1:1", "text": "I bought a red bicycle."},
            {"speaker": "Tom", "dia_id": "D1:2", "text": "I was at the dentist."},
        ],
        "session_2_date_time": "3:00 pm on 9 May, 2023",
        "session_2": [{"speaker": "Ada", "dia_id": "D2:1", "text": "It rains."}],
    },
    "qa": [
        {"question": "What did Ada buy?", "evidence": ["D1:1"], "category": 4},
        {"question": "Who rains?", "evidence": ["D9:9"], "category": 1},
    ],
}


def bench(directory: Path, *arguments: str) -> dict[str, Any]:
    """Run a command in this process and return its report."""
    everywhere = ["--dir", str(directory), "--runs", "1", "--json"]
    result = CliRunner().invoke(main, [*arguments, *everywhere], catch_exceptions=False)
    assert result.exit_code == 0
    assert not list(directory.glob(".bench-*")), "the scratch directory is still there"
    found: dict[str, Any] = json.loads(result.stdout)
    assert {"packages", "filesystem", "fsync", "seed", "runs", "load"} <= set(found["facts"])
    return found


def rows(found: dict[str, Any], table: int = 0) -> list[dict[str, Any]]:
    """Return a table's rows by column."""
    chosen = found["tables"][table]
    return [dict(zip(chosen["columns"], row, strict=True)) for row in chosen["rows"]]


def test_log_compares_four_stores_at_three_numbers_of_producers(tmp_path: Path) -> None:
    found = rows(bench(tmp_path, "log", "--events", "256"))
    assert [row["producers"] for row in found] == [n for n in (1, 16, 256) for _ in range(4)]
    floors = [row["of raw lmdb"] for row in found if row["subject"] == "raw lmdb"]
    assert floors == [1.0] * 3
    assert all(row["events/s"] > 0 and row["p50 ms"] <= row["p99 ms"] for row in found)
    crowded = next(row for row in found if row["producers"] == 256)
    assert crowded["events a batch"] > 1


def test_replay_reads_one_stream_in_every_way(tmp_path: Path) -> None:
    found = rows(bench(tmp_path, "replay", "--events", "300"))
    assert len(found) == 5
    assert all(row["events"] == 300 and row["events/s"] > 0 for row in found)


def test_takeover_embeds_the_query_alone(tmp_path: Path) -> None:
    found = rows(bench(tmp_path, "takeover", "--memories", "120", "--url", server().url))
    assert [row["texts embedded"] for row in found] == [1.0] * 3
    assert all(row["first answer ms"] > 0 for row in found)


def test_memory_times_each_call_and_each_activation(tmp_path: Path) -> None:
    sizes = ("--sizes", "30", "--sizes", "120")
    found = bench(tmp_path, "memory", *sizes, "--calls", "2", "--without-model")
    assert {row["memories"] for row in rows(found)} == {30, 120}
    assert len(rows(found)) == 2 * 12
    assert len(rows(found, 2)) == 2 * 4
    assert all(row["median ms"] > 0 for row in rows(found, 2))


def test_users_weighs_processes_and_squeezes_them(tmp_path: Path) -> None:
    found = bench(tmp_path, "users", "--users", "12", "--memories", "5", "--calls", "10")
    assert [row["memories"] for row in rows(found)] == [5]
    assert all(row["estimated KB"] > 0 for row in rows(found))
    assert all(row["left"] > 0 and row["live at the end"] < 12 for row in rows(found, 1))

    (work,), (disk,) = rows(found, 3), rows(found, 4)
    assert work["activation ms"] > 0
    assert work["retrieve ms"] > 0
    assert disk["bytes a memory"] > 0


@pytest.mark.slow  # half a minute: it fills each kind to its limit
def test_quota_measures_each_kind_below_and_at_its_limit(tmp_path: Path) -> None:
    tiny = ("--scale", "0.004", "--calls", "2", "--prunes", "1", "--without-model")
    found = bench(tmp_path, "quota", *tiny)
    decisions, adds, queries, filled = (rows(found, table) for table in range(4))
    kinds = [row["kind"] for row in decisions]
    assert kinds == [row["kind"] for row in adds] == [row["kind"] for row in filled]
    rooms = {row["kind"]: row["room"] for row in adds}
    assert rooms["long_term"] == "prunes 4"
    assert rooms["working"] == rooms["episodic, steps"] == "evicts 1"
    assert {"working.get", "entities.neighbours (depth 2)", "documents.find, range"} <= {
        row["query"] for row in queries
    }
    assert all(row["cold ms"] > 0 and row["p50 ms"] <= row["p99 ms"] for row in queries)


def test_fill_compares_the_first_adds_with_the_last(tmp_path: Path) -> None:
    tiny = ("--marks", "10", "--marks", "30", "--calls", "2", "--users", "2")
    found = bench(tmp_path, "fill", *tiny)
    assert [row["n"] for row in rows(found)] == [10, 30] * 9
    assert all(row["n-th / first"] == 1.0 for row in rows(found) if row["n"] == 10)
    assert all(row["decide"] > 0 for row in rows(found, 1))
    assert [row["alert"] for row in rows(found, 2)] == ["no", "warning", "no"]


def test_enterprise_says_for_how_long_the_loop_stands_still(tmp_path: Path) -> None:
    found = bench(tmp_path, "enterprise", "--memories", "60", "--calls", "2")
    stalls = {row["operation"]: row for row in rows(found, 2)}
    assert {"nothing", "add", "add that prunes a tenth", "restore", "passivation"} <= set(stalls)
    assert stalls["nothing"]["took ms"] >= 1_000
    assert [row["files"] for row in rows(found, 3)] == ["warm", "cold", "warm", "warm"]
    (memory,) = rows(found, 4)
    assert memory["bare process MB"] > 0
    assert rows(found, 5)[-1]["bytes a memory"] > 0


def test_a_ticker_sees_how_long_the_loop_is_held() -> None:
    async def held() -> Stalled:
        async with ticking() as ticker:
            _, stalled = await ticker.watch(hold())
            return stalled

    async def hold() -> None:
        time.sleep(0.05)

    stalled = asyncio.run(held())
    assert stalled.took_ms >= 50
    assert stalled.stall_ms >= 45


def test_a_captured_command_writes_nothing(tmp_path: Path) -> None:
    async def captured() -> None:
        async with opened(tmp_path / "store", HashedEmbedder()) as memory:
            user = memory.user("Ada")
            async with live_user(memory, "Ada") as live:
                command = await command_of(live, user.add("Never said."))
            assert isinstance(command, AddMemories)
            assert await user.list_memories() == []
            await user.add("Said.")
            assert len(await user.list_memories()) == 1

    asyncio.run(captured())


def test_crossover_asks_in_every_way_and_finds_the_same(tmp_path: Path) -> None:
    pytest.importorskip("hnswlib")
    found = bench(tmp_path, "crossover", "--sizes", "60", "--sizes", "400", "--queries", "4")
    assert [row["rows"] for row in rows(found)] == [60, 400]
    assert [row["way"] for row in rows(found, 2)] == 2 * ["scan", "signs", "graph"]
    assert all(row["recall@10"] == 1.0 for row in rows(found, 2))


def test_locomo_scores_the_questions_that_have_evidence(tmp_path: Path) -> None:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([CONVERSATION]))
    found = bench(tmp_path, "locomo", str(path), "--embedder", "hashed")
    assert found["facts"]["turns"] == 3
    assert [row["ranking"] for row in rows(found)] == ["all signals", "plain cosine"]
    for row in rows(found):
        assert row["questions"] == 1
        assert row["turn R@5"] == row["session R@5"] == 1.0


def test_locomo_draws_every_ranking_it_scored(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    path, plots = tmp_path / "locomo.json", tmp_path / "plots"
    path.write_text(json.dumps([CONVERSATION]))
    hashed = ("--embedder", "hashed", "--ablation", "--plot", str(plots))
    found = bench(tmp_path, "locomo", str(path), *hashed)
    assert len(rows(found)) == 2 + len(Weights.__struct_fields__)
    assert sorted(file.name for file in plots.iterdir()) == [
        "locomo_recall_by_signals.png",
        "locomo_recall_by_signals.svg",
    ]


# --- what they stand on


def test_a_score_counts_fractions_and_sessions() -> None:
    question = Question(text="?", evidence=("D1:1", "D3:2"), category=1)
    ranking = ["D2:1", "D3:9", "D3:2", "D2:2", "D2:3", "D2:4", "D1:1"]
    found = score(question, ranking)
    assert (found["turn R@5"], found["turn R@10"]) == (0.5, 1.0)
    assert (found["any@5"], found["MRR"]) == (1.0, pytest.approx(1 / 3))
    assert found["session R@5"] == 1.0


def test_nothing_found_scores_zero() -> None:
    question = Question(text="?", evidence=("D1:1",), category=1)
    assert set(score(question, ["D2:1"]).values()) == {0.0}


def test_a_life_stays_within_its_number_of_memories() -> None:
    from eventlog import Recorded
    from memory_actors.kinds.user_state import UserState, user_decider

    decider, state, most = user_decider(Settings().limits_by_tier()), UserState(), 0
    for version, event in enumerate(life(500, 40, random.Random(1)), 1):
        state = decider.evolve(state, Recorded("s", version, version, 0, "", event, 9, 9, b""))
        most = max(most, len(state.long_term.held))
    assert most == 40


def test_the_same_seed_gives_the_same_life() -> None:
    first, again = (list(life(50, 40, random.Random(3))) for _ in range(2))
    assert first == again
    assert isinstance(first[0], MemoryAdded)


def test_sentences_never_repeat() -> None:
    texts = unique_sentences(random.Random(1))
    assert len({next(texts) for _ in range(2_000)}) == 2_000


def test_a_directory_in_memory_is_refused_unless_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "filesystem", lambda _path: "tmpfs")
    with pytest.raises(click.ClickException, match="--dir"), scratch(Options(None, 1, 1)):
        pass
    with scratch(Options(tmp_path, 1, 1)) as directory:
        assert directory.parent == tmp_path


def test_the_filesystem_of_the_kernel_is_known() -> None:
    assert filesystem(Path("/proc/self")) in ("proc", "unknown")


def test_people_get_aligned_tables(capsys: pytest.CaptureFixture[str]) -> None:
    table = Table("Things", ["name", "count", "ratio"], [["a", 12_345, 0.5], ["bcd", 1, None]])
    report.show(Report("Name", {"seed": 1}, [table], ["a note"]), as_json=False)
    assert capsys.readouterr().out.splitlines() == [
        "Name",
        "",
        "seed  1",
        "",
        "Things",
        "",
        "name   count  ratio",
        "----  ------  -----",
        "a     12,345  0.500",
        "bcd        1      -",
        "",
        "- a note",
    ]


@pytest.mark.timeout(300)
def test_processes_rates_each_figure_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {"MEMORIES": 200, "WARM_UP_CALLS": 2, "KILL_GAP_S": 0.2, "CLIENTS_KILLED_BESIDE": 1}
    for name, fewer in tiny.items():
        monkeypatch.setattr(processes, name, fewer)
    asked = ("--clients", "1", "--seconds", "0.3", "--memories", "200", "--kills", "1")
    options = ["--dir", str(tmp_path), "--runs", "1", "--json", "--calls", "5", *asked]
    result = CliRunner().invoke(main, ["processes", *options], catch_exceptions=False)
    found = rows(json.loads(result.stdout))
    assert len(found) == 14
    assert {row["asked"] for row in found} >= {"<= 0.35 ms", "<= 0.5 ms", ">= 0.8", "<= 2", "< 2 s"}
    verdicts = [row[""] for row in found]
    assert result.exit_code == int("**missed**" in verdicts)
    assert set(verdicts) <= {"ok", "**missed**"}
