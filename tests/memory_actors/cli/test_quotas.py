"""usage, cost, tier, and alerts."""

import pytest

from memory_actors import Tier


@pytest.fixture
def full(program) -> str:
    """A user of the free tier with all the facts that may be."""
    lines = [f'{{"content": "fact {n}"}}\n' for n in range(100)]
    (program.data.parent / "facts.jsonl").write_text("".join(lines))
    program.ok("tier", "free", "--user", "full")
    program("import", "facts.jsonl", "--user", "full")
    return "full"


def fill(program) -> None:
    program.ok("add", "12345")
    program.ok("add", "hello", "--type", "short_term", "--session", "s1")
    program.ok("entity", "add", "Ada")
    program.ok("entity", "add", "Bob")
    program.ok("entity", "relate", "Ada", "knows", "Bob")
    program.ok("episode", "start", "a goal")


def test_usage_counts_each_kind(program) -> None:
    fill(program)
    kinds = program.json("usage")["kinds"]
    assert {name: kind["count"] for name, kind in kinds.items()} == {
        "working": 0, "short_term": 1, "long_term": 1, "entity": 2, "episodic": 1, "structured": 0,
        "context": 0,
    }  # fmt: skip
    assert kinds["long_term"]["size_bytes"] == 5
    assert {quota["quota"]: quota["used"] for quota in kinds["entity"]["quotas"]} == {
        "entities": 2, "relationships": 1, "bytes": 31,
    }  # fmt: skip


def test_people_see_usage_limit_and_user(program) -> None:
    """People see how much is held, of which limit, and of whom."""
    fill(program)
    said = [line.split() for line in program.ok("usage").splitlines()]
    assert ["User", "default,", "tier", "local"] in said
    rows = {" ".join(line[:2]): line for line in said}
    assert rows["long_term 1"][:4] == ["long_term", "1", "5", "B"]
    assert rows["relationships 1"][:2] == ["relationships", "1"]
    assert rows["all 6"][:2] == ["all", "6"]
    assert rows["short_term messages"][2:7] == ["1", "100", "a", "session", "1.0"]
    assert rows["episodes 1"][1:5] == ["1", "1,000", "an", "agent"]
    assert rows["long_term memories"][2:5] == ["1", "100,000", "<0.1"]


def test_a_full_limit_has_a_full_bar(program, full: str) -> None:
    (line,) = [
        one
        for one in program.ok("usage", "--user", full).splitlines()
        if "memories  " in one and "100.0" in one
    ]
    assert line.endswith("█" * 12)


@pytest.mark.parametrize("columns", ["60", "80"])
def test_the_tables_fit_a_small_terminal(program, monkeypatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    fill(program)
    for command in (["usage"], ["usage", "--all"], ["cost"]):
        assert max(map(len, program.ok(*command).splitlines())) <= int(columns)


def test_the_usage_of_all_users_is_their_sum(program) -> None:
    fill(program)
    program.ok("add", "another", "--user", "other")
    used = program.json("usage", "--all")
    assert (used["users"], used["counts"]["long_term"], used["relationships"]) == (2, 2, 1)
    said = program.ok("usage", "--all")
    for part in ("2 users", "long_term size", "1000.0 GB", "entities", "10,000,000"):
        assert part in said


def test_an_alert_stands_beside_the_result(program) -> None:
    """An alert is told beside the result, and never in it."""
    program.ok("tier", "free")
    lines = [f'{{"content": "fact {n}"}}\n' for n in range(79)]
    (program.data.parent / "facts.jsonl").write_text("".join(lines))
    program.ok("import", "facts.jsonl")
    result = program("add", "the eightieth", "--json")
    assert '"operation": "add"' in result.stdout
    assert result.stderr == ("long_term.memories: 80 of 100 in use. See `memory-actors usage`.\n")


# --- cost


def test_a_cost_has_its_items_the_tier_and_the_sum(program) -> None:
    fill(program)
    estimate = program.json("cost")
    assert [item["name"] for item in estimate["items"]] == ["vectors", "graph", "short_term"]
    assert estimate["total_usd"] == pytest.approx(estimate["storage_usd"])
    said = program.ok("cost")
    for part in ("2 nodes", "$5.00 per 1,000 nodes", "$0.01", "tier local", "The tier is local"):
        assert part in said
    assert "e-0" not in said


def test_costs_below_a_cent_do_not_read_as_nothing(program) -> None:
    """A cost of less than a cent does not read as nothing."""
    program.ok("add", "x")
    assert "<$0.01" in program.ok("cost")


# --- tier


@pytest.mark.parametrize("tier", list(Tier))
def test_a_tier_is_set_and_stays(program, tier: Tier) -> None:
    assert program.json("tier", tier.value) == {"user_id": "default", "tier": tier}
    assert program.ok("tier") == f"Tier of default: {tier}\n"


def test_a_tier_below_the_use_is_told_and_deletes_nothing(program, full: str) -> None:
    program.ok("tier", "pro", "--user", full)
    program.ok("add", "one more", "--user", full)
    warned = program("tier", "free", "--user", full).stdout
    said = program.ok("usage", "--user", full)
    for told in (warned, said):
        assert "Above its limit: long_term memories" in told.replace("\n", " ")
    assert "101.0" in said
    assert len(program.json("list", "--user", full, "--limit", "200")) == 101
