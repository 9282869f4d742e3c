"""`bench peers` and `bench vectors` on something tiny, and what every adapter has to do."""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from bench import peers_run
from bench.__main__ import main
from bench.hashed import HashedEmbedder, HashedTokens
from bench.peer_stores import PEERS, Memory, Spec, load, missing, versions
from bench.peers_child import _no_network
from bench.peers_plan import (
    KnownTexts,
    KnownTokens,
    Plan,
    known_texts,
    make_plan,
    read_plan,
    write_plan,
)
from memory_actors.interchange.locomo import read_locomo
from memory_actors.search.embedding.batcher import PROBE

TINY = ("--embedder", "hashed", "--memories", "80", "--calls", "4", "--rounds", "1")


def said(speaker: str, dia_id: str, text: str) -> dict[str, str]:
    return {"speaker": speaker, "dia_id": dia_id, "text": text}


CONVERSATION = {
    "sample_id": "conv-1",
    "conversation": {
        "session_1_date_time": "1:56 pm on 8 May, 2023",
        "session_1": [
            said("Ada", "D1:1", "I bought a red bicycle last week."),
            said("Tom", "D1:2", "I was at the dentist, who found nothing."),
            said("Ada", "D1:3", "My sister moved to Lisbon."),
            said("Tom", "D1:4", "Pottery classes begin on Monday."),
        ],
        "session_2_date_time": "3:00 pm on 9 May, 2023",
        "session_2": [
            said("Ada", "D2:1", "It rains, so we play chess."),
            said("Tom", "D2:2", "The treehouse is nearly done."),
        ],
    },
    "qa": [
        {"question": "What colour is the bicycle?", "evidence": ["D1:1"], "category": 4},
        {"question": "Who moved to Lisbon, and why chess?", "evidence": ["D1:3; D2:1"],
         "category": 1},
        {"question": "When do pottery classes begin?", "evidence": ["D1:4"], "category": 2},
        {"question": "Who rains?", "evidence": ["D9:9"], "category": 1},
    ],
}  # fmt: skip


@pytest.fixture
def locomo(tmp_path: Path) -> Path:
    path = tmp_path / "locomo.json"
    path.write_text(json.dumps([CONVERSATION]))
    return path


def bench(directory: Path, *arguments: str) -> Result:
    everywhere = ["--dir", str(directory), "--runs", "1", "--json"]
    return CliRunner().invoke(main, [*arguments, *everywhere])


def tables(result: Result) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, by its title."""
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    return {
        table["title"]: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in found["tables"]
    }


# --- the command


def test_ours_is_measured_beside_a_keyword_floor(tmp_path: Path, locomo: Path) -> None:
    only = ("--only", "memory-actors", "--only", "rank_bm25")
    found = tables(bench(tmp_path, "peers", str(locomo), *TINY, *only))
    reason = missing(PEERS["rank_bm25"])
    assert [row["system"] for row in found["Skipped"]] == ["rank_bm25"] * bool(reason)
    systems = ["memory-actors", *(["rank_bm25"] * (not reason))]
    for title in ("Recall", "Speed", "Cost and safety", "How", "Turn R@10 by category"):
        assert [row["system"] for row in found[title]] == systems
    for row in found["Recall"]:
        assert row["questions"] == 3
        assert row["turn R@10"] == row["session R@5"] == 1.0  # there are six turns
    assert not list(tmp_path.glob(".bench-*")), "the scratch directory is still there"


def test_ours_is_timed_weighed_and_killed(tmp_path: Path, locomo: Path) -> None:
    found = tables(bench(tmp_path, "peers", str(locomo), *TINY, "--only", "memory-actors"))
    speed, cost = found["Speed"][0], found["Cost and safety"][0]
    assert 0 < speed["add p50 ms"] <= speed["add p99 ms"]
    assert 0 < speed["search p50 ms"] <= speed["search p99 ms"]
    assert speed["filtered found"] == 1.0
    assert speed["save ms"] is None
    assert speed["reopen ms"] > 0
    assert cost["acknowledged"] > 0
    assert cost["lost"] == cost["broken stores"] == 0
    assert cost["disk KB/memory"] > 0
    assert found["How"][0]["unplanned texts"] == 0, "embedding was timed"


def test_a_peer_that_does_not_exist_is_refused(tmp_path: Path, locomo: Path) -> None:
    result = bench(tmp_path, "peers", str(locomo), *TINY, "--only", "nobody")
    assert result.exit_code == 2
    assert "memory-actors" in result.output


def test_a_peer_that_fails_costs_its_row_and_says_why(
    tmp_path: Path, locomo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dying = [sys.executable, "-c", "raise SystemExit('no model here')"]
    monkeypatch.setattr(peers_run, "_command", lambda *_: dying)
    found = tables(bench(tmp_path, "peers", str(locomo), *TINY, "--only", "memory-actors"))
    assert found["Recall"] == []
    assert found["Skipped"] == [
        {"system": "memory-actors", "reason": "failed: fill: no model here"}
    ]


def test_a_peer_not_installed_is_skipped_with_the_cure() -> None:
    """A peer that is not installed is skipped with the cure."""
    reason = missing(Spec("x:Y", ("json", "no_such_module", "no_such.module"), ()))
    assert reason == (
        "not installed: no_such_module, no_such.module (pip install 'memory-actors[peers]')"
    )
    assert missing(PEERS["memory-actors"]) is None
    assert versions("memory-actors")


def test_the_network_is_shut_for_peers() -> None:
    with pytest.raises(ConnectionRefusedError, match=r"hub\.example"):
        _no_network("socket.getaddrinfo", ("hub.example", 443))
    with pytest.raises(ConnectionRefusedError):
        _no_network("socket.connect", (None, ("10.0.0.1", 80)))
    _no_network("socket.connect", (None, ("127.0.0.1", 80)))
    _no_network("socket.connect", (None, "/a/unix/socket"))
    _no_network("open", ("file",))


def test_recall_of_peers_is_drawn(tmp_path: Path, locomo: Path) -> None:
    pytest.importorskip("matplotlib")
    few = ("--embedder", "hashed", "--memories", "20", "--calls", "1", "--rounds", "0")
    only = ("--only", "memory-actors", "--plot", str(tmp_path / "plots"))
    assert bench(tmp_path, "peers", str(locomo), *few, *only).exit_code == 0
    names = {path.name for path in (tmp_path / "plots").iterdir()}
    plots = ("recall_by_system", "cost_against_recall")
    assert names == {f"{plot}.{kind}" for plot in plots for kind in ("png", "svg")}


def test_no_matplotlib_is_said_before_an_hour_of_measuring(
    tmp_path: Path, locomo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    result = bench(tmp_path, "peers", str(locomo), *TINY, "--plot", str(tmp_path))
    assert result.exit_code == 1
    assert "memory-actors[peers]" in result.output


# --- the plan


def plan(locomo: Path, size: int = 300, seed: int = 1) -> Plan:
    return make_plan(read_locomo(locomo), size, 2, "hashed", seed)


def test_the_same_seed_plans_the_same(locomo: Path) -> None:
    assert plan(locomo) == plan(locomo)
    assert plan(locomo) != plan(locomo, seed=2)


def test_a_plan_fills_with_as_many_memories_as_asked_for(locomo: Path) -> None:
    made = plan(locomo)
    assert len(made.fill) == len({memory.id for memory in made.fill}) == 300
    assert len({memory.text for memory in made.fill}) == 300
    topics = [memory.metadata["topic"] for memory in made.fill]
    assert {topics.count(topic) for topic in topics} == {3}  # 1 %
    sessions = {memory.metadata["session"] for memory in made.fill}
    assert sessions.isdisjoint(memory.metadata["session"] for memory in made.late)


def test_a_plan_survives_its_file_and_knows_every_text(tmp_path: Path, locomo: Path) -> None:
    made = plan(locomo, size=20)
    write_plan(made, tmp_path)
    assert read_plan(tmp_path) == made
    known = known_texts(made, tmp_path, remember=True)
    texts = [*(memory.text for memory in [*made.fill, *made.late]), *made.asked]
    np.testing.assert_array_equal(known.embed(texts), HashedEmbedder().embed(texts))
    assert known.computed == 0


def test_a_text_outside_the_plan_is_computed_once_and_counted() -> None:
    known = KnownTexts(HashedEmbedder(), {}, remember=True)
    for _ in range(2):
        np.testing.assert_array_equal(known.embed(["new"]), HashedEmbedder().embed(["new"]))
    assert known.computed == 1


def test_token_states_are_known_too_and_weighing_keeps_no_others(
    tmp_path: Path, locomo: Path
) -> None:
    made = plan(locomo, size=20)
    write_plan(made, tmp_path)
    for remember, computed in ((True, 1), (False, 2)):
        known = known_texts(made, tmp_path, remember=remember)
        assert isinstance(known, KnownTokens)
        for _ in range(2):
            texts = [made.asked[0], "not in the plan"]
            found = [one.tokens for one in known.encode(texts)]
            assert found == [one.tokens for one in HashedTokens().encode(texts)]
        assert known.computed == computed


# --- the adapters


@pytest.mark.filterwarnings("ignore")  # other people's
@pytest.mark.parametrize("name", PEERS)
def test_an_adapter_adds_finds_filters_deletes_and_reopens(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reason = missing(PEERS[name])
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("HOME", str(tmp_path))  # some keep files there
    asyncio.run(_used(name, tmp_path))


async def _used(name: str, directory: Path) -> None:
    memories = _memories(60)
    peer, embed = load(name), _Recording()
    await peer.open(directory, embed)
    await peer.add_many(memories[:50])
    for memory in memories[50:]:
        await peer.add(*memory)
    await peer.settle()
    for memory in memories[::9]:
        found = await peer.search(memory.text, 5)
        assert found[0] == memory.id
        assert len(found) == 5
    mine = await peer.search(memories[7].text, 5, {"topic": "topic 7"})
    assert mine[0] == memories[7].id
    assert set(mine) <= {one.id for one in memories if one.metadata["topic"] == "topic 7"}
    await peer.delete(memories[0].id)
    ids = [memories[0].id, memories[1].id, "never added"]
    assert await peer.holds(ids) == {memories[1].id}
    assert memories[0].id not in await peer.search(memories[0].text, 5)
    await peer.persist()
    await peer.close()
    told = {memory.text for memory in memories}
    assert embed.texts <= {*told, "probe", PROBE}, "metadata was embedded"
    if peer.keeps:
        again = load(name)
        await again.open(directory, embed)
        assert await again.holds(ids) == {memories[1].id}
        assert (await again.search(memories[1].text, 5))[0] == memories[1].id
        await again.close()


class _Recording(HashedEmbedder):
    """Vectors of non-negative numbers, so that no cosine is below a threshold of zero."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: set[str] = set()

    def embed(self, texts: Any) -> Any:
        self.texts |= set(texts)
        rows = np.abs(super().embed(texts))
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def _memories(count: int) -> list[Memory]:
    rng = random.Random(1)
    words = [f"{a}{b}" for a in ("bo", "ka", "lu", "mi", "ter") for b in ("nal", "rop", "sti")]
    return [
        Memory(
            f"m{number}",
            f'Ada: it\'s "{" ".join(rng.sample(words, 6))}" word{number}',
            {
                "session": f"session_{number // 10}",
                "speaker": "Ada",
                "occurred_at": f"2023-05-08T13:56:{number:02}+00:00",
                "topic": f"topic {number % 10}",
            },
        )
        for number in range(count)
    ]


# --- vectors


def test_vectors_compares_what_is_installed(tmp_path: Path) -> None:
    sizes = ("--sizes", "100", "--sizes", "200")
    found = tables(bench(tmp_path, "vectors", *sizes, "--queries", "5"))
    names = {row["index"] for row in found["Vectors"]}
    assert {"memory-actors", "numpy exact"} <= names  # hnswlib has to be compiled: `peers` has it
    assert not names & {row["index"] for row in found["Skipped"]}
    for row in found["Vectors"]:
        assert row["recall@10"] > 0.9
        assert row["bytes a row"] >= 4 * 384
        assert row["p50 us"] <= row["p99 us"]
