"""add, search, list, get, delete, restore."""

import json
import re

import pytest

from memory_actors.cli.showing import short_id


def test_what_was_added_is_found_listed_and_shown(program) -> None:
    receipt = program.json(
        "add", "likes green tea", "--role", "Ada", "--session", "s1",
        "--metadata", '{"topic": "tea"}', "--at", "2024-05-01T12:00:00Z",
    )  # fmt: skip
    memory_id = receipt["memory_id"]
    assert (receipt["operation"], receipt["memory_type"]) == ("add", "long_term")
    (hit,) = program.json("search", "green tea")
    assert (hit["memory_id"], hit["role"], hit["session_id"]) == (memory_id, "Ada", "s1")
    assert hit["metadata"] == {"topic": "tea"}
    assert hit["occurred_at"] == "2024-05-01T12:00:00Z"
    assert 0 < hit.pop("score") <= 1
    assert hit.pop("signals") is None
    assert hit.pop("near_duplicates") == []
    assert hit.pop("superseded_by") is None
    assert hit.pop("held_until") is None
    assert hit.pop("passage") == hit["content"]
    assert 0 < hit.pop("answered") <= 1
    assert hit.pop("scope") is None
    assert program.json("list") == [hit] == [program.json("get", memory_id)]


def test_people_see_text_id_speaker_and_local_time(program) -> None:
    program.ok("add", "likes tea", "--role", "Ada", "--at", "2024-05-01T12:00:00Z")
    (memory,) = program.json("list")
    for command in (("search", "tea"), ("list",), ("get", memory["memory_id"])):
        said = program.ok(*command)
        for part in ("likes tea", "Ada", short_id(memory["memory_id"]), "2024-05-01 17:30"):
            assert part in said, command


def test_people_see_which_agent_wrote_a_memory_its_source_and_its_end(program) -> None:
    program.ok("add", "likes tea", "--agent", "travel", "--source", "a page", "--ttl", "600")
    (memory,) = program.json("list")
    for command in (("search", "tea"), ("list",), ("get", memory["memory_id"])):
        said = program.ok(*command)
        assert re.search("agent +travel", said), command
        assert "from a page" in said, command
    assert re.search(r"expires +\d{4}-", said)


def test_a_time_without_a_zone_is_local(program) -> None:
    program.ok("add", "x", "--at", "2024-05-01T12:00")
    (memory,) = program.json("list")
    assert memory["occurred_at"] == "2024-05-01T06:30:00Z"


def test_a_text_can_come_from_stdin(program) -> None:
    program.ok("add", "-", stdin="two\nlines é\n".encode())
    assert program.json("list")[0]["content"] == "two\nlines é"


def test_bytes_on_stdin_that_are_no_text_are_refused(program) -> None:
    result = program("add", "-", stdin=b"\xff\xfe")
    assert result.exit_code == 1
    assert "not valid Unicode" in result.stderr


def test_markup_and_control_codes_are_shown_as_text(program) -> None:
    """A text that looks like markup, or commands the terminal, is shown as it is."""
    program.ok("add", "[bold]x[/bold] \x1b[31mred\x07")
    said = program.ok("search", "x")
    assert r"[bold]x[/bold] \x1b[31mred\x07" in said
    assert "\x1b" not in said


def test_a_user_id_is_shown_without_its_control_codes(program) -> None:
    program.ok("add", "x", "--user", "ev\x1b[31mil")
    for command in ("usage", "cost", "tier", "list"):
        said = program.ok(command, "--user", "ev\x1b[31mil")
        assert "\x1b" not in said, command


def test_every_kind_can_be_added_and_chosen(program) -> None:
    program.ok("add", "long")
    program.ok("add", "short", "--type", "short_term", "--session", "s1")
    program.ok("add", "Porto", "--type", "working", "--key", "goal")
    assert [m["key"] for m in program.json("list", "--type", "working")] == ["goal"]
    chosen = program.json("list", "--type", "long_term", "--type", "short_term")
    assert {m["content"] for m in chosen} == {"long", "short"}
    assert {m["content"] for m in program.json("search", "x", "--type", "working")} == {"Porto"}
    assert "key goal" in program.ok("list")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["n=1"], {"one"}),
        (["n=true"], {"truth"}),
        (["tag=tea"], {"one", "truth"}),
        (["tag=tea", "n=1"], {"one"}),
        (["tag=no"], set()),
        (['list=["a", 2]'], {"one"}),
    ],
)
def test_filters_are_json_or_else_text(program, filters, found) -> None:
    program.ok("add", "one", "--metadata", '{"n": 1, "tag": "tea", "list": ["a", 2]}')
    program.ok("add", "truth", "--metadata", '{"n": true, "tag": "tea"}')
    options = [part for one in filters for part in ("--filter", one)]
    assert {hit["content"] for hit in program.json("search", "x", *options)} == found


# --- kinds that are more than a text


def test_a_text_may_be_an_entity_goal_or_document(program) -> None:
    program.ok("add", "Porto", "--type", "entity")
    program.ok("add", "likes tea", "--type", "entity", "--key", "Ada", "--pin")
    assert "Updated" in program.ok("add", "has a dog", "--type", "entity", "--key", "Ada")
    program.ok("add", "book a flight", "--type", "episodic", "--agent", "travel")
    program.ok("add", '{"to": "Porto"}', "--type", "structured", "--key", "t1")
    ada = program.json("entity", "get", "Ada")
    assert (ada["observations"], ada["pinned"]) == (["likes tea", "has a dog"], True)
    assert program.json("episode", "list", "--agent", "travel")[0]["goal"] == "book a flight"
    assert program.json("document", "get", "t1")["value"] == {"to": "Porto"}
    said = program.ok("list")
    for part in (
        "Ada (entity):", "likes tea", "pinned", "Goal: book a flight", "travel",
        "collection default", "key t1", '{"to":"Porto"}',
    ):  # fmt: skip
        assert part in said
    kinds = {hit["memory_type"] for hit in program.json("search", "Porto")}
    assert kinds == {"entity", "episodic", "structured"}


def test_each_kind_is_shown_with_all_it_holds(program) -> None:
    shown = {
        "working": ('{"a": {"b": 1}}', "key", "--type", "working", "--key", "k"),
        "structured": ('{"a": {"b": 1}}', '"b": 1', "--type", "structured", "--key", "k"),
        "entity": ("likes tea", "  • likes tea", "--type", "entity", "--key", "Ada"),
        "episodic": ("book a flight", "Goal: book a flight", "--type", "episodic"),
    }
    for kind, (content, part, *options) in shown.items():
        memory_id = program.json("add", content, *options)["memory_id"]
        said = program.ok("get", memory_id)
        assert part in said
        assert kind in said
        assert program.json("get", memory_id)["data"] is not None


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (['{"n": {"gte": 2}}'], {"two", "three"}),
        (['{"or": [{"n": 1}, {"tags": {"contains": "x"}}]}'], {"one", "three"}),
        (['{"n": {"gt": 1}}', "n=2"], {"two"}),
        (['n={"lt": 2}'], {"one"}),
    ],
)
def test_a_filter_may_be_json_and_several_must_hold(program, filters, found) -> None:
    for n, word in enumerate(("one", "two", "three"), start=1):
        tags = ["x"] if word == "three" else []
        program.ok("add", word, "--metadata", json.dumps({"n": n, "tags": tags}))
    options = [part for one in filters for part in ("--filter", one)]
    for command in (["search", "word"], ["list"]):
        assert {hit["content"] for hit in program.json(*command, *options)} == found


def test_a_bad_filter_is_refused_with_the_place_in_it(program) -> None:
    program.ok("add", "x")
    error = program.refused("search", "x", "--filter", '{"n": {"$near": 1}}')
    assert error["type"] == "InvalidInputError"
    assert "filters.n" in error["message"]


# --- restore


def test_what_matches_is_counted_and_deleted(program) -> None:
    for n in range(3):
        program.ok("add", f"fact {n}", "--metadata", f'{{"n": {n}}}')
    assert program.json("count") == {"count": 3}
    assert program.ok("count", "--filter", '{"n": {"gte": 1}}').strip() == "2"
    assert program("delete-many").exit_code == 1
    assert program.ok("delete-many", "--filter", '{"n": {"gte": 1}}').strip() == "Deleted: 2"
    assert len(program.json("delete-many", "--type", "long_term")) == 1
    assert program.json("count") == {"count": 0}


def test_users_are_listed(program) -> None:
    for name in ("anna", "ben"):
        program.ok("add", "x", "--user", name)
    assert program.ok("users").split() == ["anna", "ben"]
    assert program.json("users") == ["anna", "ben"]


@pytest.mark.parametrize(
    "line",
    [
        ["search", "tea"], ["list"], ["count"], ["erase", "--yes"], ["purge", "--source", "x"],
        ["log"], ["replay", "--as-of", "2020-01-01"], ["diff", "2020-01-01", "2020-01-02"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_mistyped_user_is_said_to_be_unknown_with_the_closest_one(program, line) -> None:
    program.ok("add", "likes tea", "--user", "anna")
    said = program(*line, "--user", "ana").stderr
    assert "There is no user ana here. Is it anna? `memory-actors users` lists them." in said
    assert "no user" not in program(*line, "--user", "anna").stderr


def test_a_memory_is_updated_by_its_id(program) -> None:
    memory_id = program.json("add", "likes tea")["memory_id"]
    assert program.ok("update", memory_id[:20], "likes coffee") == f"Updated: {memory_id}\n"
    program.ok("update", memory_id, "--metadata", '{"a": 1}', "--pin")
    found = program.json("get", memory_id)
    assert (found["content"], found["metadata"], found["pinned"]) == (
        "likes coffee",
        {"a": 1},
        True,
    )
    program.ok("update", memory_id, "--unpin")
    assert not program.json("get", memory_id)["pinned"]
    assert program.refused("update", memory_id)["type"] == "InvalidInputError"
