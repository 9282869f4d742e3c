"""The two estimates of tokens: how near they are to real tokenizers, and that a difference shows.

`token_samples.json` holds texts that the weights were not fitted to, and how many tokens six
families make of each (`python -m bench tokens` measures more). `prompt_samples.json` holds lines
of prompts, and the tokens of the largest families.
"""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_actors import CalibratedEstimate

SAMPLES = json.loads(Path(__file__).with_name("token_samples.json").read_text("utf-8"))
PROMPTS = json.loads(Path(__file__).with_name("prompt_samples.json").read_text("utf-8"))
LARGEST = ("GPT-4o", "Gemini", "Claude 3 to 4.6")
CHINESE = "".join(SAMPLES["Chinese"]["lines"])


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_calibrated_estimate_is_within_a_tenth_of_the_middle_of_the_families(kind: str) -> None:
    """The middle is as far from the fewest tokens as from the most; budgets hold for the most."""
    text, exact = "".join(SAMPLES[kind]["lines"]), SAMPLES[kind]["tokens"].values()
    estimate = CalibratedEstimate()
    assert abs(estimate.count(text) / math.sqrt(min(exact) * max(exact)) - 1) < 0.1
    assert max(exact) <= estimate.most(text)


TREE = (
    "src/\n├── main.py\n│   ├── api/\n│   │   ├── routes.py\n│   │   └── models.py\n│   └── db.py\n"
)
FRAME = f"┌{'─' * 14}┬{'─' * 14}┐\n│ name{' ' * 9} │ value{' ' * 8} │\n└{'─' * 14}┴{'─' * 14}┘\n"


@pytest.mark.parametrize(("drawn", "tokens"), [(TREE, (42, 41, 40)), (FRAME, (34, 34, 33))])
def test_lines_drawn_in_markdown_count_as_tokenizers_count_them(
    drawn: str, tokens: Sequence[int]
) -> None:
    """Tokens of GPT-4o, Qwen 3.6 and DeepSeek V4: a run of one character is a token or two."""
    count = CalibratedEstimate().count(drawn * 5)
    assert all(abs(count / (5 * exact) - 1) < 0.1 for exact in tokens)
    assert max(tokens) * 5 <= CalibratedEstimate().most(drawn * 5)


@pytest.mark.parametrize("kind", PROMPTS)
def test_a_budget_counts_the_most_that_any_family_makes(kind: str) -> None:
    text, tokens = PROMPTS[kind]["text"], PROMPTS[kind]["tokens"]
    most = CalibratedEstimate().most(text)
    assert 0.82 * most <= max(tokens[family] for family in LARGEST) <= most
    for_claude = CalibratedEstimate(new_claude=True).most(text)
    assert 0.82 * for_claude <= max(tokens.values()) <= for_claude


@pytest.mark.parametrize("new_claude", [False, True])
@given(st.text(st.sampled_from("ab A1.\n\t  é中あ한😀│"), max_size=30))
def test_a_budget_never_counts_fewer_tokens_than_a_receipt(new_claude: bool, text: str) -> None:
    estimate = CalibratedEstimate(new_claude=new_claude)
    for each in (text, "a  b  c  " * 50):
        assert estimate.count(each) <= estimate.most(each)


@pytest.mark.anyio
async def test_where_words_count_receipts_and_sizes_tell_of_another_estimate(
    open_memory: Any,
) -> None:
    """Receipts and sizes name both estimates where they differ, and the setting."""
    async with open_memory(token_counter="words") as memory:
        context = memory.user("ada").context
        receipt, size = await context.add("", CHINESE), await context.size()
        calibrated = CalibratedEstimate().count(await context.render())
        assert receipt.note == size.note
        assert f"{size.tokens} tokens by words * 1.3, {calibrated} by the" in receipt.note
        assert "Settings.token_counter" in receipt.note
        notes = context.document("notes.md")
        alike = "She walked to the market, bought bread, and came home before it rained. " * 3
        assert (await notes.add("", alike)).note is None
        assert (await notes.size()).note is None


@pytest.mark.anyio
async def test_the_setting_says_which_of_them_counts(open_memory: Any) -> None:
    async with open_memory(token_counter="claude") as memory:
        context = memory.user("ada").context
        receipt = await context.add("", CHINESE)
        new_claude = CalibratedEstimate(new_claude=True)
        assert receipt.tokens == new_claude.count(await context.render()) > 200
        assert receipt.note is None
