"""export-since, import-since."""

from pathlib import Path

import pytest
from support.fakes import FakeEmbedder


@pytest.fixture
def copy(program, tmp_path: Path):
    """A program over another store."""
    other = type(program)(tmp_path / "copy")
    other.embedder = FakeEmbedder()
    return other


def contents(program, user: str = "default") -> list[str]:
    return sorted(found["content"] for found in program.json("list", "--user", user))


def test_a_copy_follows_increment_by_increment(program, copy, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    first = program.json("export-since", "0", str(tmp_path / "first"))
    assert (first["events"], first["position"]) == (1, 1)
    assert copy.json("import-since", str(tmp_path / "first"))["events"] == 1
    program.ok("add", "likes coffee")
    program.ok("add", "rows a boat", "--user", "bob")

    said = program.ok("export-since", "1", str(tmp_path / "second"))
    assert "2 events" in said
    assert "goes on at 3" in said
    assert "2 events added" in copy.ok("import-since", str(tmp_path / "second"))

    assert contents(copy) == ["likes coffee", "likes tea"]
    assert contents(copy, "bob") == ["rows a boat"]
    assert copy.json("verify")["ok"]
    assert copy.json("import-since", str(tmp_path / "second"))["events"] == 0


def test_what_does_not_fit_is_refused(program, copy, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    program.ok("add", "likes coffee")
    program.ok("export-since", "1", str(tmp_path / "second"))
    copy.ok("add", "has another past")
    (tmp_path / "diary").write_text("dear diary")

    assert program.refused("export-since", "9", str(tmp_path / "x"))["type"] == "LogUnavailable"
    assert program.refused("export-since", "0", str(tmp_path / "second"))["type"] == (
        "LogUnavailable"
    )
    assert program.refused("export-since", "-1", str(tmp_path / "x"), code=2)["type"] == (
        "UsageError"
    )
    assert copy.refused("import-since", str(tmp_path / "second"))["type"] == "CorruptLog"
    assert copy.refused("import-since", str(tmp_path / "diary"))["type"] == "LogUnavailable"
    assert copy.refused("import-since", str(tmp_path / "none"))["type"] == "LogUnavailable"
    assert contents(copy) == ["has another past"]


def test_a_gap_is_refused_and_makes_no_store(program, copy, tmp_path: Path) -> None:
    program.ok("add", "likes tea")
    program.ok("add", "likes coffee")
    program.ok("export-since", "1", str(tmp_path / "second"))

    assert copy.refused("import-since", str(tmp_path / "second"))["type"] == "WrongExpectedVersion"
    assert copy.refused("import-since", str(tmp_path / "none"))["type"] == "LogUnavailable"
    assert copy.refused("list")["type"] == "NotFoundError"
