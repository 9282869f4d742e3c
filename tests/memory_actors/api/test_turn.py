"""A chat: `user.turn` adds what is said, `user.context` gives the prompt for the next answer."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memory_actors import CalibratedEstimate, Limits, MemoryType, Plan, QuotaExceededError, Tier

pytestmark = pytest.mark.anyio

DAY = datetime(2026, 3, 1, 9, tzinfo=UTC)
CHAT = [
    ("user", "I live in Bern with my daughter Mia"),
    ("assistant", "Bern is lovely. How old is Mia?"),
    ("user", "Mia turned seven in February"),
    ("assistant", "Happy birthday to her!"),
]


async def test_a_turn_is_a_message_and_a_memory(memory: Any) -> None:
    user = memory.user("ada", session_id="s1")
    receipts = [await user.turn(text, role) for role, text in CHAT]
    messages = await user.short_term.messages()
    assert [(one.role, one.content, one.session_id) for one in messages] == [
        (role, text, "s1") for role, text in CHAT
    ]
    for receipt, message in zip(receipts, messages, strict=True):
        known = await user.get(receipt.memory_id)
        assert (receipt.operation, receipt.memory_type) == ("add", "long_term")
        assert known.memory_id != message.memory_id
        same = ("role", "content", "session_id", "occurred_at", "metadata")
        assert all(getattr(known, name) == getattr(message, name) for name in same)
    hits = await user.retrieve("how old is Mia?")
    assert len({hit.content for hit in hits}) == len(hits), "both are one hit"


@pytest.mark.no_node
async def test_a_turn_is_one_append_or_none(open_memory: Any) -> None:
    limits = Limits(long_term_memories=1, short_term_bytes=1_000)
    tiers = {Tier.LOCAL: Plan(limits=limits)}
    async with open_memory(tiers=tiers) as memory:
        user = memory.user("ada")
        with pytest.raises(QuotaExceededError):
            await user.turn("x" * 1_001)  # no room among the messages
        await user.turn("first")
        with pytest.raises(QuotaExceededError):
            await user.turn("second")  # no room in long-term memory
        assert [one.content for one in await user.short_term.messages()] == ["first"]
        assert await user.count(memory_types=[MemoryType.LONG_TERM]) == 1


async def test_a_turn_that_comes_again_adds_nothing(user: Any) -> None:
    operations = [(await user.turn("hi", memory_id="m-1")).operation for _ in range(2)]
    assert operations == ["add", "unchanged"]
    assert len(await user.short_term.messages()) == 1
    for _ in range(2):  # without an id, what is said twice was said twice
        await user.turn("yes")
    assert len(await user.short_term.messages()) == 3
    assert await user.count(memory_types=[MemoryType.LONG_TERM]) == 3


async def test_one_prompt_has_the_document_what_is_known_and_the_last_messages(
    memory: Any,
) -> None:
    earlier = memory.user("ada", session_id="spring")
    await earlier.turn("Mia is allergic to peanuts")
    user = memory.user("ada", session_id="s1")
    await user.context.add("Style", "Answer in two sentences")
    for role, text in CHAT:
        await user.turn(text, role)
    question = "may Mia eat peanuts?"
    await user.turn(question)
    prompt = await user.context(question, token_budget=1_000)
    assert [part.source for part in prompt.parts] == ["document", *["message"] * 4, "memory"]
    assert prompt.parts[0].memory_id == "MEMORY.md"
    assert "Answer in two sentences" in prompt.parts[0].text
    assert [part.text for part in prompt.parts[1:5]] == [f"{r}: {text}" for r, text in CHAT]
    assert prompt.parts[5].text == "user: Mia is allergic to peanuts"
    assert question not in prompt.text
    assert CalibratedEstimate().most(prompt.text) <= 1_000

    without = await user.context(question, document=None)
    assert [part.source for part in without.parts] == ["message"] * 4 + ["memory"]
    await user.context.create("style.md", "- Use metric units")
    other = await user.context(question, document="style.md")
    assert other.parts[0].text == "- Use metric units"


async def test_a_document_that_is_too_long_leaves_room_for_memories(user: Any) -> None:
    lines = [f"- Rule {n}: the report of week {n} goes to the whole team" for n in range(60)]
    await user.context.create("rules.md", "\n".join(lines))
    await user.add("The team meets on Mondays")
    prompt = await user.context("report of week 41", token_budget=500, document="rules.md")
    assert [part.source for part in prompt.parts] == ["document", "memory"]
    assert "Rule 41:" in prompt.parts[0].text
    assert "\n- Rule" in prompt.parts[0].text, "its lines stay lines"
    assert CalibratedEstimate().most(prompt.text) <= 500


async def test_a_turn_before_the_last_messages_of_a_session_is_remembered(memory: Any) -> None:
    user = memory.user("ada", session_id="s")
    await user.turn("I moved my desk to the attic")
    for number in range(8):
        await user.turn(f"Message {number} is about something else")
    prompt = await user.context("Where is my desk in the attic?")
    (desk,) = [part for part in prompt.parts if "attic" in part.text]
    assert desk.source == "memory"
    assert [part.source for part in prompt.parts].count("message") == 6


async def test_what_is_over_is_left_out_unless_the_past_is_asked(user: Any) -> None:
    first = await user.add("Ada lives in Bern", occurred_at=DAY)
    moved = DAY + timedelta(days=30)
    second = await user.add("Ada lives in Oslo", occurred_at=moved)
    assert second.supersedes == (first.memory_id,)
    (part,) = (await user.context("where does Ada live?")).parts
    assert (part.text, part.superseded_by) == ("Ada lives in Oslo", None)

    prompt = await user.context("where did Ada live before?")
    assert {part.text for part in prompt.parts} == {"Ada lives in Oslo", "Ada lives in Bern"}
    (old,) = (part for part in prompt.parts if "Bern" in part.text)
    assert (old.superseded_by, old.held_until) == (second.memory_id, moved)
    assert json.loads(old.line)["until"] == "2026-03-31T09:00"
    assert "until" not in json.loads(
        next(part for part in prompt.parts if "Oslo" in part.text).line
    )


@pytest.mark.parametrize("language", ["en", "ja"])
async def test_a_budget_is_used_and_never_passed(open_memory: Any, language: str) -> None:
    said = {"en": "On day {0} she walked {0} km along the river with Bob and Mia.",
            "ja": "{0}日目に彼女は友達と一緒に川沿いを{0}キロ歩きました。"}[language]  # fmt: skip
    async with open_memory(check_replay=False) as memory:
        user = memory.user("ada", session_id="s1")
        for n in range(150):
            await user.turn(said.format(n), "user")
        for budget in (300, 1_000, 3_000):
            prompt = await user.context("river 川", token_budget=budget)
            assert 0.85 * budget <= CalibratedEstimate().most(prompt.text) <= budget
            hits = await user.retrieve("river 川", memory_type="long_term", token_budget=budget)
            text = "\n".join(f"user: {hit.content}" for hit in hits)
            assert 0.85 * budget <= CalibratedEstimate().most(text) <= budget
