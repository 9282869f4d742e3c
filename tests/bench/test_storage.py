"""`bench storage` on something tiny, and the texts that it weighs."""

import json
from itertools import islice
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.hashed import HashedPieces
from bench.storage import DISK_PARTS
from bench.weigh import PARTS
from bench.workload import chat_turns
from memory_actors.search.embedding.token_states import unpack

SIZES = ("--sizes", "40", "--sizes", "150")


def bench(directory: Path, *arguments: str) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each table, by its title."""
    command = ["storage", *SIZES, "--runs", "1", "--json", "--dir", str(directory), *arguments]
    result = CliRunner().invoke(main, command, catch_exceptions=False)
    assert result.exit_code == 0
    assert not list(directory.glob(".bench-*")), "the scratch directory is still there"
    return {
        table["title"]: [dict(zip(table["columns"], row, strict=True)) for row in table["rows"]]
        for table in json.loads(result.stdout)["tables"]
    }


def test_storage_weighs_each_part_on_disk_and_in_memory(tmp_path: Path) -> None:
    found = bench(tmp_path)
    disk, memory, estimate = found.values()
    for table in (disk, memory, estimate):
        assert [row["memories"] for row in table] == [40, 150]
    for row in disk:
        assert sum(row[part] for part in DISK_PARTS) == pytest.approx(row["together"])
        assert row["together"] * row["memories"] == pytest.approx(row["MB"] * 2**20)
        assert row["embeddings"] > 384 + 18 * 30, "a byte a dimension, 18 a token"
        assert row["events"] > 148
        assert row["free pages"] >= 0
    for row, parts in zip(memory, estimate, strict=True):
        assert row["anonymous"] > 0
        assert sum(parts[part] for part in PARTS) == pytest.approx(row["estimated"])


def test_storage_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    bench(tmp_path, "--plot", str(tmp_path / "plots"))
    assert len(list((tmp_path / "plots").glob("bytes_a_memory.*"))) == 2


def test_chat_turns_are_as_long_as_those_of_people() -> None:
    texts = list(islice(chat_turns(1), 2_000))
    assert 135 < fmean(map(len, texts)) < 160
    assert 26 < fmean(len(text.split()) for text in texts) < 30
    pieces = [one.tokens for one in HashedPieces().encode(texts)]
    lengths = [len(unpack(packed).token_ids) for packed in pieces if packed is not None]
    assert 25 <= median(lengths) <= 29
    assert {unpack(pieces[0] or b"").codes.shape[1]} == {16}


def test_the_same_seed_gives_the_same_turns() -> None:
    first, again, other = (list(islice(chat_turns(seed), 20)) for seed in (1, 1, 2))
    assert first == again != other
