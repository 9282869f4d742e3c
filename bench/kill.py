"""kill -9 at random moments during concurrent writes: what was acknowledged must be there.

Each round starts a child process (kill_child.py) that opens the store and writes for several users
at once: adds, updates and deletes of four kinds of memory, with prunes, and messages and working
memory. The child reports each acknowledged write on its standard output. The parent kills it at a
random moment, opens the same store, and checks:

- every acknowledged add is there with its content, every acknowledged update has its new content,
  every acknowledged delete is gone (working memory excepted: it may lose its last 50 ms);
- the log verifies: every CRC, every chain, no gap, the anchor;
- each user's state, from snapshot and tail, equals a replay of the whole stream;
- the totals over all users equal the sum of their states.

`beside` is what the child does besides writing:

- "compacting": it compacts all the time, whatever its age, which archives the originals, and puts
  smaller copies of the files in their place. Compressed memories must be in the history with their
  content, read from the archive. "episodes": the same of episodes that have ended. Every other life
  ends a random time after something was compressed, however busy the machine is.
- "keeping": it makes backups and erases other users. "encrypting": the same in a store that is
  encrypted: so keys are made and deleted all the time.
- "erasing": it erases users of whom there is something everywhere. If the erasure of a user was
  acknowledged, or is repeated by the parent, no file may have anything of that user.
- "purging": it purges one of two sources out of user after user, in several appends each. Once that
  was acknowledged, or is repeated by the parent, nothing of that source is left, and all of the
  other's.

kill_closed.py kills work on a closed store.

`kill -9` leaves the system's page cache alone, so this shows that nothing is lost by a dying
process. It says nothing about a dying machine; that is another test.
"""

import asyncio
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from bench.kill_child import (
    BAD,
    COMPACTING,
    FACTS,
    GOOD,
    Beside,
    notes_of,
    open_store,
)
from bench.opened import services_of
from memory_actors import MemorySystem, NotFoundError
from memory_actors.kinds.passages import text_digest

ROOT = Path(__file__).parents[1]
STORE_ROUNDS = 20  # lives of one store: longer, and reading it all again takes most of the time
LIFE_S_MAX = 0.8  # after the first acknowledgement
LONG_LIFE_S_MAX = 2.4  # compaction rests nine tenths of the time while others write
COMPACTED = b'"op": "compacted"'
DECOMPRESSED_MAX = 1 << 20  # bytes of one piece that are looked through
COMPRESSED = ("long_term.compressed", "episodic.compressed")
SAID = ("content", "goal")  # the fields of events in which a memory's content is


class KillReport(msgspec.Struct, frozen=True):
    """The outcome of many rounds."""

    rounds: int
    acknowledged: int
    lost: int
    damaged_logs: int
    diverged_states: int
    compressed: int
    """Memories that summaries stood for at the end."""
    seed: int
    seconds: float

    @property
    def ok(self) -> bool:
        """True if nothing was lost, damaged or diverged."""
        return not (self.lost or self.damaged_logs or self.diverged_states)


@dataclass
class Expected:
    """The promises of acknowledged writes, by user and memory id; None means deleted."""

    content: dict[tuple[str, str], str | None] = field(default_factory=dict)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    erasing: dict[str, bool] = field(default_factory=dict)
    """Users who were to be erased, and whether that was acknowledged."""
    purging: dict[str, bool] = field(default_factory=dict)
    """Users from whom a source was to be purged, and whether that was acknowledged."""
    acknowledged: int = 0

    def take(self, line: dict[str, Any]) -> None:
        """Note one line of the child."""
        key = line["user"], line["id"]
        if line["op"] == "try":  # announced before the call: it may or may not have happened
            self.unsure.add(key)
        elif line["op"] in ("erasing", "erased"):
            self.erasing[line["user"]] = line["op"] == "erased"
        elif line["op"] in ("purging", "purged"):
            self.purging[line["user"]] = line["op"] == "purged"
        elif line["op"] != "compacted":
            self._take_write(key, line)

    def _take_write(self, key: tuple[str, str], line: dict[str, Any]) -> None:
        self.acknowledged += 1
        self.unsure.discard(key)
        self.content[key] = line["content"]
        for evicted in line["evicted"]:
            self.content[line["user"], evicted] = None


def run(rounds: int, seed: int, *, beside: Beside = "writing") -> KillReport:
    """Kill that many times and report; a new store every `STORE_ROUNDS`."""
    started = time.monotonic()
    rng = random.Random(seed)
    acknowledged = lost = damaged = diverged = compressed = 0
    for first in range(0, rounds, STORE_ROUNDS):
        with tempfile.TemporaryDirectory() as scratch:
            store, expected = Path(scratch) / "store", Expected()
            for n in range(first, min(rounds, first + STORE_ROUNDS)):
                awaited = COMPACTED if beside in COMPACTING and n % 2 else b""
                _one_life(store, expected, rng, seed * 1_000_003 + n, beside, awaited)
                result = asyncio.run(check(store, expected, encrypt=beside == "encrypting"))
                lost, damaged = lost + result[0], damaged + result[1]
                diverged += result[2]
                if sys.stderr.isatty():
                    print(f"\rround {n + 1}/{rounds}, lost {lost}", end="", file=sys.stderr)
            acknowledged += expected.acknowledged
            compressed += result[3]
    seconds = time.monotonic() - started
    return KillReport(rounds, acknowledged, lost, damaged, diverged, compressed, seed, seconds)


def command_of(store: Path, seed: int, beside: Beside = "writing") -> list[str]:
    """Return the command of a child that writes until it is killed; run it in `ROOT`."""
    return [sys.executable, "-m", "bench.kill_child", str(store), str(seed), beside]


def _one_life(
    store: Path, expected: Expected, rng: random.Random, seed: int, beside: Beside, awaited: bytes
) -> None:
    """Let a child live for a random time, which begins when it has said what is awaited."""
    command = command_of(store, seed, beside)
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, bufsize=0) as child:
        assert child.stdout is not None
        output = bytearray(child.stdout.readline())
        life_s = rng.uniform(0, LIFE_S_MAX if beside == "writing" else LONG_LIFE_S_MAX)
        until = None if awaited else time.monotonic() + life_s
        os.set_blocking(child.stdout.fileno(), False)
        while (until is None or time.monotonic() < until) and child.poll() is None:
            looked_at = max(0, len(output) - len(awaited))
            output += child.stdout.read() or b""
            if until is None and output.find(awaited, looked_at) >= 0:
                until = time.monotonic() + life_s
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        child.wait()
        os.set_blocking(child.stdout.fileno(), True)
        output += child.stdout.read()
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the child ended by itself with {child.returncode}")
    whole = output[: output.rfind(b"\n") + 1]
    for line in whole.splitlines():
        expected.take(json.loads(line))


async def check(
    store: Path, expected: Expected, *, encrypt: bool = False
) -> tuple[int, int, int, int]:
    """Return lost writes, damaged logs (0 or 1), diverged states, compressed memories."""
    async with open_store(store, encrypt=encrypt) as memory:
        report = await memory.verify()
        diverged = await memory.check_replay()
        lost = 0
        for (user_id, memory_id), content in expected.content.items():
            if (user_id, memory_id) not in expected.unsure:
                lost += not await _kept(memory, user_id, memory_id, content)
        for user_id, memory_id in expected.unsure:
            now = await _content(memory, user_id, memory_id)
            expected.content[user_id, memory_id] = now
        expected.unsure.clear()
        compressed = (await memory.compaction_stats()).originals
        lost += await _still_known(memory, expected.erasing)
        lost += await _not_as_purged(memory, expected.purging)
    lost += _left_of(store, list(expected.erasing))
    expected.erasing.clear()
    expected.purging.clear()
    return lost, not report.ok, len(diverged), compressed


async def _still_known(memory: MemorySystem, erasing: dict[str, bool]) -> int:
    """Finish erasures; return how many had been acknowledged and were none, or have no effect."""
    known = set(await memory.users())
    kept = sum(done and user_id in known for user_id, done in erasing.items())
    for user_id, done in erasing.items():
        if not done:
            await memory.erase(user_id)
        digests = [text_digest(note) for note in notes_of(user_id)]
        kept += int(services_of(memory).embeddings.matrix(digests)[1].any())
    return kept


async def _not_as_purged(memory: MemorySystem, purging: dict[str, bool]) -> int:
    """Finish purges; return how many memories are there too many, or too few."""
    wrong = 0
    for user_id, done in purging.items():
        user = memory.user(user_id)
        if not done:
            await user.purge(BAD)
        held = await user.list_memories(limit=1_000)
        left = [
            one for one in held if BAD in one.content or {o.source for o in one.origins} != {GOOD}
        ]
        wrong += len(left) + abs(len(held) - FACTS - 1)
    return wrong


def _left_of(store: Path, canaries: list[str]) -> int:
    """Return how many of these strings are in a file of a store that is closed."""
    if not canaries:
        return 0
    files = [path.read_bytes() for path in store.rglob("*") if path.is_file()]
    parts = [part for data in files for part in (data, *_decompressed(data))]
    return sum(any(canary.encode() in part for part in parts) for canary in canaries)


def _decompressed(data: bytes) -> Iterator[bytes]:
    for start in re.finditer(rb"\x78[\x01\x5e\x9c\xda]", data):
        with suppress(zlib.error):
            yield zlib.decompressobj().decompress(data[start.start() :], DECOMPRESSED_MAX)


async def _kept(memory: MemorySystem, user_id: str, memory_id: str, content: str | None) -> bool:
    """Say whether an acknowledged write is there.

    A prune that was durable but killed before it was reported has deleted its victims rightly; the
    log then has both, the victim's own events and the prune. The log has the memories that were
    compressed.
    """
    now = await _content(memory, user_id, memory_id)
    if now is None or content is None:
        if now == content:
            return True
        try:
            history = await memory.user(user_id).history(memory_id)
        except NotFoundError:
            return False  # the log has never heard of it
        if history[-1].event in COMPRESSED:
            said = [entry.data.get(name) for entry in history[:-1] for name in SAID]
            return now is None and content in said
        return now is None and history[-1].event.endswith(".pruned")
    return content in now  # an entity's observation, an episode's goal, a document's text


async def _content(memory: MemorySystem, user_id: str, memory_id: str) -> str | None:
    try:
        return (await memory.user(user_id).get(memory_id)).content
    except NotFoundError:
        return None
