"""usage, cost, tier, and alerts."""

import pytest

from memory_actors import Tier


def fill(program) -> None:
    program.ok("add", "12345")
    program.ok("add", "hello", "--type", "short_term", "--session", "s1")
    program.ok("entity", "add", "Ada")
    program.ok("entity", "add", "Bob")
    program.ok("entity", "relate", "Ada", "knows", "Bob")
    program.ok("episode", "start", "a goal")


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


@pytest.mark.parametrize("columns", ["60", "80"])
def test_the_tables_fit_a_small_terminal(program, monkeypatch, columns: str) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    fill(program)
    for command in (["usage"], ["usage", "--all"], ["cost"]):
        assert max(map(len, program.ok(*command).splitlines())) <= int(columns)


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


# --- tier


@pytest.mark.parametrize("tier", list(Tier))
def test_a_tier_is_set_and_stays(program, tier: Tier) -> None:
    assert program.json("tier", tier.value) == {"user_id": "default", "tier": tier}
    assert program.ok("tier") == f"Tier of default: {tier}\n"
