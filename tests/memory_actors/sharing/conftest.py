"""Two databases of one memory, and a folder for what nodes keep on their disk."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from support.postgres import lent_url


@pytest.fixture
def cache(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def urls() -> Iterator[list[str]]:
    with ExitStack() as held:
        yield [held.enter_context(lent_url()) for _ in range(2)]
