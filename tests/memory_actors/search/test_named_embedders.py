"""Embedders by a scheme and a model: served over loopback, read from files, joined with MiniLM."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from support.llm_server import Server

from memory_actors import (
    EmbedderError,
    InvalidInputError,
    MemorySystem,
    MissingExtraError,
    ModelMismatchError,
)
from memory_actors.search.embedding import served
from memory_actors.search.embedding.default import JoinedEmbedder
from memory_actors.search.embedding.local_models import FastEmbedder, OnnxFolder, SentenceEmbedder
from memory_actors.search.embedding.named import embedder_of
from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder
from memory_actors.search.embedding.served import ASKS
from memory_actors.search.model.installed import GRAPH_FILE, model_dir

pytestmark = pytest.mark.anyio

TEXTS = ["She is allergic to walnuts.", "", "tea " * 600, "彼女はくるみアレルギーです。"]


@pytest.fixture
def at_openai(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    """An endpoint of OpenAI's protocol, and the key that goes there."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    return server


async def test_a_store_is_searched_by_the_vectors_of_a_served_model(
    tmp_path: Path, at_openai: Server
) -> None:
    name = "openai:text-embedding-3-small"
    embedder: Any = embedder_of(name)
    embedder._vectors._dimension = 384  # what the server of the tests gives
    async with MemorySystem.open(tmp_path / "m", embedder=embedder) as memory:
        user = memory.user("ada")
        await user.add("Ada lives in Bern.")
        await user.add("Ada plays the cello.")
        hits = await user.retrieve("Who plays the cello?")
        assert hits[0].content == "Ada plays the cello."
    asked = [text for body in at_openai.bodies for text in body["input"]]
    assert {"Ada lives in Bern.", "Ada plays the cello."} <= set(asked)
    assert "Who plays the cello?" in asked
    assert {one["authorization"] for one in at_openai.headers} == {"Bearer sk-test"}
    with pytest.raises(ModelMismatchError, match="text-embedding-3-small"):
        await MemorySystem.open(tmp_path / "m")


def test_texts_are_written_as_their_model_was_trained(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", server.url.removesuffix("/v1").removeprefix("http://"))
    embedder = served.embedder_at("ollama:nomic-embed-text")
    server.script = [("embeds", 768)]

    found = embedder.embed([f"{embedder.query_prefix}tea?", "Ada likes tea.", "\ud83d", ""])

    assert found.shape == (4, embedder.dimension)
    assert server.bodies[0]["model"] == "nomic-embed-text"
    assert server.bodies[0]["input"] == [
        "search_query: tea?", "search_document: Ada likes tea.", "search_document: ?",
        "search_document: ",
    ]  # fmt: skip


def test_an_endpoint_says_the_dimension_of_a_model_that_nobody_knows(server: Server) -> None:
    embedder = served.embedder_at(f"{server.url}/embeddings#mine")
    server.script = [("embeds", 12)]

    assert embedder.dimension == 12
    assert server.bodies[0]["model"] == "mine"
    assert server.bodies[0]["encoding_format"] == "float"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([("fails", 401)], "answered 401"),
        ([("fails", 503)] * 3, "answered 503"),
        ([("sends", b"{}")], "sent no vectors"),
        ([("sends", b'{"data": [{"index": 0, "embedding": "x"}]}')], "sent no vectors"),
        ([("breaks",)] * 3, "cannot be reached"),
    ],
)
def test_an_endpoint_that_fails_is_an_embedder_error_without_the_text(
    script: list[Any], said: str, server: Server
) -> None:
    embedder = served.embedder_at(f"{server.url}#mine")
    server.script = list(script)

    with pytest.raises(EmbedderError, match=said) as raised:
        embedder.embed(["my salary"])

    assert "salary" not in str(raised.value)
    assert len(server.bodies) == len(script)


def test_an_endpoint_that_fails_for_a_moment_is_asked_again(server: Server) -> None:
    server.script = [("fails", 429), ("embeds", 8)]

    assert served.embedder_at(f"{server.url}#mine").embed(["tea"]).shape == (1, 8)


@pytest.mark.parametrize("name", ["openai:", "ollama:", "onnx:/nowhere", "klingon:x", "klingon"])
def test_a_name_that_names_no_model_is_refused(name: str, at_openai: Server) -> None:
    with pytest.raises(InvalidInputError):
        embedder_of(name)


def test_openai_without_a_key_says_which_variable(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidInputError, match="OPENAI_API_KEY"):
        served.embedder_at("openai:text-embedding-3-small")


# --- files


@pytest.fixture(scope="session")
def exported(minilm_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM as others export it: its token states are all that the graph gives."""
    source, folder = model_dir("fp32", minilm_cache), tmp_path_factory.mktemp("exported")
    model = onnx.load(source / GRAPH_FILE)
    kept = [one for one in model.graph.output if one.name == "token_states"]
    del model.graph.output[:]
    model.graph.output.extend(kept)
    onnx.save(model, folder / "model.onnx")
    shutil.copy(source / "tokenizer.json", folder)
    (folder / "sentence_bert_config.json").write_text('{"max_seq_length": 256}')
    return folder


def test_a_model_in_a_folder_gives_its_vectors(exported: Path, minilm_fp32: OnnxEmbedder) -> None:
    embedder = OnnxFolder(str(exported))

    found = embedder.embed(TEXTS)

    assert found.shape == (len(TEXTS), embedder.dimension) == (len(TEXTS), 384)
    assert np.allclose(found, minilm_fp32.embed(TEXTS), atol=1e-4)


def test_a_folder_says_which_state_is_the_vector(exported: Path, tmp_path: Path) -> None:
    mean = OnnxFolder(str(exported)).embed(TEXTS)
    folder = shutil.copytree(exported, tmp_path / "model")
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_cls_token": True}))

    first = OnnxFolder(str(folder)).embed(TEXTS)

    assert np.allclose(np.linalg.norm(first, axis=1), 1, atol=1e-5)
    assert not np.allclose(first, mean, atol=0.1)


@pytest.fixture(scope="session")
def fastembed_folder(exported: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The same files, and those that fastembed wants beside them."""
    pytest.importorskip("fastembed", reason="fastembed is not installed")
    folder = shutil.copytree(exported, tmp_path_factory.mktemp("fastembed") / "model")
    (folder / "config.json").write_text('{"pad_token_id": 0}')
    (folder / "tokenizer_config.json").write_text('{"model_max_length": 256, "pad_token": "[PAD]"}')
    (folder / "special_tokens_map.json").write_text('{"pad_token": "[PAD]"}')
    return str(folder)


def test_fastembed_gives_the_vectors_of_its_models(
    fastembed_folder: str, minilm_fp32: OnnxEmbedder
) -> None:
    embedder = FastEmbedder("sentence-transformers/all-MiniLM-L6-v2", folder=fastembed_folder)

    found = embedder.embed([*TEXTS, f"{ASKS}{TEXTS[0]}"])

    assert found.shape == (len(TEXTS) + 1, embedder.dimension) == (len(TEXTS) + 1, 384)
    assert np.allclose(found[:-1], minilm_fp32.embed(TEXTS), atol=1e-4)
    assert np.allclose(found[-1], found[0], atol=1e-4)


def test_a_model_that_fastembed_does_not_have_is_refused(
    fastembed_folder: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidInputError, match="no model 'klingon'"):
        _ = FastEmbedder("klingon", folder=fastembed_folder).dimension
    with pytest.raises(EmbedderError, match="fastembed cannot load"):
        FastEmbedder("BAAI/bge-small-en-v1.5", folder=str(tmp_path)).prepare()


def test_other_files_are_another_model(exported: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(exported, tmp_path / exported.name)
    assert OnnxFolder(str(folder)).fingerprint == OnnxFolder(str(exported)).fingerprint
    (folder / "tokenizer.json").write_text("{}")
    assert OnnxFolder(str(folder)).fingerprint != OnnxFolder(str(exported)).fingerprint
    with pytest.raises(EmbedderError, match=r"tokenizer"):
        OnnxFolder(str(folder)).embed(["tea"])


@pytest.fixture(scope="session")
def sentence_model(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MiniLM as sentence-transformers keeps it in a folder."""
    pytest.importorskip("sentence_transformers", reason="sentence-transformers is not installed")
    folder = tmp_path_factory.mktemp("sentence") / "minilm"
    shutil.copytree(published, folder)
    config = {
        "architectures": ["BertModel"], "model_type": "bert", "hidden_size": 384,
        "intermediate_size": 1536, "num_attention_heads": 12, "num_hidden_layers": 6,
        "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2,
    }  # fmt: skip
    parts = "sentence_transformers.models."
    modules = [
        {"idx": 0, "name": "0", "path": "", "type": f"{parts}Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling", "type": f"{parts}Pooling"},
    ]
    pooling = {"word_embedding_dimension": 384, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling").mkdir()
    for name, said in {
        "config.json": config,
        "modules.json": modules,
        "sentence_bert_config.json": {"max_seq_length": 256},
        "tokenizer_config.json": {"tokenizer_class": "BertTokenizerFast", "do_lower_case": True},
        "1_Pooling/config.json": pooling,
    }.items():
        (folder / name).write_text(json.dumps(said))
    return folder


def test_sentence_transformers_gives_the_vectors_of_its_models(
    sentence_model: Path, minilm_fp32: OnnxEmbedder, tmp_path: Path
) -> None:
    embedder = SentenceEmbedder(str(sentence_model))

    found = embedder.embed([*TEXTS, "\ud83d", f"{embedder.query_prefix}{TEXTS[0]}"])

    assert found.shape == (len(TEXTS) + 2, embedder.dimension) == (len(TEXTS) + 2, 384)
    assert np.allclose(found[: len(TEXTS)], minilm_fp32.embed(TEXTS), atol=1e-4)
    assert np.allclose(found[-1], found[0], atol=1e-5)  # it has no prompt for questions
    prompts = {"prompts": {"query": "ask: ", "document": ""}, "default_prompt_name": None}
    asking = shutil.copytree(sentence_model, tmp_path / "minilm")
    (asking / "config_sentence_transformers.json").write_text(json.dumps(prompts))
    prompted = SentenceEmbedder(str(asking))
    assert prompted.fingerprint != embedder.fingerprint
    asked, plain = prompted.embed([f"{embedder.query_prefix}tea", "ask: tea"])
    assert np.allclose(asked, plain, atol=1e-5)


def test_a_model_that_sentence_transformers_cannot_load_is_an_embedder_error(
    sentence_model: Path, tmp_path: Path
) -> None:
    assert sentence_model
    with pytest.raises(EmbedderError, match="sentence-transformers cannot load"):
        SentenceEmbedder(str(tmp_path)).prepare()


def test_without_sentence_transformers_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(MissingExtraError, match=r"memory-actors\[sentence-transformers\]"):
        embedder_of("sentence-transformers:all-mpnet-base-v2")


async def test_a_joined_store_is_as_good_as_minilm_where_both_are_minilm(
    exported: Path, tmp_path: Path
) -> None:
    """The vectors are the same model's, so the hits have to be."""
    facts = ["Ada lives in Bern.", "Ada plays the cello.", "Ben is allergic to walnuts."]
    queries = ["Which instrument does Ada play?", "walnuts", "Where is Ada's home?"]
    found = {}
    for name in ("default", f"onnx:{exported}"):
        async with MemorySystem.open(tmp_path / name[:4], embedder=name) as memory:
            user = memory.user("u")
            for fact in facts:
                await user.add(fact)
            hits = [await user.retrieve(query) for query in queries]
            found[name] = [[hit.content for hit in some] for some in hits]
    assert isinstance(embedder_of(f"onnx:{exported}"), JoinedEmbedder)
    assert found["default"] == found[f"onnx:{exported}"]
