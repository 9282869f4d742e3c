"""What holds for the files of every program that memories come from."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.foreign import ADA, SAMPLES, mem0_record, write_json
from support.given import pro

from memory_actors import Limits, NotOfferedError, QuotaExceededError
from memory_actors.interchange import SOURCES, export_lines, import_from

pytestmark = pytest.mark.anyio
every_sample = pytest.mark.parametrize("sample", SAMPLES)


async def everything(memory: Any) -> list[bytes]:
    """Return the exports of all users."""
    return [line for user in await memory.users() async for line in export_lines(memory.user(user))]


def test_every_source_has_a_sample() -> None:
    assert {program for program, _ in SAMPLES.values()} == set(SOURCES)


@every_sample
async def test_importing_twice_is_importing_once(memory, tmp_path: Path, sample: str) -> None:
    program, write = SAMPLES[sample]
    path = write(tmp_path)
    first = await import_from(memory, program, path, user_id="me")
    before = await everything(memory)
    again = await import_from(memory, program, path, user_id="me")
    assert await everything(memory) == before
    assert first.added == len(before) >= 2
    assert (first.unchanged, again.added, again.unchanged) == (0, 0, first.added)
    assert again.notes == first.notes


ALICE = {"name": "Alice", "entityType": "person", "observations": ["a"]}
EDGE = {"name": "KNOWS", "source_node_name": "Ada", "target_node_name": "Bob"}
NODES = [{"name": "Ada"}, {"name": "Bob"}]
TRICKY = {
    "an entity twice": ("mcp-memory", {"entities": [ALICE, ALICE, ALICE | {"observations": []}]}),
    "an entity in two spellings": ("mcp-memory", {"entities": [ALICE, ALICE | {"name": "alice"}]}),
    "two types": ("mcp-memory", {"entities": [ALICE, ALICE | {"entityType": "cat"}]}),
    "a name that is too long": ("mcp-memory", {"entities": [ALICE | {"name": "x" * 600}]}),
    "a relation twice": (
        "mcp-memory",
        {"entities": [ALICE], "relations": [{"from": "Alice", "to": "B", "relationType": "r"}] * 2},
    ),
    "a relation in two spellings": (
        "mcp-memory",
        {"relations": [{"from": "A", "to": "B", "relationType": one} for one in ("r", "R", "")]},
    ),
    "a relation of an entity without a name": (
        "mcp-memory",
        {"entities": [{"name": ""}], "relations": [{"from": "", "to": "B", "relationType": "r"}]},
    ),
    "a memory twice": ("mem0", [mem0_record("1", "likes tea", ADA)] * 2),
    "an id with two texts": (
        "mem0",
        [mem0_record("6d20fe15-73c6-4608-97ad-dd8da786a19f", text, ADA) for text in "abab"],
    ),
    "a fact that changes": ("zep", {"nodes": NODES, "edges": [EDGE, EDGE | {"fact": "chess"}]}),
    "an end before its start": (
        "zep",
        {
            "nodes": NODES,
            "edges": [EDGE | {"valid_at": "2024-05-01", "invalid_at": "2020-05-01"}],
        },
    ),
    "an id with two names": ("zep", {"nodes": [one | {"uuid": "1"} for one in NODES]}),
    "an edge to nobody": ("zep", {"nodes": NODES, "edges": [EDGE | {"target_node_name": "C"}]}),
    "a document that is too large": ("letta", {"blocks": [{"label": "a", "value": "x" * 300_000}]}),
}


@pytest.mark.parametrize("what", TRICKY)
async def test_a_dry_run_counts_all_records_and_adds_none(
    memory, tmp_path: Path, what: str
) -> None:
    program, value = TRICKY[what]
    path = write_json(tmp_path / "x.json", value)
    dry = await import_from(memory, program, path, user_id="me", dry_run=True)
    assert await memory.users() == []
    real = await import_from(memory, program, path, user_id="me")
    again = await import_from(memory, program, path, user_id="me")
    total = dry.added + dry.left_out
    assert total == real.added + real.unchanged + real.left_out
    assert dry.left_out <= real.left_out  # a record may also be refused when it is added
    assert (again.added, again.left_out) == (0, real.left_out)


@every_sample
async def test_all_of_it_has_its_program_as_source(store, tmp_path: Path, sample: str) -> None:
    """All of it is of unknown trust, whatever the file says, unless the caller vouches for it."""
    program, write = SAMPLES[sample]
    path = write(tmp_path)
    async with store() as memory:
        await import_from(memory, program, path, user_id="me")
        for user in await memory.users():
            async for one in memory.user(user).export():
                assert [(o.source, o.trust) for o in one.origins] == [(program, "unknown")]
    async with store("other") as memory:
        await import_from(memory, program, path, user_id="me", source="old", trust="trusted")
        for user in await memory.users():
            async for one in memory.user(user).export():
                assert [(o.source, o.trust) for o in one.origins] == [("old", "trusted")]


@every_sample
@pytest.mark.parametrize("through", ["client"], indirect=True)
async def test_it_works_through_the_owner_of_a_store(
    memory, tmp_path: Path, sample: str, through: str
) -> None:
    program, write = SAMPLES[sample]
    path = write(tmp_path)
    report = await import_from(memory, program, path, user_id="me")
    assert len(await everything(memory)) == report.added
    assert (await import_from(memory, program, path, user_id="me")).added == 0


@pytest.mark.parametrize("sample", ["mem0", "chroma", "chatgpt", "claude", "memory-md"])
@pytest.mark.parametrize("through", ["http"], indirect=True)
async def test_facts_and_messages_are_imported_over_http(
    memory, tmp_path: Path, sample: str, through: str
) -> None:
    program, write = SAMPLES[sample]
    path = write(tmp_path)
    report = await import_from(memory, program, path, user_id="me")
    got = [m for user in report.users for m in await memory.user(user).list_memories()]
    assert len(got) == report.added > 0
    assert {one.source for memory in got for one in memory.origins} == {program}
    assert (await import_from(memory, program, path, user_id="me")).added == 0


@pytest.mark.parametrize("through", ["http"], indirect=True)
async def test_what_a_server_does_not_offer_is_told(memory, tmp_path: Path, through: str) -> None:
    program, write = SAMPLES["mcp-memory"]
    with pytest.raises(NotOfferedError):
        await import_from(memory, program, write(tmp_path), user_id="me")
    assert await memory.user("me").list_memories() == []


async def test_fields_that_are_called_otherwise(memory, tmp_path: Path) -> None:
    record = {
        "id": 1,
        "body": "likes tea",
        "who": {"names": ["x", "ada"]},
        "metadata": {"when": 1_700_000_000, "chat.id": "s1"},
    }
    path = write_json(tmp_path / "x.json", [record])
    named = {"body": "content", "metadata.when": "occurred_at", "metadata.chat.id": "session_id"}
    await import_from(memory, "mem0", path, user_field="who.names.1", fields=named)
    (one,) = await memory.user("ada").list_memories()
    assert (one.content, one.session_id) == ("likes tea", "s1")
    assert one.occurred_at.timestamp() == 1_700_000_000


@pytest.mark.parametrize(
    "when",
    [
        1714557600, 1714557600000, "1714557600", "1714557600.0", 1714557600000000,
        "2024-05-01t10:00:00z", "2024-05-01T12:00:00+0200", "2024-05-01 10:00:00 UTC",
        "2024-05-01T12:00:00+02:00[Europe/Paris]", " 2024-05-01T10:00:00Z ", "2024-W18-3T10",
    ],
)  # fmt: skip
async def test_times_are_read_as_other_programs_write_them(
    memory, tmp_path: Path, when: Any
) -> None:
    path = write_json(tmp_path / "x.json", [mem0_record("1", "tea", ADA) | {"created_at": when}])
    report = await import_from(memory, "mem0", path)
    (found,) = await memory.user(ADA).list_memories()
    assert (report.left_out, found.occurred_at) == (0, datetime(2024, 5, 1, 10, tzinfo=UTC))


@pytest.mark.parametrize(
    ("record", "why"),
    [
        ({"id": "x"}, "it has no 'content'"),
        ({"id": "x", "memory": 5}, "Expected `str"),
        ({"id": "x", "memory": "  "}, "content is empty"),
        ({"id": "x", "memory": "a" * 16_000_000}, "content takes 16,000,000 bytes"),
        ({"id": "x", "memory": "a", "created_at": "yesterday"}, "is not ISO 8601"),
        ({"id": "x", "memory": "a", "created_at": 1e300}, "is no number of seconds"),
        ({"id": "x", "memory": "a", "metadata": [1]}, "its metadata is no JSON object"),
        ({"id": "x", "memory": "a", "metadata": {"n": 1 << 4000}}, "which is not JSON"),
        ({"id": "x", "memory": "a", "metadata": {"n": float("nan")}}, "which is not JSON"),
        ({"id": "x", "memory": "a", "user_id": ["b"]}, "user must be a string"),
        ("x", "a record must be a JSON object, not str"),
    ],
)
async def test_a_record_that_is_none_is_left_out(
    store, tmp_path: Path, record: Any, why: str
) -> None:
    path = write_json(tmp_path / "x.json", [mem0_record("1", "before", ADA), record,
                                            mem0_record("3", "after", ADA)])  # fmt: skip
    async with store() as memory:
        report = await import_from(memory, "mem0", path, user_id="me")
        texts = [m.content for m in await memory.user(ADA).list_memories()]
    assert (report.added, report.left_out, texts) == (2, 1, ["after", "before"])
    (note,) = report.notes
    assert note.says.startswith("left out: ")
    assert why in note.says
    assert note.says.endswith(f"(first: {path}, memory 2)")


async def test_no_room_ends_it_and_the_rest_comes_later(store, tmp_path: Path) -> None:
    records = [mem0_record(str(n), f"fact {n}", ADA) for n in range(30)]
    path = write_json(tmp_path / "x.json", records)
    async with store(tiers=pro(Limits(long_term_memories=20))) as memory:
        with pytest.raises(QuotaExceededError, match="memory 21"):
            await import_from(memory, "mem0", path)
    async with store() as memory:
        report = await import_from(memory, "mem0", path)
    assert (report.added, report.unchanged) == (10, 20)


async def test_what_is_no_field_is_kept_and_told(memory, tmp_path: Path) -> None:
    path = write_json(tmp_path / "x.json", [mem0_record("1", "a", ADA, mood="good", blank=None)])
    report = await import_from(memory, "mem0", path)
    (one,) = await memory.user(ADA).list_memories()
    assert (one.metadata["mood"], "blank" in one.metadata) == ("good", False)
    assert "'mood' is no field that is understood: it is kept as metadata" in {
        note.says for note in report.notes
    }
