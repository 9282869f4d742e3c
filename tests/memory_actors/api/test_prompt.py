"""`user.context(query)`: a prompt that says nothing twice and fits its budget."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors import InvalidInputError, Item, TokenizerCounter, UserMemory, WordEstimate
from memory_actors.api.user_context import excerpt
from memory_actors.search.model.installed import TOKENIZER_FILE, model_path

pytestmark = [pytest.mark.anyio, pytest.mark.tokens]

QUESTION = "what does she drink in the morning?"
FILLER = "The weather was fine and nobody said much about anything."
LONG = " ".join([*[FILLER] * 20, "She drinks strong coffee in the morning.", *[FILLER] * 20])


class Characters:
    """Counts every four characters begun as a token, line feeds included."""

    name = "characters / 4"

    def count(self, text: str) -> int:
        return -(-len(text) // 4)


async def filled(user: UserMemory) -> None:
    await user.add_many(
        [Item(content=f"In week {n} she drinks tea number {n} in the morning") for n in range(30)]
    )
    await user.add(LONG)
    for n in range(5):
        await user.short_term.add_message(f"message {n}: {FILLER}", role="Ada")


@pytest.mark.parametrize("counter", [WordEstimate(), Characters()], ids=lambda one: one.name)
async def test_a_prompt_is_never_beyond_its_budget(open_memory, counter: Any) -> None:
    async with open_memory(token_counter=counter, check_replay=False) as memory:
        user = memory.user("u", session_id="s")
        await filled(user)
        for budget in (0, 1, 60, 90, 150, 400, 2_000):
            context = await user.context(QUESTION, token_budget=budget)
            assert counter.count(context.text) <= budget
            if budget == 400:
                assert counter.count(context.text) >= 0.6 * budget, "what fits is there"
            if budget >= 400:
                assert {part.source for part in context.parts} == {"message", "memory"}
            if budget == 2_000:
                assert len(context.parts) > 8, "as many as fit, not five"
            for part in context.parts:
                whole = part.text.startswith(("In week", "Ada: message")) and "…" not in part.text
                assert whole or "strong coffee" in part.text


@pytest.mark.no_node
async def test_a_tokenizer_counts_a_prompt_exactly(open_memory) -> None:
    if not (model_path() / TOKENIZER_FILE).exists():
        pytest.skip("the model is not installed")
    counter = TokenizerCounter()
    async with open_memory(token_counter=counter, check_replay=False) as memory:
        user = memory.user("u", session_id="s")
        await filled(user)
        for budget in (250, 400, 800):
            text = (await user.context(QUESTION, token_budget=budget)).text
            assert 0.6 * budget <= counter.count(text) <= budget


async def test_a_long_memory_is_cut_around_the_query(open_memory) -> None:
    async with open_memory(token_counter="words") as memory:
        user = memory.user("u")
        await user.add(LONG, role="Ada")
        (whole,) = (await user.context(QUESTION)).parts
        (hit,) = await user.retrieve(QUESTION)
        assert whole.text == f"Ada: {hit.passage}", "without a bound the passage is whole"
        assert "strong coffee" in whole.text
        (part,) = (await user.context(QUESTION, max_item_tokens=40)).parts
        assert WordEstimate().count(part.text) <= 40
        assert part.text.startswith("Ada: … ")
        assert part.text.endswith(" …")
        assert "She drinks strong coffee in the morning." in part.text
        assert part.text.count(FILLER) == 2, "its neighbours, whole"
        assert (await user.context(QUESTION, max_item_tokens=1)).parts == ()


async def test_a_prompt_holds_no_question_and_nothing_twice(memory) -> None:
    user = memory.user("u", session_id="s")
    await user.add("She drinks tea")
    await user.add("she drinks tea!", session_id="s", role="Ada")
    await user.add(QUESTION, session_id="s", role="user")
    for text in ("hello", "She drinks tea.", "hello", QUESTION):
        await user.short_term.add_message(text, role="user")
    context = await user.context(QUESTION, limit=2)
    texts = [part.text for part in context.parts]
    assert all("what does she" not in text for text in texts)
    assert texts == ["user: She drinks tea.", "user: hello", "Ada: she drinks tea!"]


async def test_odd_budgets_are_refused(user) -> None:
    for wrong in ({"token_budget": -1}, {"token_budget": "x"}, {"max_item_tokens": 0},
                  {"limit": 0}):  # fmt: skip
        with pytest.raises(InvalidInputError):
            await user.context("tea", **wrong)


TEXTS = st.text(
    st.sampled_from("ab. !?\n茶水。เก\u0301") | st.characters(codec="utf-8"),
    min_size=1,
    max_size=400,
)


@given(text=TEXTS, tokens_max=st.integers(1, 60))
def test_an_excerpt_fits_whatever_the_text(text: str, tokens_max: int) -> None:
    for counter in (WordEstimate(), Characters()):
        cut = excerpt(text, "a b", counter, tokens_max)
        assert counter.count(cut) <= tokens_max
        if counter.count(text) <= tokens_max:
            assert cut == text
