"""Memories as other programs have them."""

import json
from pathlib import Path
from typing import Any

import pytest

from memory_actors.interchange import ExportReport, export_to, import_from

pytestmark = pytest.mark.anyio
in_text = pytest.mark.parametrize("program", ["mem0", "chroma", "mcp-memory"])


async def fill(user: Any) -> None:
    """Add a memory of most kinds."""
    await user.add("likes tea", metadata={"tags": ["x"]}, occurred_at="2025-01-10", session_id="s")
    await user.from_source("https://example.org", "untrusted").add("lives in Rome")
    await user.add("hello", "short_term", session_id="s", role="user")
    await user.working.set("goal", {"to": "Porto"})
    await user.entities.add_entity("Ada", "person", ["likes tea", "has a dog"])
    await user.entities.add_entity("Acme")
    await user.entities.relate("Ada", "works_at", "Acme", valid_from="2020-01-01")
    over = {"valid_from": "2010-01-01", "valid_to": "2015-01-01"}
    await user.entities.relate("Ada", "studied_at", "Acme", **over)
    await user.documents.put("trips", {"city": "Porto"}, key="t1")


@pytest.fixture
def exported(store, tmp_path: Path) -> Any:
    async def work(program: str) -> tuple[ExportReport, Path]:
        path = tmp_path / "out"
        async with store() as memory:
            await fill(memory.user("ada"))
            return await export_to(memory.user("ada"), program, path), path

    return work


async def test_mem0(exported) -> None:
    report, path = await exported("mem0")
    records = {one["memory"]: one for one in json.loads(path.read_bytes())["results"]}
    assert (report.memories, report.left_out, len(records)) == (9, 0, 9)
    tea = records["likes tea"]
    assert (tea["user_id"], tea["run_id"]) == ("ada", "s")
    assert tea["created_at"] == "2025-01-10T00:00:00+00:00"
    assert tea["metadata"] == {"tags": ["x"], "memory_type": "long_term"}
    rome = records["lives in Rome"]["metadata"]
    assert (rome["sources"], rome["trust"]) == (["https://example.org"], "untrusted")


async def test_mcp_memory(exported) -> None:
    report, path = await exported("mcp-memory")
    assert [json.loads(line) for line in path.read_text().splitlines()] == [
        {"type": "entity", "name": "Ada", "entityType": "person",
         "observations": ["likes tea", "has a dog"]},
        {"type": "entity", "name": "Acme", "entityType": "entity", "observations": []},
        {"type": "relation", "from": "Ada", "to": "Acme", "relationType": "works_at"},
    ]  # fmt: skip
    assert (report.memories, report.left_out) == (3, 6)
    assert sorted(note.lines for note in report.notes) == [1, 5]


async def test_chroma(exported) -> None:
    report, path = await exported("chroma")
    (batch,) = map(json.loads, path.read_text().splitlines())
    assert list(batch) == ["ids", "documents", "metadatas"]
    assert report.memories == len(set(batch["ids"])) == len(batch["documents"]) == 9
    for metadata in batch["metadatas"]:
        assert metadata
        assert all(isinstance(value, str | int | float | bool) for value in metadata.values())


@in_text
async def test_what_comes_back_is_not_doubled(memory, user, tmp_path: Path, program: str) -> None:
    await fill(user)
    report = await export_to(user, program, tmp_path / "out")
    back = await import_from(memory, program, tmp_path / "out", user_id="ada")
    assert (back.added, back.unchanged, back.left_out) == (0, report.memories, 0)


async def test_entities_of_one_name_keep_their_own_relations(store, tmp_path: Path) -> None:
    async with store() as memory:
        entities = memory.user("ada").entities
        for kind in ("person", "cat"):
            await entities.add_entity("Alice", kind)
        cat = await entities.get("Alice", "cat")
        await entities.add_entity("Bob")
        await entities.relate(cat.memory_id, "owns", "Bob")
        await export_to(memory.user("ada"), "mcp-memory", tmp_path / "out")
    lines = [json.loads(line) for line in (tmp_path / "out").read_text().splitlines()]
    assert [one["name"] for one in lines[:3]] == ["Alice", "Alice (cat)", "Bob"]
    assert (lines[3]["from"], lines[3]["to"]) == ("Alice (cat)", "Bob")


@in_text
async def test_what_is_exported_can_be_imported(exported, store, program: str) -> None:
    report, path = await exported(program)
    async with store("other") as memory:
        back = await import_from(memory, program, path, user_id="ada")
        again = await import_from(memory, program, path, user_id="ada")
        trusts = {one.trust async for one in memory.user("ada").export()}
    assert (back.added, back.left_out, again.added) == (report.memories, 0, 0)
    assert trusts == {"unknown"}  # whatever a file says of its own
