"""A node of a cluster: a process that opens the store, and whose workers call it until SIGTERM.

Every write has a text of its own, by which its event is found in the log. A worker changes and
deletes only what it wrote itself, and reads what anybody wrote. A node repeats the unanswered calls
with an idempotency key of the node before it in this place.
"""

import asyncio
import os
import random
import signal
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec

from bench.cluster.journal import Board, Journal, Line, Thing, lines
from bench.hashed import HashedEmbedder
from eventlog.core import frame
from eventlog.core.records import ANY_VERSION
from eventlog.core.requests import AppendRequest
from eventlog.postgres.plan import BatchPlan
from memory_actors import MemorySystem, NotFoundError, Settings
from memory_actors.sharing.address import Address
from memory_actors.sharing.nodes import opening
from memory_actors.sharing.nodes.peers import listening_for_peers
from memory_actors.sharing.nodes.placement import LeasedPlacement

Without = Literal["fence", "lease"] | None
"""The protection that a control runs without."""
PAPERS = "papers"
HELD_MAX = 30  # memories of one worker, before it deletes one for each that it adds
US = 1_000_000


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """The configuration of a node."""

    url: str
    name: str
    directory: Path
    """Of the journals."""
    before: str | None
    """The name of the node before in this place."""
    listens_at: int
    reached_at: int
    """The port of the proxy through which other nodes come."""
    users: tuple[str, ...]
    workers: tuple[int, ...]
    """The numbers of its workers among those of all nodes."""
    workers_in_all: int
    pause_s: float
    """Between two calls of a worker, at the mean."""
    seed: int
    clock_off_s: float = 0.0
    without: Without = None


def opened(url: str, **more: Any) -> Any:
    """Open the store as every node does."""
    return MemorySystem.open(
        url,
        embedder=HashedEmbedder(32),
        settings=Settings(latency_targets_ms={}),
        supersedes=False,
        alerts=[],
        **more,
    )


def serve(config: Config) -> None:
    """Open the store, and call it until SIGTERM; then close in good order."""
    os.environ["XDG_CACHE_HOME"] = str(config.directory / "cache")
    opening.listening_for_peers = partial(_reached_through, config)
    if config.without == "fence":
        BatchPlan.add = _unfenced(BatchPlan.add)  # type: ignore[method-assign]
    elif config.without == "lease":
        LeasedPlacement.is_vouched = lambda _: True  # type: ignore[method-assign]
        LeasedPlacement._lapsed = lambda _: None  # type: ignore[method-assign]  # noqa: SLF001
    asyncio.run(_serve(config))


def _reached_through(
    config: Config, host: str, port: int, settings: Mapping[str, str]
) -> tuple[socket.socket, Address]:
    unused, address = listening_for_peers(host, port, settings)
    unused.close()
    found = socket.create_server((host, config.listens_at))
    return found, msgspec.structs.replace(address, port=config.reached_at)


def _unfenced(add: Callable[[BatchPlan, AppendRequest], None]) -> Callable[..., None]:
    """Have every append pass, whatever its node believed: its epoch and version are the newest."""

    def pass_on(plan: BatchPlan, request: AppendRequest) -> None:
        epoch = plan.believed[frame.stream_id(request.stream)].epoch
        add(plan, msgspec.structs.replace(request, epoch=epoch, expected_version=ANY_VERSION))

    return pass_on


async def _serve(config: Config) -> None:
    stop = asyncio.Event()
    journal = Journal(config.directory / config.name)
    off_us = int(config.clock_off_s * US)
    async with opened(config.url, clock=lambda: time.time_ns() // 1000 + off_us) as memory:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        journal.note("began")
        workers = [Worker(memory, config, journal, number) for number in config.workers]
        before = _unanswered(config)
        await asyncio.gather(*(one.work(stop, before[at::4]) for at, one in enumerate(workers)))
    journal.note("ended")


def _unanswered(config: Config) -> list[Line]:
    """Return the writes with a key of the node before that were not answered."""
    noted = [] if config.before is None else lines(config.directory / config.before)
    answered = {line.call for line in noted if line.what == "done"}
    return [
        line for line in noted if line.what == "try" and line.keyed and line.call not in answered
    ]


class Worker:
    """Makes one call after another."""

    def __init__(self, memory: Any, config: Config, journal: Journal, number: int):
        self._memory, self._config, self._journal, self._number = memory, config, journal, number
        self._rng = random.Random(f"{config.seed} {config.name} {number}")
        self._board = Board(config.directory / "board", config.workers_in_all)
        self._held: list[Thing] = []
        self._calls = 0

    async def work(self, stop: asyncio.Event, before: list[Line]) -> None:
        """Ask again what was not answered; then write and read until it is time to stop."""
        for line in before:
            await self._add(line.user, line.token or "", keyed=True)
        while not stop.is_set():
            await asyncio.sleep(self._rng.uniform(0, 2 * self._config.pause_s))
            await (self._write() if self._rng.random() < 0.45 else self._read())

    # --- writing

    async def _write(self) -> None:
        self._calls += 1
        token = f"{self._config.name}w{self._number}c{self._calls}"
        user, draw = self._rng.choice(self._config.users), self._rng.random()
        key = f"of{self._number}"
        if self._held and (len(self._held) >= HELD_MAX or draw < 0.15):
            await self._delete(self._held.pop(self._rng.randrange(len(self._held))))
        elif self._held and draw < 0.35:
            await self._update(self._rng.randrange(len(self._held)), token)
        elif draw < 0.5:
            setting = partial(self._memory.user(user).working.set, key, token)
            await self._written("working.set", Thing(user, "working", key, token), setting)
        elif draw < 0.6:
            documents = self._memory.user(user).documents
            putting = partial(documents.put, PAPERS, {"text": token}, key=key)
            await self._written("documents.put", Thing(user, "document", key, token), putting)
        elif draw < 0.7:
            adding = partial(self._memory.user(user).entities.add_entity, token)
            await self._written("entities.add", Thing(user, "entity", token, token), adding)
        else:
            await self._add(user, token, keyed=self._rng.random() < 0.5)

    async def _add(self, user: str, token: str, *, keyed: bool) -> None:
        key = token if keyed else None
        adding = partial(self._memory.user(user).add, f"fact {token}", idempotency_key=key)
        thing = Thing(user, "memory", "", token)
        memory_id = await self._written("add", thing, adding, keyed=keyed)
        if memory_id is None:
            return
        if keyed and self._rng.random() < 0.1:
            await self._written("add", thing, adding, keyed=True)
        self._held.append(Thing(user, "memory", memory_id, token))
        self._board.show(self._number, self._held[-1])

    async def _update(self, at: int, token: str) -> None:
        held = self._held[at]
        changed = Thing(held.user, "memory", held.ref, token)
        changing = partial(self._memory.user(held.user).update, held.ref, content=f"fact {token}")
        if await self._written("update", changed, changing) is None:
            self._held.remove(held)
        else:
            self._held[at] = changed

    async def _delete(self, held: Thing) -> None:
        deleting = partial(self._memory.user(held.user).delete, held.ref)
        await self._written("delete", held, deleting)

    async def _written(
        self, name: str, thing: Thing, call: Callable[[], Awaitable[Any]], *, keyed: bool = False
    ) -> str | None:
        self._calls += 1
        said = {
            "call": f"w{self._number}c{self._calls}", "name": name, "user": thing.user,
            "kind": thing.kind, "token": thing.token, "keyed": keyed,
        }  # fmt: skip
        self._journal.note("try", ref=thing.ref, **said)
        from_s = time.monotonic()
        try:
            receipt = await call()
        except Exception as error:
            self._fail(from_s, error, said)
            return None
        memory_id: str = receipt.memory_id
        ref = memory_id if thing.kind == "memory" else thing.ref
        self._journal.note("done", ref=ref, from_s=from_s, **said)
        if thing.kind != "memory":
            self._board.show(self._number, thing)
        return memory_id

    def _fail(self, from_s: float, error: Exception, said: dict[str, Any]) -> None:
        text = f"{type(error).__name__}: {error}"[:300]
        self._journal.note("error", from_s=from_s, said=text, **said)

    # --- reading

    async def _read(self) -> None:
        thing = self._board.look(self._rng.randrange(1 << 30))
        if thing is None:
            return
        user, kind = self._memory.user(thing.user), thing.kind
        if kind == "working":
            await self._seen("working.get", thing, lambda: user.working.get(thing.ref))
        elif kind == "document":
            await self._seen("documents.get", thing, lambda: _document(user, thing.ref))
        elif kind == "entity":
            await self._seen("entities.get", thing, lambda: _entity(user, thing.ref))
        elif self._rng.random() < 0.4:
            await self._seen("retrieve", thing, lambda: _retrieved(user, thing), said=thing.token)
        else:
            await self._seen("get", thing, lambda: _memory(user, thing.ref))

    async def _seen(
        self,
        name: str,
        thing: Thing,
        call: Callable[[], Awaitable[str | None]],
        said: str = "",
    ) -> None:
        asked = {"name": name, "user": thing.user, "kind": thing.kind, "ref": thing.ref}
        from_s = time.monotonic()
        try:
            token = await call()
        except NotFoundError:
            token = None
        except Exception as error:
            self._fail(from_s, error, asked)
            return
        self._journal.note("read", from_s=from_s, token=token, said=said, **asked)


async def _document(user: Any, key: str) -> str:
    found: str = (await user.documents.get(key, PAPERS)).value["text"]
    return found


async def _entity(user: Any, name: str) -> str:
    found: str = (await user.entities.get(name)).name
    return found


async def _memory(user: Any, memory_id: str) -> str:
    return token_of((await user.get(memory_id)).content)


async def _retrieved(user: Any, thing: Thing) -> str | None:
    """Search for the text of a memory; return what it says now, None if it was not found."""
    hits = await user.retrieve(f"fact {thing.token}", memory_types=["long_term"], top_k=10)
    return next((token_of(hit.content) for hit in hits if hit.memory_id == thing.ref), None)


def token_of(content: str) -> str:
    """Return the text that a fact was made of."""
    return content.removeprefix("fact ")
