"""Users are placed by Ray: a local cluster of three raylets, and a real database."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.canaries import found_in_database
from support.fakes import FakeEmbedder
from support.postgres import fresh_url
from support.raylets import raylets

from memory_actors import InvalidInputError, MemorySystem, Settings
from memory_actors.api.parts import StoreParts
from memory_actors.base.streams import stream_of

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install -e '.[ray]'")

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]
USERS = [f"user {n}" for n in range(12)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Begin a cluster of three raylets, whose workers know the embedder of the tests."""
    with ExitStack() as held:
        try:
            made = held.enter_context(raylets())
        except Exception as error:  # whatever it wants of a machine, this one may not have it
            pytest.skip(f"Ray does not start here: {error!r:.300}")
        ray.init(address=made.address, namespace="tests", log_to_driver=False)
        held.callback(ray.shutdown)
        yield made


@pytest.fixture(scope="module")
def url(cluster) -> str:
    """A schema that no other test gets: the nodes in it live until the cluster has ended."""
    return fresh_url()


def opened(url: str, **more: Any) -> Any:
    chosen = {"placement": "ray", "ray_actors": 3, "check_replay": True} | more
    settings = Settings(latency_targets_ms={}, **chosen)
    return MemorySystem.open(url, embedder=FakeEmbedder(), settings=settings)


@pytest.fixture
async def memory(url) -> AsyncIterator[MemorySystem]:
    async with opened(url) as it:
        yield it


async def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which finds the cluster by its environment."""
    found = {"RAY_ADDRESS": ray.get_runtime_context().gcs_address}
    return await asyncio.to_thread(
        subprocess.run, [sys.executable, *arguments],
        env=os.environ | found, capture_output=True, text=True,
    )  # fmt: skip


async def processes(memory: MemorySystem) -> dict[str, int]:
    """Return the process that has each user."""
    leases = memory._caller.placement.leases
    held = {user: await leases.holder(stream_of(user)) for user in USERS}
    return {user: json.loads(one.address)["pid"] for user, one in held.items() if one is not None}


async def test_each_user_is_at_the_ray_actor_of_their_shard(memory) -> None:
    for user in USERS:
        await memory.user(user).add(f"{user} enjoys skiing")
    for user in USERS:
        assert [hit.content for hit in await memory.user(user).retrieve("skiing")] == [
            f"{user} enjoys skiing"
        ]
    assert await memory.users() == sorted(USERS)
    assert memory.statistics().runtime.live == 0, "who opened it claims nobody"
    at = await processes(memory)
    assert len(at) == len(USERS)
    assert len(set(at.values())) == 3
    assert os.getpid() not in at.values()
    raylets = {one["NodeID"] for one in ray.nodes() if one["Alive"]}
    assert len(raylets) == 3


async def test_a_second_process_finds_the_same_users_there(url, memory) -> None:
    await memory.user("user 1").add("likes tea")
    before = await processes(memory)
    program = f"""
import asyncio
from support.fakes import FakeEmbedder
from memory_actors import MemorySystem, Settings
async def main():
    settings = Settings(latency_targets_ms={{}}, placement="ray", ray_actors=3)
    async with MemorySystem.open({url!r}, embedder=FakeEmbedder(), settings=settings) as memory:
        print([hit.content for hit in await memory.user("user 1").retrieve("tea", top_k=1)])
        await memory.user("user 2").add("likes milk", memory_id="milk")
asyncio.run(main())
"""
    done = await run("-W", "ignore", "-c", program)
    assert done.stdout.strip() == "['likes tea']", done.stderr[-2_000:]
    assert (await memory.user("user 2").get("milk")).content == "likes milk"
    after = await processes(memory)
    assert {user: after[user] for user in before} == before, "they stay where they were"


async def test_nothing_is_lost_or_doubled_when_a_ray_actor_is_killed(memory) -> None:
    """While all users write. `python -m bench cluster --faults ray-actor` has many rounds."""
    notes, acknowledged = 30, {user: list[str]() for user in USERS}

    async def write(user: str) -> None:
        for number in range(notes):
            receipt = await memory.user(user).add(f"note {number} of {user}", on_duplicate="keep")
            acknowledged[user].append(receipt.memory_id)
            await asyncio.sleep(0.05)

    counts = {user: await memory.user(user).count() for user in USERS}
    async with asyncio.TaskGroup() as group:
        for user in USERS:
            group.create_task(write(user))
        await asyncio.sleep(0.4)
        before = await processes(memory)
        os.kill(before[USERS[0]], signal.SIGKILL)
    assert (await processes(memory))[USERS[0]] != before[USERS[0]], "Ray has begun it anew"
    for user in USERS:
        there = await memory.user(user).list_memories(limit=10_000)
        assert {*acknowledged[user]} <= {memory.memory_id for memory in there}
        assert len(there) == counts[user] + notes


async def test_the_shards_of_a_machine_that_is_gone_go_on_at_another(cluster, memory) -> None:
    for user in USERS:
        await memory.user(user).add("is here before")
    before = await processes(memory)
    others = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    raylets = {node.all_processes["raylet"][0].process.pid: node for node in others}
    there = {user: psutil.Process(pid).ppid() for user, pid in before.items()}
    raylet = next(parent for parent in there.values() if parent in raylets)
    gone = {before[user] for user in USERS if there[user] == raylet}
    await asyncio.to_thread(cluster.remove_node, raylets[raylet], allow_graceful=False)
    for pid in gone:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for user in USERS:
        await memory.user(user).add("is here after")
        hits = await memory.user(user).retrieve("is here", top_k=10)
        assert {"is here before", "is here after"} <= {hit.content for hit in hits}
    after = await processes(memory)
    assert len(after) == len(USERS)
    assert not gone & {*after.values()}


async def test_of_an_erased_user_no_ray_actor_keeps_anything(url, memory) -> None:
    canary = "the canary sings at dawn"
    await memory.user("erased").add(canary)
    assert await memory.user("erased").retrieve("canary")
    await memory.erase("erased")
    assert found_in_database(url, "user:erased", canary) == set()
    assert await memory.user("erased").retrieve("canary") == []
    caches = Path(os.environ["XDG_CACHE_HOME"])
    files = [path for path in caches.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if canary.encode() in path.read_bytes()]


async def test_all_who_wait_for_a_ray_actor_wait_for_one_look_up(monkeypatch) -> None:
    """Without Ray's head each would block a thread, until there are no more."""
    from memory_actors.sharing.nodes import by_ray  # it imports Ray

    looked, come = list[int](), threading.Event()
    monkeypatch.setattr(by_ray, "ANSWER_S", 0.02)
    actors = by_ray.RayActors("store", "postgresql://nowhere", StoreParts())

    def made(number: int) -> None:
        looked.append(number)
        come.wait(5)
        raise ValueError("there is none")

    monkeypatch.setattr(actors, "_made", made)
    assert [await actors.address(1) for _ in range(3)] == [None] * 3
    come.set()
    assert looked == [1]


async def test_a_process_with_another_number_of_ray_actors_is_refused(url, memory) -> None:
    await memory.user("user 1").add("is there")
    with pytest.raises(InvalidInputError, match="ray_actors"):
        await opened(url, ray_actors=2)


async def test_a_part_that_cannot_be_sent_to_ray_is_refused(url) -> None:
    held = threading.Lock()
    settings = Settings(placement="ray", ray_actors=1)
    parts = {"embedder": FakeEmbedder(), "settings": settings, "clock": lambda: bool(held)}
    with pytest.raises(InvalidInputError, match="clock cannot be sent"):
        await MemorySystem.open(f"{url}_other", **parts)


async def test_several_databases_are_not_placed_by_ray(url) -> None:
    with pytest.raises(InvalidInputError, match="one database"):
        await MemorySystem.open([url, f"{url}_other"], settings=Settings(placement="ray"))


async def test_a_directory_is_not_placed(tmp_path) -> None:
    with pytest.raises(InvalidInputError, match="placement"):
        await MemorySystem.open(tmp_path, settings=Settings(placement="ray"))


async def test_ray_actors_are_stopped_by_a_command_and_begun_by_who_opens(url) -> None:
    async with opened(url) as memory:
        await memory.user("user 1").add("is there before")
    stopped = await run("-m", "memory_actors.cli", "--json", "ray-stop", url)
    assert json.loads(stopped.stdout) == {"stopped": 3}, stopped.stderr[-2_000:]
    async with opened(url) as memory:
        hits = await memory.user("user 1").retrieve("is there before", top_k=1)
        assert [hit.content for hit in hits] == ["is there before"]


@pytest.mark.slow  # without its head, Ray may never end what it has begun in this process
async def test_calls_go_on_while_the_head_of_ray_is_away(cluster, memory) -> None:
    """It is the last test here: nothing brings this head back.

    `python -m bench cluster --faults ray-head` has many rounds.
    """
    for user in USERS:
        await memory.user(user).add("is here before")
    cluster.head_node.kill_gcs_server()
    for user in USERS:
        await memory.user(user).add("is here after")
        hits = await memory.user(user).retrieve("is here", top_k=10)
        assert {"is here before", "is here after"} <= {hit.content for hit in hits}
