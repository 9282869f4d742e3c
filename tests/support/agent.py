"""An agent: a process that opens a store with parts of its own, fills it, and keeps it open."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from memory_actors import Conversation, MemorySystem, Settings
from support.compacting import SHORT, some
from support.fakes import FakeEmbedder

TESTS = Path(__file__).parents[1]
SETTINGS = Settings(check_replay=True, compaction_min_samples=2, review="untrusted")


def said(conversation: Conversation) -> list[str]:
    """Return a fact for each message."""
    return [f"Ada said: {one.text}" for one in conversation.messages]


async def filled(memory: MemorySystem) -> dict[str, str]:
    """Fill a store with what commands can be about; return the ids of that."""
    ada = memory.user("ada", session_id="s1")
    for name in ("Ada", "Tea", "Coffee"):
        await ada.entities.add_entity(name, "thing")
    related = await ada.entities.relate("Ada", "likes", "Tea")
    episode = await ada.episodes.start("book a trip")
    await ada.documents.put("notes", {"price": 3}, key="one")
    await ada.documents.put("notes", {"price": 4}, key="two")
    ids = {
        "related": related.memory_id,
        "episode": episode.memory_id,
        "other episode": (await ada.episodes.start("write a book")).memory_id,
        "tea": (await ada.add("likes tea")).memory_id,
        "deleted": (await ada.add("likes cake")).memory_id,
        "gone": (await ada.add("likes rain")).memory_id,
    }
    await ada.from_source("web").add("is very rich")
    await ada.delete(ids["deleted"])
    ids["mud"] = (await ada.add("likes mud")).memory_id
    await ada.forget((await ada.add("likes fog")).memory_id)
    for name in ("edited", "removed", "archived", "restored", "pinned"):
        ids[name] = (await ada.context.add("", f"This one is {name}")).entry_ids[0]
    await ada.context.archive([ids["restored"]])
    for user in ("bob", "cid"):
        await memory.user(user).add_many(some("fixed the login bug of the web page", 5))
        await memory.compact(user)
        (summary,) = await memory.user(user).list_memories()
        ids[f"summary of {user}"] = summary.memory_id
    await memory.user("eve").add("is to be forgotten")
    for name in ("waiting", "doubtful"):
        ids[name] = (await ada.from_source("mail", "untrusted").add(f"is {name}")).memory_id
    await memory.user("fay").grant("cid")
    ids["hold"] = (await memory.user("dan").hold("a case")).hold_id
    await ada.short_term.add_message("I like tea", role="user")
    ids["extraction"] = (await ada.extract()).extraction_id or ""
    return ids


async def live(directory: str, encrypt: str) -> None:
    """Hold a store open until standard input ends."""
    async with MemorySystem.open(
        directory, embedder=FakeEmbedder(), summarizer=SHORT, settings=SETTINGS,
        extractor=said, encrypt=encrypt == "encrypted",
    ) as memory:  # fmt: skip
        print(json.dumps(await filled(memory)), flush=True)
        await asyncio.to_thread(sys.stdin.read)


@contextmanager
def agent(directory: Path | str, kind: str = "plain") -> Iterator[tuple[int, dict[str, str]]]:
    """Run an agent in a process of its own; yield its pid, and ids of what is in its store."""
    code = f"import sys; sys.path[:0] = {[str(TESTS), str(TESTS.parent)]!r}\n"
    code += "import asyncio; from support.agent import live; asyncio.run(live(*sys.argv[1:]))"
    command = [sys.executable, "-c", code, str(directory), kind]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            yield process.pid, json.loads(process.stdout.readline())
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(30) == 0
        finally:
            process.kill()
