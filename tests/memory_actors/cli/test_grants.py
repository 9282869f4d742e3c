"""grant, revoke, grants, and who speaks on the command line."""


def test_grants_are_given_listed_and_revoked(program) -> None:
    program.ok("add", "the release is on friday", "--user", "project:x")
    program.ok("add", "tea is in the kitchen", "--user", "ada")
    assert program.json("grant", "ada", "--user", "project:x") == {"person:ada": "read"}
    assert "write" in program.ok("grant", "agent:planner", "write", "--user", "project:x")
    hits = program.json("search", "release", "--user", "ada", "--reads", "project:x")
    assert {hit["scope"] for hit in hits} == {"ada", "project:x"}
    said = program.ok("search", "release", "--user", "ada", "--reads", "project:x")
    assert "of project:x" in said
    refused = program.refused("add", "x", "--user", "project:x", "--as", "ada")
    assert refused["type"] == "AccessDeniedError"
    program.ok("add", "by the planner", "--user", "project:x", "--as", "agent:planner")
    assert program.json("revoke", "ada", "--user", "project:x") == {"agent:planner": "write"}
    for reading in (["search", "release"], ["count"], ["grants"]):
        error = program.refused(*reading, "--user", "project:x", "--as", "ada")
        assert "friday" not in error["message"]
    assert program.refused("search", "x", "--user", "ada", "--reads", "project:x")
