"""A process that writes and searches in a store which others have open too, until told to stop.

Before each call it writes down what it is about to do, and after it what came of that, each time
with an fsync: whoever kills it knows what it had been promised. Every call has a text of its own,
by which its events are found in the log.
"""

import asyncio
import json
import os
import random
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from bench.hashed import HashedEmbedder
from memory_actors import Item, MemorySystem
from memory_actors.sharing.address import read_address

USERS = 4
TASKS = 3  # of one process: what they ask is on its way at the same time
PIECES = 3  # of one add_many
SEARCH_EVERY = 8
SETTLED_S = 0.1  # what is closed leaves the loop within its next turns
FACT = 400  # before this many of the thousandths that chance draws, a call adds a fact


class Told:
    """The notes of a process, line by line."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)

    def tell(self, what: str, **more: Any) -> None:
        """Write a line that survives the process, and the machine."""
        line = {"what": what, "at": time.time(), **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")
        os.fsync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class Made(NamedTuple):
    """A call that is to be made."""

    name: str
    call: Callable[[], Awaitable[Any]]
    texts: tuple[str, ...]
    """The texts of its events, one in each."""
    about: str | None = None
    """The memory that it changes or deletes."""


def opened(store: Path) -> Any:
    """Open a store as every process does."""
    return MemorySystem.open(store, embedder=HashedEmbedder(32), alerts=[])


def descriptors() -> list[str]:
    """Return the open files of this process."""
    with os.scandir("/proc/self/fd") as found:
        return sorted(_target(one.path) for one in found)


def _target(path: str) -> str:
    try:
        return str(Path(path).readlink()).partition(":")[0]
    except OSError:  # it was for this very look
        return ""


def work(store: Path, name: str, path: Path, seed: int) -> None:
    """Write and search until SIGTERM, then close."""
    asyncio.run(_work(store, name, path, seed))


async def _work(store: Path, name: str, path: Path, seed: int) -> None:
    told, stop = Told(path), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    before = descriptors()
    try:
        memory = await opened(store)
        await memory.users()
        connected = descriptors()
        writers = [Writer(memory, f"{name}t{n}", told, stop, seed + n) for n in range(TASKS)]
        await asyncio.gather(*(writer.write() for writer in writers))
        if _is_client(memory, store):
            told.tell("files", kind="of a client", before=connected, now=descriptors())
        await memory.close()
        await asyncio.sleep(SETTLED_S)
    except Exception as error:
        told.tell("error", name="open or close", error=type(error).__name__, said=str(error)[:300])
        raise
    told.tell("files", kind="of one that has closed", before=before, now=descriptors())
    told.close()


def _is_client(memory: Any, store: Path) -> bool:
    address = read_address(store)
    owns = getattr(getattr(memory, "_caller", None), "_owned", memory) is not None
    return not owns and address is not None and address.pid != os.getpid()


class Writer:
    """One of the tasks of a process."""

    def __init__(self, memory: Any, name: str, told: Told, stop: asyncio.Event, seed: int):
        self._memory, self._name, self._told, self._stop = memory, name, told, stop
        self._rng = random.Random(seed)
        self._held: list[tuple[int, str]] = []
        """The facts that are there: user, memory."""

    async def write(self) -> None:
        """Make one call after another."""
        number = 0
        while not self._stop.is_set():
            number += 1
            user = self._rng.randrange(USERS)
            await self._tell(self._made(user, f"<{self._name}n{number}>"), user)
            if number % SEARCH_EVERY == 0:
                search = self._user(user).retrieve(f"what is {number}", top_k=3)
                await self._tell(Made("retrieve", lambda search=search: search, ()), user)

    async def _tell(self, made: Made, user: int) -> None:
        call = {"name": made.name, "texts": made.texts, "about": made.about, "user": user}
        self._told.tell("try", **call)
        started_s = time.monotonic()
        try:
            came = await made.call()
        except Exception as error:
            said = str(error)[:300]
            self._told.tell("error", **call, error=type(error).__name__, said=said)
            return
        ids = [one.memory_id for one in came] if isinstance(came, list) else [came.memory_id]
        took_s = time.monotonic() - started_s
        self._told.tell("done", **call, ids=ids, took_s=took_s)
        if made.name in ("add", "add_many"):
            self._held += [(user, one) for one in ids]

    def _user(self, user: int) -> Any:
        return self._memory.user(f"user {user}", session_id=self._name)

    def _made(self, user: int, text: str) -> Made:
        draw = self._rng.randrange(1_000)
        if draw < FACT or not self._held:
            return self._adding(self._user(user), text, draw)
        if draw < FACT + 200:
            return self._changing(text, draw)
        return self._other(self._user(user), text, draw % 4)

    def _adding(self, user: Any, text: str, draw: int) -> Made:
        if draw % 4:
            return Made("add", lambda: user.add(f"fact {text}"), (text,))
        texts = tuple(f"{text[:-1]}p{n}>" for n in range(PIECES))
        items = [Item(content=f"fact {one}") for one in texts]
        return Made("add_many", lambda: user.add_many(items), texts)

    def _changing(self, text: str, draw: int) -> Made:
        owner, memory_id = self._held[self._rng.randrange(len(self._held))]
        user = self._user(owner)
        if draw % 3:
            changed = f"changed {text}"
            return Made(
                "update", lambda: user.update(memory_id, content=changed), (text,), memory_id
            )
        self._held.remove((owner, memory_id))
        return Made("delete", lambda: user.delete(memory_id), (), memory_id)

    def _other(self, user: Any, text: str, kind: int) -> Made:
        if kind == 0:
            key = self._name.partition("g")[0]  # of its place: a user has room for 100
            return Made("working.set", lambda: user.working.set(key, text), (text,))
        if kind == 1:
            return Made("add_message", lambda: user.short_term.add_message(text), (text,))
        if kind == 2:
            return Made("add_entity", lambda: user.entities.add_entity(text, "thing"), (text,))
        put = {"text": text}
        return Made("put", lambda: user.documents.put("papers", put, key=text), (text,))
