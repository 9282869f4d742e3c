"""A forked child whose parent is gone, or has closed the store, opens it and takes it over."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

SCRIPT = textwrap.dedent("""
    import asyncio, os, sys, time
    from memory_actors import MemorySystem
    from support.fakes import FakeEmbedder

    directory, how, end = sys.argv[1:]
    told, tells = os.pipe()

    def opened():
        return MemorySystem.open(directory, embedder=FakeEmbedder(), share=how != "alone")

    async def parent():
        memory = await opened()
        user = memory.user("ada")
        await user.add("likes tea")
        await user.retrieve("tea")
        return memory, user

    async def child():
        if how == "handle":
            await user.add("likes coffee")
            return await user.retrieve("coffee")
        async with opened() as again:
            await again.user("ada").add("likes coffee")
            return await again.user("ada").retrieve("coffee")

    loop = asyncio.new_event_loop()
    memory, user = loop.run_until_complete(parent())
    if os.fork():
        if end == "closed":
            loop.run_until_complete(memory.close())
            os.close(tells)
            os.wait()
        os._exit(0)
    os.close(tells)
    os.read(told, 1)
    if end == "grandchild" and os.fork():
        os.wait()
        os._exit(0)
    print(sorted(hit.content for hit in asyncio.run(child())), flush=True)
    os._exit(0)
""")


@pytest.mark.parametrize(
    ("how", "end"),
    [
        ("shared", "gone"), ("shared", "closed"), ("shared", "grandchild"), ("alone", "closed"),
        ("handle", "gone"),
    ],
)  # fmt: skip
def test_a_forked_child_opens_what_its_parent_has_left(tmp_path: Path, how: str, end: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "memory"), how, end],
        capture_output=True, text=True, timeout=60, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert ran.stdout == "['likes coffee', 'likes tea']\n", ran.stderr
