"""kill -9 at random moments during concurrent writes: what was acknowledged must be there.

Each round starts a child process that opens the store and writes for several users at once: adds,
updates and deletes of four kinds of memory, with prunes, and messages and working memory. The child
reports each acknowledged write on its standard output, one JSON line each, after the
acknowledgement. The parent kills it at a random moment, opens the same store, and checks:

- every acknowledged add is there with its content, every acknowledged update has its new content,
  every acknowledged delete is gone (working memory excepted: it may lose its last 50 ms);
- the log verifies: every CRC, every chain, no gap, the anchor;
- each user's state, from snapshot and tail, equals a replay of the whole stream;
- the totals over all users equal the sum of their states.

With `beside="compacting"` the child also compacts all the time, whatever its age, which archives
the originals, and puts smaller copies of the files in their place. What was compressed must be in
the history with its content, read from the archive. With `beside="keeping"` it makes backups and
erases other users. With `beside="encrypting"` it does so in a store that is encrypted: so keys are
made and deleted all the time.

`kill -9` leaves the system's page cache alone, so this shows that nothing is lost by a dying
process. It says nothing about a dying machine; that is another test.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from bench.hashed import HashedEmbedder
from bench.opened import services_of
from memory_actors import Item, Limits, MemorySystem, NotFoundError, Plan, Settings, Tier
from memory_actors.compaction.clusters import dbscan

ROOT = Path(__file__).parents[1]
USERS = 8
STORE_ROUNDS = 20  # lives of one store: longer, and reading it all again takes most of the time
LIFE_S_MAX = 0.8  # after the first acknowledgement
LONG_LIFE_S_MAX = 2.4  # compaction rests nine tenths of the time while others write
LIMITS = Limits(
    long_term_memories=300, short_term_messages=20, working_keys=10, entities=60, episodes=40,
    documents=50,
)  # fmt: skip
Beside = Literal["writing", "compacting", "keeping", "encrypting"]
"""What the child does besides writing."""
KINDS = ("long_term", "long_term", "long_term", "entity", "episodic", "structured")


class Alike(HashedEmbedder):
    """Texts of like length are alike, so that there is something to compact."""

    def _row(self, text: str) -> npt.NDArray[np.float32]:
        topic = np.random.default_rng(len(text) // 100).standard_normal(self.dimension, np.float32)
        return topic + np.float32(0.2) * super()._row(text)


class KillReport(msgspec.Struct, frozen=True):
    """What many rounds came to."""

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
        """Whether nothing was lost, damaged or diverged."""
        return not (self.lost or self.damaged_logs or self.diverged_states)


@dataclass
class Expected:
    """What acknowledged writes promise, by user and memory id; None means deleted."""

    content: dict[tuple[str, str], str | None] = field(default_factory=dict)
    unsure: set[tuple[str, str]] = field(default_factory=set)
    acknowledged: int = 0

    def take(self, line: dict[str, Any]) -> None:
        """Note one line of the child."""
        key = line["user"], line["id"]
        if line["op"] == "try":  # announced before the call: it may or may not have happened
            self.unsure.add(key)
            return
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
                _one_life(store, expected, rng, seed * 1_000_003 + n, beside)
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
    return [sys.executable, "-m", "bench.kill", str(store), str(seed), beside]


def _one_life(
    store: Path, expected: Expected, rng: random.Random, seed: int, beside: Beside
) -> None:
    command = command_of(store, seed, beside)
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, bufsize=0) as child:
        assert child.stdout is not None
        first = child.stdout.readline()
        longest_s = LIFE_S_MAX if beside == "writing" else LONG_LIFE_S_MAX
        until = time.monotonic() + rng.uniform(0, longest_s)
        os.set_blocking(child.stdout.fileno(), False)
        output = bytearray(first)
        while time.monotonic() < until and child.poll() is None:
            output += child.stdout.read() or b""
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
    async with _open(store, encrypt=encrypt) as memory:
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
    return lost, not report.ok, len(diverged), compressed


async def _kept(memory: MemorySystem, user_id: str, memory_id: str, content: str | None) -> bool:
    """Say whether an acknowledged write is there.

    A prune that was durable but killed before it was reported has deleted its victims rightly; the
    log then has both, the victim's own events and the prune. What was compressed is in the log.
    """
    now = await _content(memory, user_id, memory_id)
    if now is None or content is None:
        if now == content:
            return True
        try:
            history = await memory.user(user_id).history(memory_id)
        except NotFoundError:
            return False  # the log has never heard of it
        if history[-1].event == "long_term.compressed":
            said = [entry.data.get("content") for entry in history[:-1]]
            return now is None and content in said
        return now is None and history[-1].event.endswith(".pruned")
    return content in now  # an entity's observation, an episode's goal, a document's text


async def _content(memory: MemorySystem, user_id: str, memory_id: str) -> str | None:
    try:
        return (await memory.user(user_id).get(memory_id)).content
    except NotFoundError:
        return None


def _open(store: Path, *, encrypt: bool) -> Any:
    settings = Settings(tiers={Tier.PRO: Plan(limits=LIMITS)})
    # Alerts would be logged to the standard output, which is the child's report.
    return MemorySystem.open(store, embedder=Alike(), settings=settings, alerts=[], encrypt=encrypt)


# --- the child


async def _live(store: Path, seed: int, beside: str) -> None:
    if beside == "compacting":
        dbscan(np.eye(8, dtype=np.float32), 0.3, 2)  # what it loads would take most of a short life
    async with _open(store, encrypt=beside == "encrypting") as memory:
        writers = [_write(memory, n % USERS, seed + n) for n in range(3 * USERS)]
        others = {"compacting": _compact, "keeping": _keep, "encrypting": _keep}
        await asyncio.gather(*writers, *([others[beside](memory)] if beside in others else []))


async def _compact(memory: MemorySystem) -> None:
    """Compact, archive and shrink until killed."""
    while True:
        await memory.compact(older_than="0h")
        await services_of(memory).log.shrink(force=True)


async def _keep(memory: MemorySystem) -> None:
    """Make backups and erase users until killed."""
    for n in range(1_000_000):
        user = memory.user(f"passing {n}")
        await user.add_many([Item(content=f"in passing {n} {each} " * 20) for each in range(5)])
        with tempfile.TemporaryDirectory() as scratch:
            await memory.backup(Path(scratch) / "backup")
        await memory.erase(user.user_id)


async def _write(memory: MemorySystem, number: int, seed: int) -> None:
    """Write for one user until killed; several writers share each user."""
    rng, user_id = random.Random(seed), f"user {number}"
    user = memory.user(user_id, session_id=f"session {rng.randrange(3)}")
    mine: list[str] = []
    for n in range(1_000_000):
        content = f"memory {seed} {n} " + "word " * rng.choice([1, 20, 600])
        choice = rng.random()
        if choice < 0.15 and mine:
            memory_id = mine.pop(rng.randrange(len(mine)))
            await _announced(user_id, memory_id, user.delete(memory_id), None)
        elif choice < 0.3 and mine:
            memory_id = rng.choice(mine)
            await _announced(user_id, memory_id, user.update(memory_id, content=content), content)
        elif choice < 0.5:
            await user.short_term.add_message(content)
        elif choice < 0.6:
            await user.working.set(f"key {rng.randrange(30)}", n, auto_prune=True)
        else:
            kind = rng.choice(KINDS)
            named = {"key": f"{seed} {n}"} if kind == "entity" else {}
            receipt = await user.add_with_auto_prune(content, kind, **named)
            mine.append(receipt.memory_id)
            _say("add", user_id, receipt.memory_id, content, receipt.pruned)


async def _announced(user_id: str, memory_id: str, call: Any, content: str | None) -> None:
    """Report a change before and after it, for in between it may or may not have happened."""
    _say("try", user_id, memory_id, None, ())
    try:
        await call
    except NotFoundError:  # pruned by another writer of this user
        return
    _say("done", user_id, memory_id, content, ())


def _say(op: str, user_id: str, memory_id: str, content: str | None, evicted: Any) -> None:
    line = {"op": op, "user": user_id, "id": memory_id, "content": content, "evicted": evicted}
    os.write(1, json.dumps(line).encode() + b"\n")


if __name__ == "__main__":
    asyncio.run(_live(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
