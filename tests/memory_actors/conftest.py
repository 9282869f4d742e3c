"""A memory system over a fake model, a fake clock and a real log."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.fakes import FakeClock, FakeEmbedder, FakeIds, FakeTokenEmbedder
from support.llm_server import server
from support.postgres import lent_url
from support.through import (
    HttpServer,
    OtherLoop,
    at_node,
    is_offered,
    over_http,
    through_client,
)

from memory_actors import MemorySystem, Settings, UserMemory
from memory_actors.sharing import http

__all__ = ["server"]  # a language model's server on loopback

GIVEN = ("alerts", "encrypt", "extractor", "metrics", "summarizer", "supersedes")
Open = Callable[..., AbstractAsyncContextManager[MemorySystem]]


@pytest.fixture(scope="session")
def other_loop() -> Iterator[OtherLoop]:
    made = OtherLoop()
    yield made
    made.stop()


@pytest.fixture(scope="session")
def http_server(
    other_loop: OtherLoop, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HttpServer]:
    made = HttpServer(other_loop, tmp_path_factory.mktemp("keys"))
    yield made
    made.stop()


SCENARIOS = "tests/memory_actors/test_scenarios.py"
CONTRACT = ("tests/memory_actors/api/", SCENARIOS)
"""The tests of the public API: what they say holds for whoever has the store."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run the tests of the contract in the owner of the store, through a client, and over HTTP."""
    where = metafunc.definition.nodeid
    marks = {mark.name for mark in metafunc.definition.iter_markers()}
    opens = "contract" in marks or "open_memory" in metafunc.fixturenames
    if where.startswith(CONTRACT) and opens and "owner" not in marks:
        is_too = "no_http" not in marks and is_offered(metafunc.function)
        ways: list[Any] = ["owner", "client", "http"] if is_too else ["owner", "client"]
        if "no_node" not in marks:
            # All of them take minutes; the scenarios tell at once whether anything works there.
            long = [] if where.startswith(SCENARIOS) else [pytest.mark.slow]
            ways.append(pytest.param("node", marks=[pytest.mark.node, *long]))
        metafunc.parametrize("through", ways, indirect=True)


@pytest.fixture(autouse=True)
def through(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Have `MemorySystem.open` give what the test runs through; the test sees no difference."""
    chosen, held = getattr(request, "param", "owner"), ExitStack()
    if chosen == "client":
        opened = through_client(request.getfixturevalue("other_loop"))
    elif chosen == "http":
        opened = over_http(request.getfixturevalue("http_server"))
        request.getfixturevalue("monkeypatch").setattr(http, "PAUSES_S", ())  # no second attempts
    elif chosen == "node":
        opened = at_node(lambda: held.enter_context(lent_url()))
        request.getfixturevalue("monkeypatch").setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if chosen != "owner":
        request.getfixturevalue("monkeypatch").setattr(MemorySystem, "open", opened)
    with held:
        yield chosen


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def embedder(request: pytest.FixtureRequest) -> FakeEmbedder:
    with_tokens = request.node.get_closest_marker("tokens") is not None
    return FakeTokenEmbedder() if with_tokens else FakeEmbedder()


@pytest.fixture
def open_memory(tmp_path: Path, clock: FakeClock, embedder: FakeEmbedder) -> Open:
    """Open the same store again and again; every write is checked against a replay."""
    new_id = FakeIds()

    @asynccontextmanager
    async def open_(**settings: Any) -> AsyncIterator[MemorySystem]:
        given = {name: settings.pop(name) for name in GIVEN if name in settings}
        chosen = Settings(**{"check_replay": True, "latency_targets_ms": {}, **settings})
        async with MemorySystem.open(
            tmp_path / "memory",
            embedder=embedder,
            clock=clock,
            new_id=new_id,
            settings=chosen,
            **given,
        ) as memory:
            yield memory

    return open_


@pytest.fixture
async def memory(open_memory: Open) -> AsyncIterator[MemorySystem]:
    """A new store, open until the test has ended."""
    async with open_memory() as memory:
        yield memory


@pytest.fixture
def user(memory: MemorySystem) -> UserMemory:
    """A user of it."""
    return memory.user("ada")
