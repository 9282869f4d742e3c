"""Golden stores: one small store of each format there has been, in tests/golden.

    python bench/faults/golden.py STORE ARCHIVE [--encrypt]

writes a store with the code that is on the path. It packs the primary data (the log, its anchor,
the archive, its keys if it is encrypted) with the expected answers, and leaves out derived data. It
uses only the public API of the first version, and `encrypt` on request, so that it also runs over
an old checkout: the stores of older formats were made this way.
"""

import asyncio
import io
import json
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from memory_actors import MemorySystem

GOLDEN = Path(__file__).parents[2] / "tests" / "golden"
TRUTH = ("log.mdb", "log.anchor", "archive")
ANSWERS = "answers.json"
KEYS = "keys"
NOW_US = 1_700_000_000_000_000
USERS = ("ada", "ben")


class Embedder:
    """Gives every text a vector of its own."""

    fingerprint = "golden/1"
    dimension = 8

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return float32 `[len(texts), 8]`, rows of length 1."""
        rows = [np.random.default_rng(len(text)).standard_normal(self.dimension) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], np.float32)

    def background_mean(self) -> npt.NDArray[np.float32]:
        """Return zeros."""
        return np.zeros(self.dimension, np.float32)


def key_file(store: Path) -> Path:
    """Return where the keys of a store are, if it is encrypted."""
    return store.with_name(f"{store.name}.keys")


def opened(store: Path, *, encrypt: bool = False) -> Any:
    """Open a store at a time that stands still; `encrypt` makes a new one encrypted."""
    more: Any = {"encrypt": True} if encrypt or key_file(store).exists() else {}
    return MemorySystem.open(store, embedder=Embedder(), clock=lambda: NOW_US, alerts=[], **more)


# --- writing one


async def write(store: Path, *, encrypt: bool = False) -> None:
    """Write a store with something of every kind, in two lives."""
    for life in range(2):
        async with opened(store, encrypt=encrypt) as memory:
            for user_id in USERS:
                await _write_user(memory.user(user_id, session_id="s"), life)


async def _write_user(user: Any, life: int) -> None:
    for n in range(3):
        name = f"{life}{n}"
        await user.add(f"fact {name} " + "long " * 300 * (n % 2), memory_id=f"fact {name}")
        await user.short_term.add_message(f"message {name}", role="user")
        await user.working.set(f"key {name}", {"value": n})
        await user.documents.put("things", {"n": n}, key=f"thing {name}")
        await user.entities.add_entity(f"Entity {name}", "person", [f"observation {n}"])
    await user.entities.relate(f"Entity {life}0", "knows", f"Entity {life}1")
    started = await user.episodes.start(f"goal {life}")
    await user.episodes.step(started.memory_id, "an action")
    await user.episodes.finish(started.memory_id, "done")
    await user.update(f"fact {life}0", content=f"fact {life}0 has changed")
    await user.delete(f"fact {life}1")


async def answers(store: Path) -> dict[str, Any]:
    """Return a store's answers, in terms that outlast a version."""
    async with opened(store) as memory:
        assert (await memory.verify()).ok
        assert not await memory.check_replay()
        return {user_id: await _answers(memory.user(user_id, session_id="s")) for user_id in USERS}


async def _answers(user: Any) -> dict[str, Any]:
    held = await user.list_memories(limit=1_000)
    history = await user.history("fact 00")
    return {
        "memories": sorted([m.memory_id, str(m.memory_type), m.content] for m in held),
        "working": await user.working.items(),
        "messages": [message.content for message in await user.short_term.messages()],
        "documents": [document.value for document in await user.documents.find("things")],
        "history": [entry.data.get("content") for entry in history],
    }


def pack(store: Path, archive: Path) -> None:
    """Pack the truth of a store, with what it answers."""
    answered = json.dumps(asyncio.run(answers(store)), indent=1, sort_keys=True).encode()
    with tarfile.open(archive, "w:xz") as packed:
        for name in TRUTH:
            if (store / name).exists():
                packed.add(store / name, name)
        if key_file(store).exists():
            packed.add(key_file(store), KEYS)
        info = tarfile.TarInfo(ANSWERS)
        info.size = len(answered)
        packed.addfile(info, io.BytesIO(answered))


def unpack(archive: Path, store: Path) -> dict[str, Any]:
    """Unpack a store; return what it must answer."""
    with tarfile.open(archive) as packed:
        # Python 3.11 learnt to filter in its fourth release; what is unpacked here is our own.
        packed.extraction_filter = getattr(tarfile, "data_filter", None)
        packed.extractall(store)
    expected: dict[str, Any] = json.loads((store / ANSWERS).read_bytes())
    (store / ANSWERS).unlink()
    if (store / KEYS).exists():
        (store / KEYS).rename(key_file(store))
    return expected


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), encrypt="--encrypt" in sys.argv[3:]))
    pack(Path(sys.argv[1]), Path(sys.argv[2]))
