"""The user that a command is about, the memory that an id's beginning names, and search's words."""

import inspect

import pytest

from memory_actors.api.user import UserMemory
from memory_actors.cli.memories import search
from memory_actors.cli.showing import short_id

CONTENT = "likes green tea with a slice of ginger, and never with sugar, whatever the season"


# --- whose memory


@pytest.mark.parametrize(
    "command", [("search", "tea"), ("list",), ("usage",), ("cost",), ("export",), ("diff", "1")]
)
def test_the_only_user_there_is_is_taken_and_named(program, command) -> None:
    program.ok("add", "likes tea", "--user", "ada")
    result = program(*command)
    assert (result.exit_code, result.stderr) == (0, "User ada, as --user names nobody.\n")
    named = program(*command, "--user", "ada")
    assert (named.exit_code, named.stderr) == (0, "")


@pytest.mark.parametrize(
    "command",
    [
        ("search", "tea"), ("list",), ("add", "x"), ("usage",), ("cost",), ("get", "m"),
        ("export",), ("replay", "--as-of", "1"), ("context", "show"), ("entity", "get", "Bob"),
    ],
)  # fmt: skip
def test_of_several_users_none_is_assumed(program, command) -> None:
    for user in ("ada", "bob"):
        program.ok("add", "likes tea", "--user", user)
    error = program.refused(*command, code=2)
    assert "there are 2 users here (ada, bob): say whose memory with --user ID" in error["message"]
    assert program.json("usage", "--all")["counts"]["long_term"] == 2


# --- which memory


def test_any_unique_beginning_of_an_id_will_do(program) -> None:
    ids = [program.json("add", f"fact {n}")["memory_id"] for n in range(3)]
    beginning = next(ids[1][:n] for n in range(1, 35) if not ids[0].startswith(ids[1][:n])
                     and not ids[2].startswith(ids[1][:n]))  # fmt: skip
    assert program.json("get", beginning)["memory_id"] == ids[1]
    assert program.json("delete", beginning)["memory_id"] == ids[1]
    assert len(program.json("history", beginning)) == 2, "also of one that is gone"
    assert program.json("why", beginning)["memory_id"] == ids[1]
    assert program.json("restore", beginning)[0]["memory_id"] == ids[1]
    error = program.refused("get", "mem_")
    assert error["type"] == "InvalidInputError"
    assert "3 ids begin with 'mem_': write more of it (such as mem_" in error["message"]
    error = program.refused("delete", "nobody")
    assert error["type"] == "NotFoundError"
    assert error["message"].startswith("no memory 'nobody'")


def test_ids_are_whole_in_80_columns(program, monkeypatch) -> None:
    """Ids are whole in 80 columns, and name the things they stand for."""
    monkeypatch.setenv("COLUMNS", "80")
    ids = [
        program.json("add", f"{CONTENT} {n}", "--role", "Customer Support", "--session", "s1")[
            "memory_id"
        ]
        for n in range(3)
    ]
    for command in (("list",), ("search", "tea")):
        said = program.ok(*command)
        assert max(map(len, said.splitlines())) <= 80
        for memory_id in ids:
            shown = short_id(memory_id)
            assert any(shown in line for line in said.splitlines())
            assert program.json("get", shown)["memory_id"] == memory_id
    entry = program.json("context", "add", CONTENT, "--section", "Tastes and habits")
    said = program.ok("context", "list")
    shown = short_id(entry["entry_ids"][0])
    assert any(line.startswith(shown) for line in said.splitlines())
    assert program.json("context", "pin", shown)["entry_ids"] == entry["entry_ids"]


# --- what search takes


def test_search_has_an_option_for_each_of_retrieves() -> None:
    takes = set(inspect.signature(UserMemory.retrieve).parameters) - {"self", "memory_type"}
    named = {"kinds": "memory_types"}
    options = {named.get(one.name, one.name) for one in search.params}
    assert takes <= options


def test_search_narrows_and_explains_as_retrieve_does(program) -> None:
    program.ok("add", "drank green tea", "--at", "2024-05-01T12:00:00Z")
    program.ok("add", "drank black tea", "--at", "2025-05-01T12:00:00Z")

    def found(*options: str) -> list[str]:
        return [hit["content"] for hit in program.json("search", "tea", *options)]

    assert found("--since", "2025-01-01") == ["drank black tea"]
    assert found("--until", "2025-01-01") == ["drank green tea"]
    assert found("--as-of", "2020-01-01") == []
    assert found("--token-budget", "10") == found()[:1]
    assert len(found("--no-summaries", "--diversity", "0.5")) == 2
    assert found("--min-score", "1") == [] or len(found("--min-score", "1")) < 2
    assert len(found("--weights", '{"words": 0}', "--reference-time", "2024-05-02")) == 2
    assert (
        "weight words must be"
        in program.refused("search", "tea", "--weights", '{"words": 1e9}')["message"]
    )
    assert "meaning +" in program.ok("search", "tea", "--explain")
    assert program.refused("search", "tea", "--weights", '{"wrods": 1}', code=2)["message"]
