"""add, search, list, get, delete, usage."""

import pytest


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
    assert 0.5 < hit.pop("score") <= 1
    assert program.json("list") == [hit] == [program.json("get", memory_id)]


def test_people_see_text_id_speaker_and_the_time_where_they_are(program) -> None:
    program.ok("add", "likes tea", "--role", "Ada", "--at", "2024-05-01T12:00:00Z")
    (memory,) = program.json("list")
    for command in (("search", "tea"), ("list",), ("get", memory["memory_id"])):
        said = program.ok(*command)
        for part in ("likes tea", "Ada", memory["memory_id"], "2024-05-01 17:30"):
            assert part in said, command


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


def test_a_text_that_looks_like_markup_or_commands_the_terminal_is_shown_as_it_is(program) -> None:
    program.ok("add", "[bold]x[/bold] \x1b[31mred\x07")
    said = program.ok("search", "x")
    assert r"[bold]x[/bold] \x1b[31mred\x07" in said
    assert "\x1b" not in said


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
def test_filters_are_json_if_they_read_as_json_and_text_if_not(program, filters, found) -> None:
    program.ok("add", "one", "--metadata", '{"n": 1, "tag": "tea", "list": ["a", 2]}')
    program.ok("add", "truth", "--metadata", '{"n": true, "tag": "tea"}')
    options = [part for one in filters for part in ("--filter", one)]
    assert {hit["content"] for hit in program.json("search", "x", *options)} == found


def test_search_takes_a_number_and_a_session(program) -> None:
    for n in range(4):
        program.ok("add", f"tea {n}", "--type", "short_term", "--session", f"s{n % 2}")
    assert len(program.json("search", "tea", "--top-k", "3")) == 3
    found = program.json("search", "tea", "--session", "s1")
    assert {hit["content"] for hit in found} == {"tea 1", "tea 3"}


def test_a_list_goes_page_by_page_and_says_how_to_go_on(program) -> None:
    for day in range(1, 6):
        program.ok("add", f"day {day}", "--at", f"2024-01-0{day}")
    pages = [program.json("list", "--limit", "2", "--offset", str(n)) for n in (0, 2, 4)]
    assert [[m["content"] for m in page] for page in pages] == [
        ["day 5", "day 4"], ["day 3", "day 2"], ["day 1"],
    ]  # fmt: skip
    assert "--offset 2" in program.ok("list", "--limit", "2")
    assert "--offset" not in program.ok("list", "--limit", "6")


def test_nothing_to_show_is_said_and_is_an_empty_list_for_programs(program) -> None:
    program.ok("add", "x")
    assert program.json("search", "x", "--user", "other") == []
    assert "Nothing found" in program.ok("search", "x", "--user", "other")
    assert "Nothing there" in program.ok("list", "--user", "other")


def test_a_deleted_memory_is_gone(program) -> None:
    memory_id = program.json("add", "x")["memory_id"]
    assert program.json("delete", memory_id)["operation"] == "delete"
    assert program.json("list") == []
    for command in ("get", "delete"):
        assert program.refused(command, memory_id)["type"] == "NotFoundError"


def test_working_memory_makes_room_only_when_asked_to(program) -> None:
    lines = []
    for n in range(100):
        line = f'{{"memory_type": "working", "key": "k{n}", "content": "x"}}\n'
        lines.append(line)
    (program.data.parent / "keys.jsonl").write_text("".join(lines))
    program.ok("import", "keys.jsonl")
    error = program.refused("add", "one more", "--type", "working", "--key", "new")
    assert error["type"] == "QuotaExceededError"
    added = program.json("add", "one more", "--type", "working", "--key", "new", "--prune")
    assert len(added["evicted"]) == 1
    assert "Removed to make room: 1" in program.ok(
        "add", "two more", "--type", "working", "--key", "newer", "--prune"
    )


def test_usage_counts_each_kind(program) -> None:
    program.ok("add", "12345")
    program.ok("add", "x", "--type", "short_term")
    kinds = program.json("usage")["kinds"]
    assert {name: kind["count"] for name, kind in kinds.items()} == {
        "working": 0, "short_term": 1, "long_term": 1,
    }  # fmt: skip
    assert kinds["long_term"]["size_bytes"] == 5
    said = program.ok("usage")
    assert "10,000" in said
    assert "100 a session" in said
    assert "5 B" in said
