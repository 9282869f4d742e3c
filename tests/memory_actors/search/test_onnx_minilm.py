"""The default embedder: agreement with the published model, batching, token states, bad input."""

import random
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from onnxruntime import InferenceSession
from structlog.testing import capture_logs

from memory_actors import EmbedderError, InvalidInputError
from memory_actors.search.embedding import onnx_minilm
from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder
from memory_actors.search.model.installed import GRAPH_FILE, Precision, model_dir
from memory_actors.search.model.onnx_file import without_constants

Floats = npt.NDArray[np.float32]

_REFERENCE = Path(__file__).parents[4] / "shared" / "minilm" / "reference.npz"
_CLS, _SEP = 101, 102

TEXTS = [
    "Mara moved to Lisbon in March.",
    "",
    "She is allergic to walnuts, and since last summer to pears as well; the doctor was surprised.",
    "tea",
    "   \n\t ",
    "Ünïcödé — naïve café 日本語 🎿",
    "The quarterly report is due on Friday, but Tomas asked for a draft on Wednesday evening. " * 9,
    "word " * 600,
]


@pytest.fixture(params=["fp32", "int8"])
def minilm(request: pytest.FixtureRequest) -> OnnxEmbedder:
    embedder: OnnxEmbedder = request.getfixturevalue(f"minilm_{request.param}")
    return embedder


def cosines(left: Floats, right: Floats) -> Floats:
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    result: Floats = (left * right).sum(axis=1) / lengths
    return result


# Constants that stay in the file


@pytest.mark.parametrize("precision", ["fp32", "int8"])
def test_constants_that_stay_in_the_file_change_no_bit(
    precision: Precision, request: pytest.FixtureRequest, minilm_cache: Path
) -> None:
    """The runtime's own way to open the file gives the same."""
    path = model_dir(precision, minilm_cache) / GRAPH_FILE
    own = InferenceSession(path, onnx_minilm._options(), providers=["CPUExecutionProvider"])
    assert len(without_constants(path)) < path.stat().st_size / 100
    for text in TEXTS:
        (one,) = request.getfixturevalue(f"minilm_{precision}").encode([text])
        ids = np.concatenate([[_CLS], one.token_ids, [_SEP]])
        pooled, states = own.run(["pooled", "token_states"], onnx_minilm.padded_inputs([ids]))
        assert pooled[0].tobytes() == one.pooled.tobytes()
        assert states[0, 1:-1].tobytes() == one.token_states.tobytes()


# Agreement with the published model


@pytest.mark.parametrize(("precision", "cosine_min"), [("fp32", 0.9999), ("int8", 0.97)])
def test_agrees_with_sentence_transformers(
    precision: str, cosine_min: float, request: pytest.FixtureRequest
) -> None:
    """Every row, edge cases included."""
    if not _REFERENCE.exists():
        pytest.skip("the reference vectors of sentence-transformers are not on this machine")
    reference = np.load(_REFERENCE)
    embedder = request.getfixturevalue(f"minilm_{precision}")
    vectors = embedder.embed([str(text) for text in reference["texts"]])
    assert cosines(vectors, reference["vectors"]).min() >= cosine_min


# Shape, length, order


def test_a_vector_is_independent_of_its_batch(minilm: OnnxEmbedder) -> None:
    """A vector does not depend on its batch, and order is kept.

    Stock dynamic quantisation fails this: it came out at 0.97 for int8.
    """
    shuffled = random.Random(7).sample(TEXTS * 8, k=8 * len(TEXTS))
    alone = np.concatenate([minilm.embed([text]) for text in shuffled])
    assert cosines(minilm.embed(shuffled), alone).min() >= 0.9999


def test_text_past_256_tokens_is_ignored(minilm_int8: OnnxEmbedder) -> None:
    """254 word pieces and the two specials."""
    whole, cut, shorter = minilm_int8.embed(["word " * 600, "word " * 254, "word " * 200])
    assert whole @ cut >= 0.99999
    assert whole @ shorter < 0.99999
    assert len(minilm_int8.encode(["word " * 600])[0].token_ids) == 254


class _SpyTokenizer:
    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self.lengths: list[int] = []

    def encode(self, text: str) -> Any:
        self.lengths.append(len(text))
        return self._tokenizer.encode(text)


def test_a_huge_text_is_cut_before_it_costs_anything(
    minilm_int8: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = _SpyTokenizer(minilm_int8._tokenizer)
    monkeypatch.setattr(minilm_int8, "_tokenizer", spy)
    (encoding,) = minilm_int8.encode(["word " * 100_000])
    assert spy.lengths == [32_768]
    assert len(encoding.token_ids) == 254


@pytest.mark.parametrize("seed", range(5))
def test_batches_hold_every_text_once_and_keep_both_bounds(seed: int) -> None:
    rng = random.Random(seed)
    lengths = [rng.randint(2, 256) for _ in range(rng.randint(1, 300))]
    batches = list(onnx_minilm._plan(lengths))
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) <= onnx_minilm._BATCH_TEXTS_MAX
        assert len(batch) * max(lengths[i] for i in batch) <= onnx_minilm._BATCH_TOKENS_MAX


# Token states


def test_token_states_and_the_two_specials_average_to_the_vector(minilm: OnnxEmbedder) -> None:
    for encoding in minilm.encode(TEXTS):
        ids = np.concatenate([[_CLS], encoding.token_ids, [_SEP]])
        _, states = minilm._run(["pooled", "token_states"], [ids])
        np.testing.assert_allclose(encoding.token_states, states[0, 1:-1], atol=0.05)
        rebuilt = np.concatenate([states[0, :1], encoding.token_states, states[0, -1:]]).mean(0)
        assert encoding.pooled @ rebuilt / np.linalg.norm(rebuilt) >= 0.9999


# Bad input, bad models


@pytest.mark.parametrize("bad", [None, 3, b"bytes", ["nested"]])
@pytest.mark.parametrize("method", ["embed", "encode"])
def test_an_item_that_is_no_text_is_refused(
    method: str, bad: object, minilm_int8: OnnxEmbedder
) -> None:
    with pytest.raises(InvalidInputError, match="Item 1"):
        getattr(minilm_int8, method)(["fine", bad])


def test_one_text_instead_of_a_list_is_refused(minilm_int8: OnnxEmbedder) -> None:
    with pytest.raises(InvalidInputError, match="wrap it in a list"):
        minilm_int8.embed("tea")


def test_half_a_surrogate_pair_is_refused(minilm_int8: OnnxEmbedder) -> None:
    with pytest.raises(InvalidInputError, match="surrogate"):
        minilm_int8.embed(["a\ud800b"])


class _FakeSession:
    def __init__(self, answer: Callable[[], list[Floats]]) -> None:
        self._answer = answer

    def run(self, _outputs: list[str], _inputs: dict[str, Any]) -> list[Floats]:
        return self._answer()


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_numbers_that_are_not_finite_are_an_error(
    broken: float, minilm_int8: OnnxEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    vector = np.full((1, 384), broken, dtype=np.float32)
    monkeypatch.setattr(minilm_int8, "_session", _FakeSession(lambda: [vector]))
    with pytest.raises(EmbedderError, match="not finite"):
        minilm_int8.embed(["tea"])


def test_a_failure_of_the_runtime_is_an_embedder_error(minilm_int8: OnnxEmbedder) -> None:
    """Token ids past the vocabulary make the real runtime fail."""
    with pytest.raises(EmbedderError, match="failed"):
        minilm_int8._run(["pooled"], [np.array([10**6])])


@pytest.mark.parametrize("name", ["model.onnx", "tokenizer.json", "manifest.json"])
def test_a_damaged_file_is_an_embedder_error(name: str, minilm_cache: Path, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm_cache / "all-MiniLM-L6-v2-int8-v1", folder)
    (folder / name).write_bytes(b"damaged")
    with pytest.raises(EmbedderError):
        OnnxEmbedder(folder)


# Loading


def test_load_installs_on_first_use_only_and_says_so(
    minilm_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installs: list[Path | None] = []

    def fake_install(*, precision: str, cache_dir: Path, **_: object) -> Path:
        installs.append(cache_dir)
        name = f"all-MiniLM-L6-v2-{precision}-v1"
        return shutil.copytree(minilm_cache / name, cache_dir / name)

    monkeypatch.setattr(onnx_minilm, "install_model", fake_install)
    with capture_logs() as logs:
        OnnxEmbedder.load(cache_dir=tmp_path)
        OnnxEmbedder.load(cache_dir=tmp_path)
    assert installs == [tmp_path]
    assert [entry["log_level"] for entry in logs] == ["warning"]


# From two threads


def test_two_threads_get_the_same_vectors(minilm_int8: OnnxEmbedder) -> None:
    """Two threads at once get the vectors that one after the other gets."""
    texts = [TEXTS[0], TEXTS[2]]
    alone = [minilm_int8.encode([text])[0] for text in texts]

    def again(text: str) -> list[onnx_minilm.Encoding]:
        return [minilm_int8.encode([text])[0] for _ in range(40)]

    with ThreadPoolExecutor(2) as threads:
        together = list(threads.map(again, texts))
    for expected, found in zip(alone, together, strict=True):
        assert all(np.array_equal(one.pooled, expected.pooled) for one in found)
        assert all(np.array_equal(one.token_states, expected.token_states) for one in found)


# What is kept of a text
