"""Exact counts over a tokenizer.json: what is counted, and what is no tokenizer."""

from pathlib import Path

import pytest
from support.fakes import FakeEmbedder
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from memory_actors import (
    InvalidInputError,
    MemorySystem,
    NotFoundError,
    Settings,
    TokenCounter,
    TokenizerCounter,
    WordEstimate,
)
from memory_actors.search.model.installed import model_path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A tokenizer of whole words that would cut after three and pad to ten."""
    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "tea": 3}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=10)
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def test_every_token_of_the_text_counts_and_nothing_else(path: Path) -> None:
    counter: TokenCounter = TokenizerCounter(path)
    assert [counter.count(text) for text in ("", "tea", "tea, tea!", "a b c d e")] == [0, 1, 4, 5]
    assert TokenizerCounter(path, special_tokens=True).count("tea") == 3
    assert counter.name == str(path)


def test_what_is_no_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"tokenizer\.json"):
        TokenizerCounter(tmp_path / "none.json")
    bad = tmp_path / "bad.json"
    bad.write_text("{}", "utf-8")
    with pytest.raises(InvalidInputError, match="holds no tokenizer"):
        TokenizerCounter(bad)


@pytest.mark.skipif(model_path() is None, reason="the embedding model is not installed")
def test_the_installed_models_tokenizer_needs_no_path() -> None:
    counter = TokenizerCounter()
    assert counter.count("likes green tea") == 3
    assert counter.count("word " * 1_000) == 1_000  # its file cuts at 128


@pytest.mark.anyio
async def test_a_document_is_limited_by_its_exact_tokens(tmp_path: Path, path: Path) -> None:
    settings = Settings(
        token_counter=TokenizerCounter(path), context_soft_tokens=4, context_hard_tokens=6
    )
    async with MemorySystem.open(tmp_path, embedder=FakeEmbedder(), settings=settings) as memory:
        receipt = await memory.user("u").context.add("", "tea, tea!")
        assert receipt.tokens == 5  # the marker too
        assert WordEstimate().count("- tea, tea!") == 4
