"""`bench supersedes`: pairs are printed for a person to judge, and judged ones are counted."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.__main__ import main
from bench.supersedes import read_pairs
from memory_actors.search.superseding import rules

JUDGED = """\
# a comment

## tuned on

+ User lives in Bristol. | User moved to Glasgow.
- User likes tea. | User likes coffee.

## held out

+ User feels blue. | User feels great.
- User's weight is 70 kg. | User's weight is 71 kg.
"""


def test_pairs_of_a_set_and_judged_pairs_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rules, "SIMILARITY_MIN", -1.0)  # hashed vectors are near to none
    memories = [
        {"id": "m0", "text": "User lives in Bristol.", "time": "2023-01-01T00:00:00+00:00"},
        {"id": "m1", "text": "User lives in Glasgow now.", "time": "2025-01-01T00:00:00+00:00"},
        {"id": "m2", "text": "User likes tea.", "time": "2024-01-01T00:00:00+00:00"},
    ]
    asked = [{"text": "User lives in Bristol", "evidence": ["m1"], "category": "update"}]
    users = [{"id": "Ada", "memories": memories, "questions": asked}]
    (tmp_path / "tiny.json").write_text(json.dumps({"name": "tiny", "users": users}))
    (tmp_path / "judged.txt").write_text(JUDGED)
    paths = [str(tmp_path / "tiny.json"), str(tmp_path / "judged.txt")]
    options = ["--embedder", "hashed", "--dir", str(tmp_path), "--json"]
    done = CliRunner().invoke(main, ["supersedes", *paths, *options], catch_exceptions=False)
    pairs, recall, counts, wrong = json.loads(done.stdout)["tables"]
    ((_, older, newer, _, evidence),) = pairs["rows"]
    assert (older, newer) == ("User lives in Bristol.", "User lives in Glasgow now.")
    assert evidence == "residence: Bristol -> Glasgow"
    assert [row[:3] for row in recall["rows"]] == [["tiny", "all", 1], ["tiny", "update", 1]]
    # hit@1 without, with: the ranking puts the newer one first in either case
    assert [row[5:] for row in recall["rows"]] == [[1.0, 1.0]] * 2
    assert counts["rows"] == [["tuned on", 1, 0, 1, 0], ["held out", 1, 1, 1, 1]]
    assert [row[0] for row in wrong["rows"]] == ["missed", "false positive"]


def test_a_line_that_is_no_pair_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("+ one text alone")
    with pytest.raises(click.ClickException, match=r"pairs\.txt:1"):
        list(read_pairs(path))
