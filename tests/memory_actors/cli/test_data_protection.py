"""Legal holds and retention on the command line."""

import click
import pytest

from memory_actors import MemoryType, RetentionRule
from memory_actors.cli.serve import retention_rule


def test_a_user_is_held_and_released(program) -> None:
    program.ok("add", "likes tea", "--user", "ada")
    held = program.json("hold", "case 12", "--user", "ada")
    assert "case 12" in program.ok("holds", "--user", "ada")
    assert "A legal hold stops them" in program.ok("retention", "--user", "ada")
    assert held["hold_id"] in program.refused("erase", "--user", "ada", "--yes")["message"]
    assert "Released" in program.ok("release", held["hold_id"], "--user", "ada")
    assert program.json("holds", "--user", "ada") == []
    assert "case 12" in program.ok("holds", "--released", "--user", "ada")
    assert "Nothing is too old" in program.ok("retention", "--dry-run", "--user", "ada")
    program.ok("hold", "case 13", "--user", "ada")
    program.ok("erase", "--user", "ada", "--yes", "--despite-hold")


def test_a_rule_names_a_type_or_a_source() -> None:
    by_type = RetentionRule(days=365, memory_type=MemoryType.LONG_TERM)
    assert retention_rule("long_term=365") == by_type
    assert retention_rule("https://a/?b=c=0.5") == RetentionRule(days=0.5, source="https://a/?b=c")
    for said in ("tool:*", "tool:*=soon", "tool:*=0", "=", ""):
        with pytest.raises(click.BadParameter):
            retention_rule(said)
