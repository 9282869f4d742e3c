"""entity add, relate, end, get, neighbours."""

import pytest


@pytest.fixture
def people(program) -> None:
    program.ok("entity", "add", "Ada", "--type", "person", "--observe", "likes tea")
    for name in ("Acme", "Initech"):
        program.ok("entity", "add", name, "--type", "firm")
    program.ok("entity", "add", "Bob", "--type", "person")
    program.ok(
        "entity", "relate", "Ada", "works_at", "Acme", "--from", "2020-01-01", "--fact",
        "Ada joined Acme in winter",
    )  # fmt: skip
    program.ok("entity", "relate", "Bob", "works_at", "Acme", "--from", "2021-01-01")


def jobs(program) -> list[tuple[str, str | None]]:
    related = program.json("entity", "get", "Ada")["relationships"]
    return [(one["target"], one["valid_to"]) for one in related]


def test_people_see_an_entity_with_what_it_relates_to(program, people) -> None:
    said = program.ok("entity", "get", "Ada")
    for part in ("Ada (person)", "  • likes tea", "works_at → Acme", "since 2020-01-01"):
        assert part in said
    assert "← works_at ─ Bob" in program.ok("entity", "get", "Acme")


def test_a_relationship_ends_and_stays_in_the_past(program, people) -> None:
    (job,) = program.json("entity", "get", "Ada")["relationships"]
    ended = program.ok("entity", "end", job["memory_id"], "--at", "2023-01-01T00:00Z")
    assert ended == f"Ended: {job['memory_id']}\n"
    assert jobs(program) == [("Acme", "2023-01-01T00:00:00Z")]
    assert "2020-01-01 to 2023-01-01 05:30" in program.ok("entity", "get", "Ada")
    again = program.ok("entity", "end", job["memory_id"], "--at", "2023-01-01T00:00Z")
    assert again.startswith("Had ended then already")
    assert program.refused("entity", "end", "nosuch")["type"] == "NotFoundError"


def test_neighbours_are_a_tree_as_deep_as_asked_for(program, people) -> None:
    near = program.ok("entity", "neighbours", "Ada")
    assert "works_at → Acme (firm)" in near
    assert "Bob" not in near
    lines = program.ok("entity", "neighbours", "Ada", "--depth", "2").splitlines()
    assert [line.strip() for line in lines] == [
        "Ada (person)",
        "└── works_at → Acme (firm)  since 2020-01-01",
        "└── ← works_at ─ Bob (person)  since 2021-01-01",
    ]
    found = program.json("entity", "neighbours", "Ada", "--depth", "2")
    assert [(one["entity"]["name"], one["distance"]) for one in found] == [("Acme", 1), ("Bob", 2)]
    assert len(program.json("entity", "neighbours", "Acme", "--limit", "1")) == 1


def test_names_that_are_not_there_or_of_several_are_refused(program, people) -> None:
    program.ok("entity", "add", "Acme", "--type", "band")
    assert program.refused("entity", "get", "Nobody")["type"] == "NotFoundError"
    error = program.refused("entity", "get", "Acme")
    assert "several entities" in error["message"]
    assert program.json("entity", "get", "Acme", "--type", "band")["type"] == "band"
    refused = program.refused("entity", "relate", "Ada", "knows", "Nobody")
    assert refused["type"] == "NotFoundError"


def test_a_relationship_is_found_listed_and_shown_like_any_memory(program, people) -> None:
    (job,) = program.json("entity", "get", "Ada")["relationships"]
    memory_id = job["memory_id"]
    assert "Ada joined Acme in winter" in program.ok("search", "joined in winter")
    listed = program.ok("list", "--type", "entity")
    assert "Ada joined Acme in winter" in listed
    assert "relationship  since 2020-01-01" in listed
    said = program.ok("get", memory_id)
    for part in ("Ada ─ works_at → Acme", "since 2020-01-01", "Ada joined Acme in winter"):
        assert part in said
    assert program.json("get", memory_id)["data"]["relation"] == "works_at"
    assert "valid_from: 2020-01-01 00:00" in " ".join(program.ok("history", memory_id).split())
    program.ok("delete", memory_id)
    assert jobs(program) == []
    program.ok("restore", memory_id)
    assert jobs(program) == [("Acme", None)]
