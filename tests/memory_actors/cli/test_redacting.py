"""`--redact` and its variable: what commands store, and what they refuse."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.redaction import SERVICES, Values

KEY = SERVICES["github-token"](Values(4))


def test_commands_mask_what_they_store(
    program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An option or a variable masks what is stored; an import that is run again adds nothing."""
    file = tmp_path / "facts.jsonl"
    file.write_text(json.dumps({"text": f"imported {KEY}", "metadata": {"token": "hunter"}}))
    receipt = program.json("add", "--redact", "secrets", f"the key {KEY}")
    monkeypatch.setenv("MEMORY_ACTORS_REDACT", "secrets,personal")
    imported = [program.json("import", str(file), "--user", "default")["added"] for _ in range(2)]

    assert receipt["masked"] == {"secret:github-token": 1}
    assert imported == [1, 0]
    stored = program.ok("list", "--json")
    assert stored.count("[secret:github-token:") == 2
    assert KEY not in stored
    assert "hunter" not in stored


def test_an_unknown_detector_is_named_with_those_there_are(program: Any) -> None:
    error = program.refused("add", "--redact", "github", "likes tea")
    assert error["type"] == "InvalidInputError"
    assert "github-token" in error["message"]
