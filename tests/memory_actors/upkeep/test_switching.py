"""Another embedding model for a store in use: old answers meanwhile, resumed, nothing twice."""

import asyncio
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.llm_server import Server

from eventlog import DiskFull
from memory_actors import (
    EmbedderError,
    InvalidInputError,
    Item,
    MemorySystem,
    ModelMismatchError,
)
from memory_actors.search.embedding.service import NAME
from memory_actors.search.embedding.vector_table import VectorTable

pytestmark = pytest.mark.anyio

FACTS = [f"Fact {number} is about the number {number}." for number in range(150)]
CELLO = "Ada plays the cello."


def embedded(server: Server, bodies: list[Any] | None = None) -> Counter[str]:
    """How often each memory was embedded by the served model."""
    texts = [text for body in bodies or server.bodies for text in body["input"]]
    return Counter(text for text in texts if text in {*FACTS, CELLO})


def url(server: Server) -> str:
    return f"{server.url}/embeddings#mine"


async def filled(path: Path) -> None:
    async with MemorySystem.open(path) as memory:
        await memory.user("ada").add_many([Item(content=one) for one in (*FACTS[:100], CELLO)])
        await memory.user("bob").add_many([Item(content=one) for one in FACTS[100:]])


def models_of(memory: Any) -> set[bytes]:
    """The models that have rows on disk."""
    disk = memory._services.embeddings.disk
    with disk._env.read() as txn, txn.cursor(txn.tables["places"]) as cursor:
        return {key[:8] for key in cursor.iternext(keys=True, values=False)}


async def test_old_vectors_answer_until_the_new_model_has_them_all(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        ada, seen = memory.user("ada"), list[tuple[int, int]]()

        async def progress(done: int, total: int) -> None:
            seen.append((done, total))
            hits = await ada.retrieve(f"Who plays the cello? {done}")
            assert hits[0].content == CELLO
            if done == 64:
                await ada.add("Ada was added meanwhile.")

        done = await memory.switch_model(url(server), progress=progress)

        asked = [text for body in server.bodies for text in body["input"]]
        assert not [text for text in asked if "cello?" in text]  # the old model embedded these
        assert "Ada was added meanwhile." in asked
        assert set(embedded(server).values()) == {1}
        assert (done.embedder, done.embedded, done.failed) == (url(server), 152, 0)
        assert seen[0][1] == 151
        assert seen[-1] == (152, 152)
        assert len(models_of(memory)) == 1
        before = len(server.bodies)

        hits = await ada.retrieve("Who plays the cello?")

        assert hits[0].content == CELLO
        [body] = server.bodies[before:]
        assert body["input"] == ["Who plays the cello?"]
        assert memory.statistics().passages_wanting == 0


async def test_a_store_opens_with_the_model_it_was_switched_to(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        await memory.switch_model(url(server))
    server.bodies.clear()

    async with MemorySystem.open(tmp_path / "m") as memory:
        hits = await memory.user("ada").retrieve("Who plays the cello?")

    assert hits[0].content == CELLO
    assert not embedded(server)
    assert "Who plays the cello?" in [text for body in server.bodies for text in body["input"]]
    with pytest.raises(ModelMismatchError, match="model switch"):
        await MemorySystem.open(tmp_path / "m", embedder="default")


async def test_a_switch_that_was_killed_goes_on_where_it_stopped(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    answered = 400 // 64 + 1 + 2  # the mean of general text, the dimension, and a batch
    server.script = [("embeds",)] * answered + [("hangs",)]
    command = [
        sys.executable, "-m", "memory_actors.cli", "--data", str(tmp_path / "m"), "--json",
        "model", "switch", url(server),
    ]  # fmt: skip
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while server.script:
        assert child.poll() is None, child.communicate()
        time.sleep(0.05)
    child.send_signal(signal.SIGKILL)
    child.communicate()
    killed = embedded(server, server.bodies[:answered])
    assert 0 < len(killed) < 151

    async with MemorySystem.open(tmp_path / "m", embedder="default") as memory:
        assert (await memory.user("ada").retrieve("Who plays the cello?"))[0].content == CELLO
    server.bodies.clear()
    done = subprocess.run(command, check=True, capture_output=True)

    assert set((embedded(server) + killed).values()) == {1}
    assert msgspec.json.decode(done.stdout)["embedded"] == 151 - len(killed)


async def test_a_model_that_does_not_answer_leaves_the_store_as_it_was(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        server.script = [("embeds",), *[("fails", 401)] * 100]
        with pytest.raises(EmbedderError, match="401"):
            await memory.switch_model(url(server))
        with pytest.raises(InvalidInputError, match="embedder must be"):
            await memory.switch_model("klingon")
        assert (await memory.user("ada").retrieve("Who plays the cello?"))[0].content == CELLO


async def test_a_switch_that_is_cancelled_leaves_the_store_as_it_was(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        begun = asyncio.Event()
        switching = asyncio.create_task(
            memory.switch_model(url(server), progress=lambda _done, _total: begun.set())
        )
        await begun.wait()
        switching.cancel()
        with pytest.raises(asyncio.CancelledError):
            await switching
        before = len(server.bodies)
        assert (await memory.user("ada").retrieve("Who plays the cello?"))[0].content == CELLO
        assert len(server.bodies) == before
        await memory.switch_model(url(server))
        assert set(embedded(server).values()) == {1}


async def test_a_client_switches_the_model_of_the_owner(tmp_path: Path, server: Server) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        script = f"""
import asyncio, sys
from memory_actors import MemorySystem
async def main():
    async with MemorySystem.open({str(tmp_path / "m")!r}) as memory:
        done = await memory.switch_model({url(server)!r}, progress=lambda *far: print(*far))
        print(done.embedded, type(memory).__mro__[1].__name__)
asyncio.run(main())
"""
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE
        )
        said = (await child.communicate())[0].decode().splitlines()
        assert said[-1] == "151 RemoteSystem"
        assert said[-2] == "151 151"
        named = MemorySystem.open(tmp_path / "m", embedder=url(server))
        async with named as again:
            assert await again.users() == ["ada", "bob"]
        assert memory.statistics().embeddings.computed > 0


async def test_a_text_that_the_model_refuses_holds_up_no_other(
    tmp_path: Path, server: Server
) -> None:
    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        await memory.user("eve").add("A text alone.")
        server.refused = "A text alone."

        done = await memory.switch_model(url(server))

        assert (done.embedded, done.failed) == (151, 1)


async def test_an_encrypted_store_is_switched_and_a_user_erased(
    tmp_path: Path, server: Server
) -> None:
    opening = MemorySystem.open(tmp_path / "m", encrypt=True)
    async with opening as memory:
        ada, bob = memory.user("ada"), memory.user("bob")
        for user in (ada, bob):
            await user.add(CELLO)
        done = await memory.switch_model(url(server))
        assert done.embedded == 2  # each user has vectors of their own
        assert (await ada.retrieve("Who plays the cello?"))[0].content == CELLO
        assert (await memory.erase("ada")).embeddings == 1
        assert len(models_of(memory)) == 1
    async with MemorySystem.open(tmp_path / "m", encrypt=True) as memory:
        assert (await memory.user("bob").retrieve("Who plays the cello?"))[0].content == CELLO


async def test_a_full_disk_that_takes_no_name_of_the_model_stops_no_opening(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: VectorTable, facts: Any) -> None:
        raise DiskFull("no room")

    await filled(tmp_path / "m")
    async with MemorySystem.open(tmp_path / "m") as memory:
        memory._services.embeddings.disk.set_facts({NAME: b"as in an older store"})
    monkeypatch.setattr(VectorTable, "set_facts", full)
    async with MemorySystem.open(tmp_path / "m", embedder="default") as memory:
        assert (await memory.user("ada").retrieve("Who plays the cello?"))[0].content == CELLO
