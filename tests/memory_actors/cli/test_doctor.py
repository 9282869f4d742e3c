"""doctor, model."""

import json
import sys
from importlib import import_module
from pathlib import Path

import pytest

from memory_actors.search.model.installed import model_path

checks = import_module("memory_actors.cli.doctor")  # the package has the command of that name


@pytest.fixture
def no_model(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MEMORY_ACTORS_MODEL_DIR", str(tmp_path / "none"))


def examine(program) -> tuple[int, dict[str, dict[str, str]]]:
    result = program("doctor", "--json")
    document = json.loads(result.stdout)
    assert document["ok"] == (result.exit_code == 0)
    return result.exit_code, {check["name"]: check for check in document["checks"]}


@pytest.fixture(scope="module", autouse=True)
def model() -> None:
    """The real model, as scripts/test installs it."""
    from memory_actors.search.model.install import install_model

    install_model()


def test_a_healthy_machine_passes_every_check(program) -> None:
    code, made = examine(program)
    assert list(made) == [
        "model", "embedding", "comparing", "vectors", "data directory",
        "free disk", "file system", "log lock", "log file", "fsync",
    ]  # fmt: skip
    assert code == 0, made
    assert {made[name]["status"] for name in ("model", "embedding")} == {"ok"}
    assert not program.data.exists()
    assert "in order" in program.ok("doctor")


def test_without_hnswlib_it_says_what_happens_and_how_to_get_it(program, monkeypatch) -> None:
    """A package that an install may lack is a warning, and no failure."""
    pytest.importorskip("hnswlib")
    assert examine(program)[1]["vectors"]["status"] == "ok"
    monkeypatch.setitem(sys.modules, "hnswlib", None)
    checks.graph.hnswlib.cache_clear()
    code, made = examine(program)
    checks.graph.hnswlib.cache_clear()
    assert (code, made["vectors"]["status"]) == (0, "warning")
    assert "all are scanned" in made["vectors"]["found"]
    assert "pip install hnswlib" in made["vectors"]["advice"]


def test_a_missing_model_is_found_and_the_cure_named(program, no_model) -> None:
    code, made = examine(program)
    assert code == 1
    assert (made["model"]["status"], made["embedding"]["status"]) == ("failed", "failed")
    assert "memory-actors model install" in made["model"]["advice"]
    result = program("doctor")
    assert result.exit_code == 1
    assert "✗" in result.stdout
    assert "→ run `memory-actors model install`" in result.stdout


def test_a_model_that_embeds_something_else_is_found(program, monkeypatch) -> None:
    monkeypatch.setattr(checks, "SENTENCES", ("the same", "the same"))
    code, made = examine(program)
    assert (code, made["embedding"]["status"]) == (1, "failed")


def test_little_room_and_a_slow_disk_are_found(program, monkeypatch) -> None:
    monkeypatch.setattr(checks, "FREE_BYTES_MIN", 1 << 60)
    monkeypatch.setattr(checks, "FSYNC_MS_MAX", -1.0)
    code, made = examine(program)
    assert (code, made["free disk"]["status"]) == (1, "failed")
    assert (made["fsync"]["status"], made["fsync"]["advice"] != "") == ("warning", True)


def test_a_check_that_crashes_stops_no_other(program, monkeypatch) -> None:
    def crash() -> None:
        raise RuntimeError("kaboom")

    monkeypatch.setattr(checks, "_comparing", crash)
    code, made = examine(program)
    assert code == 1
    assert (made["comparing"]["status"], "kaboom" in made["comparing"]["found"]) == ("failed", True)
    assert len(made) == 10


# --- model


def test_the_installed_model_has_a_path(program) -> None:
    assert program.ok("model", "path").strip() == str(model_path("int8"))
    told = program.json("model", "path")
    assert (told["path"], told["precision"]) == (str(model_path("int8")), "int8")


def test_the_file_of_the_log_is_looked_at(program) -> None:
    program.ok("add", "likes tea")
    assert examine(program)[1]["log file"]["status"] == "ok"
    log, anchor = program.data / "log.mdb", program.data / "log.anchor"
    whole, there = log.read_bytes(), anchor.read_bytes()
    anchor.unlink()
    assert examine(program)[1]["log file"]["status"] == "warning"
    anchor.write_bytes(there)
    for damaged in (whole[: len(whole) // 2], b"junk", b""):
        log.write_bytes(damaged)
        code, made = examine(program)
        assert (code, made["log file"]["status"]) == (1, "failed")
        assert log.read_bytes() == damaged
    log.unlink()
    assert "is missing or empty" in examine(program)[1]["log file"]["found"]
