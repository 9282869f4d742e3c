"""history, verify."""

import pytest

from memory_actors.cli.output import size


def test_the_history_of_a_memory_outlives_it(program) -> None:
    memory_id = program.json("add", "likes tea", "--metadata", '{"a": 1}')["memory_id"]
    program.ok("delete", memory_id)
    entries = program.json("history", memory_id)
    assert [(e["position"], e["event"], e["cause"]["command"]) for e in entries] == [
        (1, "long_term.added", "AddMemories"),
        (2, "long_term.deleted", "DeleteMemory"),
    ]
    said = program.ok("history", memory_id)
    for part in ("long_term.added", "AddMemories", "likes tea", '{"a":1}', "long_term.deleted"):
        assert part in said
    assert program.refused("history", "nosuch")["type"] == "NotFoundError"


def test_a_whole_store_verifies(program) -> None:
    program.ok("add", "x")
    program.ok("add", "y", "--user", "other")
    report = program.json("verify")
    assert (report["ok"], report["events"], report["streams"]) == (True, 2, 2)
    assert report["findings"] == []
    assert "✓" in program.ok("verify")


@pytest.mark.parametrize(
    ("size_bytes", "said"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KB"), (1536, "1.5 KB"), (5 << 30, "5.0 GB")],
)
def test_sizes_read_as_people_say_them(size_bytes: int, said: str) -> None:
    assert size(size_bytes) == said
