"""Sources on the command line: said, shown, narrowed by and purged."""

EVIL = "https://evil.example"
OF_USER = ("--user", "default")


def test_a_sourced_memory_is_shown_narrowed_and_purged(program) -> None:
    program.ok("add", "red apple of a page", "--source", EVIL, "--trust", "untrusted")
    program.ok("add", "red apple of nobody")
    document = ("document", "put", "notes", '{"said": "red"}')
    program.ok("--user", "bob", *document, "--source", EVIL)

    assert {hit["trust"] for hit in program.json(*OF_USER, "search", "red apple")} == {
        "untrusted", "unknown",
    }  # fmt: skip
    assert f"untrusted, from {EVIL}" in program.ok(*OF_USER, "list")
    (safe,) = program.json(*OF_USER, "search", "red apple", "--min-trust", "unknown")
    assert safe["content"] == "red apple of nobody"
    (page,) = program.json(*OF_USER, "list", "--from", EVIL)
    assert page["origins"] == [{"source": EVIL, "trust": "untrusted"}]

    tried = program.json("purge", "--source", EVIL, "--dry-run")
    assert [one["user_id"] for one in tried["receipts"]] == ["bob", "default"]
    assert len(program.json(*OF_USER, "list")) == 2

    assert program.ok("purge", "--source", EVIL, "--user", "bob") == "bob: 1 structured gone\n"
    assert program.ok("purge", "--source", EVIL) == "default: 1 long_term gone\n"
    assert program.ok("purge", "--source", EVIL) == "There was nothing of it.\n"
    assert [memory["content"] for memory in program.json(*OF_USER, "list")] == [
        "red apple of nobody"
    ]


def test_a_purge_of_nothing_named_is_refused(program) -> None:
    program.ok("add", "likes tea")
    assert "Give a source, a trust, or both" in program.refused("purge")["message"]
    assert program.refused("purge", "--trust", "very", code=2)["type"] == "UsageError"
