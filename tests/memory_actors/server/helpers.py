"""A real server on a loopback port, over a real memory system with a fake model."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
from anyio.from_thread import BlockingPortal, start_blocking_portal
from support.fakes import FakeEmbedder

from memory_actors import Conversation, MemorySystem, Settings
from memory_actors.server import KeyStore
from memory_actors.server.bodies import CompressionStats
from memory_actors.server.serving import Server, address, listening, new_server

ALICE, BOB = "alice", "bob"
SECRET = "Alice keeps the diamonds under the third floorboard"


def shouted(conversation: Conversation) -> list[str]:
    """Return each message in capitals, as a fact."""
    return [one.text.upper() for one in conversation.messages]


class StandIn:
    """A memory system of which some methods are replaced."""

    def __init__(self, memory: MemorySystem, **methods: Any):
        self._memory = memory
        self.__dict__.update(methods)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._memory, name)


class Service:
    """A running server, a client of it, and the memory behind it."""

    def __init__(
        self, portal: BlockingPortal, memory: MemorySystem, keys: KeyStore, server: Server, url: str
    ):
        self.portal, self.memory, self.keys, self.server, self.url = (
            portal, memory, keys, server, url,
        )  # fmt: skip
        self.client = httpx.Client(base_url=url, timeout=30, trust_env=False)
        self.root = keys.create(None)[0]
        self.alice = keys.create(ALICE)[0]
        self.bob = keys.create(BOB)[0]

    def __call__(
        self, method: str, path: str, key: str | None = None, **given: Any
    ) -> httpx.Response:
        """Ask with a key, with the path exactly as it is written here."""
        headers = {**(bearer(key) if key else {}), **given.pop("headers", {})}
        target = {"target": path.encode()}
        return self.client.request(method, "/", headers=headers, extensions=target, **given)

    def call(self, work: Callable[[], Any]) -> Any:
        """Run a coroutine function in the server's loop."""
        return self.portal.call(work)

    def add(self, user_id: str, content: str, **fields: Any) -> str:
        """Add a memory without HTTP; return its id."""

        async def work() -> str:
            return (await self.memory.user(user_id).add(content, **fields)).memory_id

        return self.call(work)


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def problem(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """Check that an answer is problem details of RFC 9457; return them."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told = answer.json()
    assert told["type"] == f"urn:problem-type:memory-actors:{name}"
    assert told["status"] == status
    assert told["instance"].startswith("urn:uuid:")
    assert all(isinstance(told[field], str) and told[field] for field in ("title", "detail"))
    return told


@contextmanager
def serving(
    directory: Path,
    wrap: Callable[[MemorySystem], Any] = lambda memory: memory,
    settings: Settings | None = None,
    encrypt: bool = False,
    **limits: Any,
) -> Iterator[Service]:
    """Hold a server over the store in `directory`."""
    keys = KeyStore(directory)
    opening = MemorySystem.open(
        directory,
        embedder=FakeEmbedder(),
        settings=settings or Settings(check_replay=True),
        encrypt=encrypt,
        extractor=shouted,
    )
    with (
        start_blocking_portal("asyncio") as portal,
        portal.wrap_async_context_manager(opening) as memory,
        listening("127.0.0.1", 0) as bound,
    ):
        server = new_server(wrap(memory), keys, **limits)
        running = portal.start_task_soon(server.serve, [bound])
        try:
            until(lambda: server.started)
            service = Service(portal, memory, keys, server, address(bound))
            with service.client:
                yield service
        finally:
            server.should_exit = True
            running.result(timeout=20)


def until(holds: Callable[[], Any], within_s: float = 10.0) -> Any:
    """Wait for something to become true; return it."""
    deadline_s = time.monotonic() + within_s
    while not (found := holds()):
        assert time.monotonic() < deadline_s, "it did not become true in time"
        time.sleep(0.01)
    return found


class Report(msgspec.Struct, frozen=True):
    """The report of the stand-in for compaction."""

    dry_run: bool
    originals: int = 5
    cancelled: bool = False
    bytes_saved: int = 100
    compression_ratio: float = 0.2


async def no_compaction(_user_id: str | None = None, *, dry_run: bool = False, **_: Any) -> Report:
    return Report(dry_run)


async def no_stats(_user_id: str | None = None) -> Any:
    return CompressionStats(
        summaries=1, originals=5, bytes_before=125, bytes_after=25, bytes_saved=100,
        compression_ratio=0.2, failed_clusters=0, runs=1, last_run_at=None, schedule=None,
    )  # fmt: skip


def without_compaction(memory: MemorySystem) -> StandIn:
    """Put compaction aside: what the server does with it is tested, not compaction."""
    return StandIn(memory, compact=no_compaction, compaction_stats=no_stats)
