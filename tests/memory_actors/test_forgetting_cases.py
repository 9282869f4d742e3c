"""What stays away that was to be forgotten: cases, and the steps of a deletion that has to hold.

The cases are in `tests/support/forgetting_cases.py`. The steps are the thirteen that the Agent
Memory Atlas (neoneye.github.io/agent-memory-atlas) asks of a deletion in "What a forgetting
benchmark would have to do". docs/comparison.md has a table of both, which a test compares.
"""

import re
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from support.canaries import found_in
from support.compacting import SHORT
from support.fakes import FakeClock
from support.forgetting_cases import CASES, passes
from support.pages import ROOT

from memory_actors import (
    Conversation,
    ForgottenError,
    Item,
    MemorySystem,
    Proposal,
    RetentionRule,
    UserMemory,
)
from memory_actors.interchange.exporting import export_jsonl, export_lines
from memory_actors.interchange.jsonl import import_jsonl

pytestmark = [pytest.mark.anyio]
FALL_SHORT = {
    "compound fact, superseded": 0,
    "identifier in other spellings": 2,
    "identifier in another script": 0,
}
"""The cases that pass, of kinds of which not all do."""
TOKEN = "canary077zq"
FACT = f"the dog of Ines is named {TOKEN}"
DAY_S = 86_400


@pytest.fixture(scope="module")
async def remembering(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[MemorySystem]:
    """A store over the real model: what a query finds is what counts."""
    async with MemorySystem.open(tmp_path_factory.mktemp("cases")) as memory:
        yield memory


@pytest.mark.parametrize("kind", CASES)
async def test_so_many_cases_of_forgetting_pass(remembering: MemorySystem, kind: str) -> None:
    passed = [
        await passes(remembering.user(f"{kind} {number}"), case)
        for number, case in enumerate(CASES[kind])
    ]
    assert sum(passed) == FALL_SHORT.get(kind, len(passed)), passed


async def test_the_comparison_says_how_many_cases_pass() -> None:
    table = (ROOT / "docs/comparison.md").read_text("utf-8")
    said = dict(re.findall(r"^\| ([\w, ]+) \| (\d+ of \d+) \|", table, re.MULTILINE))
    assert said == {
        kind: f"{FALL_SHORT.get(kind, len(cases))} of {len(cases)}" for kind, cases in CASES.items()
    }


class Extracting:
    """Proposes the fact whenever a message says it."""

    name = "extracting"

    async def extract(self, conversation: Conversation) -> Sequence[Proposal]:
        said = [one for one in conversation.messages if TOKEN in one.text]
        return [Proposal(text=FACT, message_ids=(one.memory_id,)) for one in said]


async def prompt(user: UserMemory) -> str:
    return (await user.context("what is the dog called?", session_id="talk")).text


async def test_a_deletion_holds_through_the_thirteen_steps(
    open_memory, clock: FakeClock, tmp_path: Path
) -> None:
    opened = {
        "extractor": Extracting(),
        "summarizer": SHORT,
        "retention": (RetentionRule(days=400),),
        "archive_retention_days": 1,
    }
    talk = f"{FACT}."
    async with open_memory(**opened) as memory:
        user, other = memory.user("ines"), memory.user("otso")
        await user.turn(talk, session_id="talk")  # 1
        assert (await user.extract("talk")).facts
        await user.context.add("Pets", FACT)
        await user.entities.add_entity("Ines", "person", [FACT])
        await user.add_many([Item(content=f"the dog of Ines barks #{n}") for n in range(7)])
        assert TOKEN in await prompt(user)  # 2
        copy = tmp_path / "copy.jsonl"
        await export_jsonl(user, copy)
        await import_jsonl(other, copy)  # 11
        forgotten = await user.forget(FACT, reason="asked for")  # 3, 12
        assert forgotten.kept == {}
        assert TOKEN not in await prompt(user)  # 4
        with pytest.raises(ForgottenError):  # 5
            await user.turn(talk, session_id="talk")
        await user.add_many([Item(content=talk), Item(content="it rains")])
        await import_jsonl(user, copy)
        assert TOKEN not in await prompt(user)  # 6
        await user.extract("talk")  # 7
        clock.move(200 * DAY_S)
        await memory.compact("ines")
        clock.move(2 * DAY_S)
        await memory.compact("ines")
        await user.apply_retention()
    async with open_memory(**opened) as memory:
        user, other = memory.user("ines"), memory.user("otso")
        assert TOKEN not in await prompt(user)  # 8
        assert not [line async for line in export_lines(user) if TOKEN.encode() in line]
        (fact,) = await user.forgotten()  # 10
        assert (fact.digest, fact.reason) == (forgotten.tombstones[0], "asked for")
        entries = [entry async for entry in memory.events("ines")]
        assert any(one.event == "tombstone.put" for one in entries)
        assert TOKEN not in str(entries)
        assert TOKEN in str(await other.list_memories(limit=100))  # 13: each user by themself
        await other.forget(FACT)
        assert TOKEN not in str(await other.list_memories(limit=100))
    copy.unlink()  # exports and backups are files of the caller's
    assert not found_in(tmp_path)  # 9
