"""An import says what it loses or does not understand."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_actors.interchange import ImportNote, ImportReport, import_jsonl

pytestmark = pytest.mark.anyio


async def imported(user: Any, path: Path, *lines: dict[str, Any]) -> ImportReport:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return await import_jsonl(user, path)


async def test_a_date_not_taken_for_the_time_is_told(user, tmp_path) -> None:
    report = await imported(
        user, tmp_path / "x",
        {"content": "moved to Porto", "created_at": "2024-05-01T12:00:00Z"},
        {"content": "likes tea", "created_at": 1714564800},
        {"content": "has both", "timestamp": "2024-05-01", "created_at": "2024-05-02"},
    )  # fmt: skip
    assert report.added == 3
    assert report.notes == (
        ImportNote("'created_at' is no field of ours: it is kept as metadata", 1),
        ImportNote(
            "'created_at' was not taken for when it was true: it is kept as metadata, and the "
            "memory is as old as its import. Call it 'timestamp' if it says when it was true",
            2,
        ),
    )
    by_text = {one.content: one for one in await user.list_memories()}
    assert by_text["moved to Porto"].metadata == {"created_at": "2024-05-01T12:00:00Z"}


async def test_fields_that_are_not_understood_are_named_with_how_often(memory, tmp_path) -> None:
    report = await imported(
        memory.user("ada"), tmp_path / "x",
        *({"content": f"fact {n}", "score": n, "kind": "x"} for n in range(3)),
        {"content": "other", "metadata": {"kind": "mine"}, "kind": "yours"},
        {"content": "plain", "metadata": {"any": 1}},
    )  # fmt: skip
    assert {note.says: note.lines for note in report.notes} == {
        "'score' is no field of ours: it is kept as metadata": 3,
        "'kind' is no field of ours: it is kept as metadata": 3,
        "'kind' was left out: the metadata has a field of that name": 1,
    }


async def test_equal_texts_keep_their_own_metadata(user, tmp_path) -> None:
    """Equal texts keep their own metadata, whatever file they come in."""
    for room in ("kitchen", "bath"):
        line = {"content": "painted it blue", "metadata": {"room": room}}
        report = await imported(user, tmp_path / room, line)
        assert (report.added, report.unchanged) == (1, 0)
    rooms = {one.metadata["room"] for one in await user.list_memories()}
    assert rooms == {"kitchen", "bath"}


async def test_metadata_that_is_not_taken_over_is_told(user, tmp_path) -> None:
    """An id that was used adds nothing, so what else its line says is lost."""
    line = {"id": "a", "content": "likes tea", "metadata": {"sure": True}}
    await imported(user, tmp_path / "x", line)
    report = await imported(user, tmp_path / "x", {**line, "metadata": {"sure": False}})
    assert (report.added, report.unchanged) == (0, 1)
    (note,) = report.notes
    assert note.lines == 1
    assert "the metadata was not taken over" in note.says
