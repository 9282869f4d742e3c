"""Context documents in JSON lines: plain entries, blocks as they were, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_actors import InvalidInputError
from memory_actors.interchange import import_jsonl

pytestmark = pytest.mark.anyio

BLOCK = {"document": "n.md", "raw": "- x\n", "rank": "V"}


def written(path: Path, *lines: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({"memory_type": "context", **one}) + "\n" for one in lines))
    return path


async def test_a_plain_line_is_an_entry_of_memory_md(user, tmp_path: Path) -> None:
    path = written(
        tmp_path / "in.jsonl",
        {"content": "likes tea", "key": "Tastes", "pinned": True, "metadata": {"a": 1}},
        {"content": "likes tea", "key": "Tastes"},
    )
    assert (await import_jsonl(user, path)).added == 2
    assert (await import_jsonl(user, path)).added == 0
    assert await user.context.render() == "## Tastes\n\n- likes tea\n- likes tea\n"
    assert [one.pinned for one in await user.context.entries()] == [True, False]
    await user.delete((await user.context.entries())[0].entry_id)
    assert (await import_jsonl(user, path)).added == 0


async def test_blocks_are_put_where_they_were(user, tmp_path: Path) -> None:
    path = written(
        tmp_path / "in.jsonl",
        {"id": "b", "data": {**BLOCK, "raw": "- b\n", "rank": "W"}},
        {"id": "h", "data": {**BLOCK, "raw": "# H\n", "heading": "H"}},
        {"id": "a", "data": {**BLOCK, "rank": "V5", "archived": True, "touched_at_us": 5}},
        {"data": {"document": "empty.md"}},
    )
    assert (await import_jsonl(user, path)).added == 3
    assert (await import_jsonl(user, path)).added == 0
    context = user.context.document("n.md")
    assert await context.render() == "# H\n- b\n"
    await context.restore(["a"])
    assert await context.render() == "# H\n- x\n- b\n"
    assert len(await user.context.documents()) == 2


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({"document": "n.md", "raw": "x"}, "`rank`"),
        ({**BLOCK, "rank": "V0"}, "rank 'V0'"),
        ({**BLOCK, "rank": "V" * 1_000}, "rank"),
        ({**BLOCK, "raw": ""}, "text of a block"),
        ({**BLOCK, "document": " "}, "document is empty"),
        ({**BLOCK, "archive": True}, "archive"),
        ({**BLOCK, "section": {"title": "x"}}, "section"),
        ({**BLOCK, "raw": 1}, "`data.raw`"),
        ({**BLOCK, "raw": "- a\n- b\n"}, "one heading or one entry"),
        ({**BLOCK, "heading": "T"}, "not as the heading"),
        ({**BLOCK, "touched_at_us": 1 << 62}, "touched_at_us"),
        ({**BLOCK, "touched_at_us": -(1 << 62)}, "touched_at_us"),
    ],
)
async def test_a_block_that_is_none_is_refused_by_line(
    memory, tmp_path: Path, data: dict[str, Any], said: str
) -> None:
    path = written(tmp_path / "in.jsonl", {"id": "a", "data": data})
    with pytest.raises(InvalidInputError, match=rf"{said}.*\(first: .*in\.jsonl, line 1\)"):
        await import_jsonl(memory.user("u"), path)
