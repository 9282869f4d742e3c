"""One server for all tests of a module."""

from collections.abc import Iterator

import pytest
import structlog

from tests.memory_actors.server.helpers import Service, serving, without_compaction


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with serving(tmp_path_factory.mktemp("memory"), wrap=without_compaction) as running:
        yield running


@pytest.fixture(autouse=True)
def _quiet() -> None:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())
