"""The weight of one live user in a fresh process.

`python -m bench.weigh STORE USER SMALL_USER` opens a store, lets a small user warm up code and
caches, then activates the user, waits until nothing is done in the background, and searches once.
The growth of the process is the user's weight.
"""

import asyncio
import subprocess
import sys
from pathlib import Path

import msgspec
import psutil
import structlog

from bench.hashed import HashedPieces
from bench.opened import at_rest, live_user, opened
from bench.users import anonymous_bytes
from memory_actors import MemorySystem
from memory_actors.kinds import long_term
from memory_actors.users.live_user import LiveUser

VECTORS, WORDS, TOKENS, OTHER, ROWS = (
    "vectors, graph", "keyword index", "token states", "traits, labels", "rows",
)  # fmt: skip
PARTS = (VECTORS, WORDS, TOKENS, OTHER, ROWS)
QUERY = "who gave up the violin, and when"


class Weight(msgspec.Struct, frozen=True):
    """The report of the process about itself."""

    resident_bytes: int
    """Growth, with pages of files that are mapped."""
    anonymous_bytes: int
    """Growth without them."""
    parts: dict[str, int]
    """The estimate, by PARTS."""


def weighed(store: Path, user_id: str, small_user_id: str) -> Weight:
    """Weigh a user in a process of its own."""
    command = [sys.executable, "-m", "bench.weigh", str(store), user_id, small_user_id]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Weight)


async def _main(store: Path, user_id: str, small_user_id: str) -> None:
    async with opened(store, HashedPieces()) as memory:
        await _used(memory, small_user_id)
        anonymous, resident = anonymous_bytes(), psutil.Process().memory_info().rss
        await _used(memory, user_id)
        grown = anonymous_bytes() - anonymous
        resident = psutil.Process().memory_info().rss - resident
        async with live_user(memory, user_id) as live:
            weight = Weight(resident, grown, _parts(live))
    sys.stdout.buffer.write(msgspec.json.encode(weight))


async def _used(memory: MemorySystem, user_id: str) -> None:
    """Activate a user, wait until all is read that is held, and search as a caller would."""
    await memory.user(user_id).usage()
    await at_rest(memory, user_id)
    await memory.user(user_id).retrieve(QUERY, memory_types=["long_term"], top_k=10)
    await at_rest(memory, user_id)


def _parts(live: LiveUser) -> dict[str, int]:
    index = live.indexes.get(long_term.KIND)
    assert index is not None
    parts = {
        VECTORS: index.dense.size_bytes,
        WORDS: index.words.size_bytes,
        TOKENS: index.late.size_bytes,
    }
    parts[OTHER] = live.indexes.size_bytes - sum(parts.values())
    parts[ROWS] = live.size_bytes - live.indexes.size_bytes
    return parts


if __name__ == "__main__":
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    asyncio.run(_main(Path(sys.argv[1]), *sys.argv[2:]))
