"""Rerankers: the order of the first hits is theirs, unless they fail or take too long."""

import json
import shutil
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError, Item, MemorySystem, RerankerError, Settings
from memory_actors.search.model.installed import model_dir
from memory_actors.search.reranking import FastembedReranker

pytestmark = pytest.mark.anyio

FACTS = [f"Ada drank {drink} on day {day}." for day, drink in enumerate(("tea", "milk", "gin") * 4)]
QUESTION = "What did Ada drink?"


class Longest:
    """Puts the longest text first, or does what it is told to."""

    def __init__(self, does: Callable[[Sequence[str]], Any] = lambda texts: [*map(len, texts)]):
        self.does = does
        self.asked = list[Sequence[str]]()

    def score(self, query: str, texts: Sequence[str]) -> Any:
        assert query == QUESTION
        self.asked.append(texts)
        return self.does(texts)


async def found(path: Path, reranker: Any, **how: Any) -> list[str]:
    settings = Settings(reranker_hits=6, reranker_deadline_s=0.2)
    opening = MemorySystem.open(
        path, embedder=FakeEmbedder(), settings=settings, reranker=reranker, share=False
    )
    async with opening as memory:
        user = memory.user("ada")
        if not await user.list_memories():
            await user.add_many([Item(content=fact) for fact in FACTS])
        return [hit.content for hit in await user.retrieve(QUESTION, **how)]


async def test_a_reranker_orders_the_first_hits_and_leaves_the_others(tmp_path: Path) -> None:
    plain = await found(tmp_path, None, top_k=10)
    reranker = Longest(lambda texts: range(len(texts)))

    hits = await found(tmp_path, reranker, top_k=10)

    assert hits == [*plain[5::-1], *plain[6:]]
    assert [*map(list, reranker.asked)] == [plain[:6]]


async def test_a_reranker_reads_more_hits_than_are_wanted(tmp_path: Path) -> None:
    plain = await found(tmp_path, None, top_k=6)

    assert await found(tmp_path, Longest(lambda texts: range(len(texts))), top_k=2) == [
        plain[5],
        plain[4],
    ]


async def test_scores_of_a_reranker_are_explained(tmp_path: Path) -> None:
    opening = MemorySystem.open(tmp_path, embedder=FakeEmbedder(), reranker=Longest(), share=False)
    async with opening as memory:
        user = memory.user("ada")
        await user.add_many([Item(content=fact) for fact in FACTS])
        hits = await user.retrieve(QUESTION, explain=True)
    assert [hit.signals["reranker"] for hit in hits if hit.signals] == sorted(
        (len(hit.content) for hit in hits), reverse=True
    )


def fails(_: Sequence[str]) -> Any:
    raise ValueError("what Ada drank")


@pytest.mark.parametrize(
    "does",
    [
        fails,
        lambda _: time.sleep(1),
        lambda _: [1.0],
        lambda texts: [float("nan")] * len(texts),
        lambda texts: ["tea"] * len(texts),
    ],
    ids=["raises", "is slow", "too few", "not finite", "no numbers"],
)
async def test_a_reranker_that_fails_leaves_the_order_as_it_is(tmp_path: Path, does: Any) -> None:
    plain = await found(tmp_path, None)

    assert await found(tmp_path, Longest(does)) == plain


async def test_a_reranker_that_hangs_holds_up_one_search_only(tmp_path: Path) -> None:
    gate = threading.Event()
    reranker = Longest(lambda _: gate.wait(10))
    settings = Settings(reranker_deadline_s=0.5)
    opening = MemorySystem.open(
        tmp_path, embedder=FakeEmbedder(), settings=settings, reranker=reranker, share=False
    )
    async with opening as memory:
        user = memory.user("ada")
        await user.add_many([Item(content=fact) for fact in FACTS])
        await user.retrieve(QUESTION)
        time.sleep(0.1)
        began_s = time.monotonic()
        for _ in range(20):
            assert len(await user.retrieve(QUESTION)) == 5
        assert time.monotonic() - began_s < 10 * 0.5
        assert len(reranker.asked) == 1
        gate.set()


@pytest.mark.parametrize("chosen", ["bge", "fastembed:", object()])
async def test_what_is_no_reranker_is_refused(tmp_path: Path, chosen: Any) -> None:
    with pytest.raises(InvalidInputError, match="reranker must"):
        await MemorySystem.open(tmp_path, reranker=chosen)


# --- fastembed's, with a model that is made here: no registry has the weights of one

MODEL = "Xenova/ms-marco-MiniLM-L-6-v2"


@pytest.fixture(scope="session")
def cross_encoder(minilm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A cross-encoder of fastembed's form: its logit is how many tokens the two texts share."""
    pytest.importorskip("fastembed", reason="fastembed is not installed")
    folder = tmp_path_factory.mktemp("cross-encoder")
    shutil.copy(model_dir("int8", minilm_cache) / "tokenizer.json", folder)
    (folder / "config.json").write_text(json.dumps({"pad_token_id": 0}))
    (folder / "tokenizer_config.json").write_text(
        json.dumps({"model_max_length": 512, "pad_token": "[PAD]"})
    )
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]"}))
    (folder / "onnx").mkdir()
    onnx.save(shared_tokens(), folder / "onnx" / "model.onnx")
    return str(folder)


def shared_tokens() -> onnx.ModelProto:
    names = ("input_ids", "token_type_ids", "attention_mask")
    given = [
        helper.make_tensor_value_info(one, TensorProto.INT64, ["texts", "tokens"]) for one in names
    ]
    wanted = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", 1])
    numbers = {"one": [1], "two": [2], "both": [1, 2]}
    constants = [
        helper.make_tensor(name, TensorProto.INT64, [len(said)], said)
        for name, said in numbers.items()
    ]
    node = helper.make_node
    nodes = [
        node("Sub", ["attention_mask", "token_type_ids"], ["asks"]),  # the tokens of the query
        node("Unsqueeze", ["input_ids", "two"], ["down"]),
        node("Unsqueeze", ["input_ids", "one"], ["across"]),
        node("Equal", ["down", "across"], ["same"]),
        node("Cast", ["same"], ["pairs"], to=TensorProto.INT64),
        node("Unsqueeze", ["asks", "two"], ["from"]),
        node("Unsqueeze", ["token_type_ids", "one"], ["to"]),
        node("Mul", ["pairs", "from"], ["asked"]),
        node("Mul", ["asked", "to"], ["shared"]),
        node("ReduceSum", ["shared", "both"], ["count"], keepdims=0),
        node("Unsqueeze", ["count", "one"], ["counted"]),
        node("Cast", ["counted"], ["logits"], to=TensorProto.FLOAT),
    ]
    graph = helper.make_graph(nodes, "shared", given, [wanted], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def test_fastembed_scores_texts_by_its_cross_encoder(cross_encoder: str) -> None:
    reranker = FastembedReranker(MODEL, folder=cross_encoder)
    texts = ["Tea is hot.", "Ada drank tea.", "", "\ud83d tea " * 2_000]

    scores = np.array(reranker.score("Ada drank", texts))

    assert scores[1] == scores[0] + 2
    assert np.argmax(scores) == 1
    assert scores[0] == scores[2]


def test_a_cross_encoder_that_cannot_be_loaded_is_an_error_of_ours(
    cross_encoder: str, tmp_path: Path
) -> None:
    assert cross_encoder
    with pytest.raises(RerankerError, match="fastembed cannot load Xenova"):
        FastembedReranker(MODEL, folder=str(tmp_path)).prepare()
    with pytest.raises(InvalidInputError, match="no cross-encoder 'klingon'"):
        FastembedReranker("klingon")


async def test_hits_are_ordered_by_fastembed(tmp_path: Path, cross_encoder: str) -> None:
    hits = await found(tmp_path, FastembedReranker(MODEL, folder=cross_encoder))

    assert set(hits) <= set(FACTS)
