"""A program that embeds the memory has its standard output for itself."""

import subprocess
import sys
from pathlib import Path

PROGRAM = """
import asyncio, sys
sys.path.insert(0, {support!r})
from support.fakes import FakeEmbedder
from memory_actors import Limits, MemorySystem, Plan, Settings, Tier

async def main():
    tiers = {{Tier.LOCAL: Plan(limits=Limits(long_term_memories=2, short_term_messages=2))}}
    settings = Settings(tiers=tiers)
    async with MemorySystem.open({store!r}, embedder=FakeEmbedder(), settings=settings) as memory:
        user = memory.user("ada", session_id="s")
        for n in range(4):
            await user.short_term.add_message(f"message {{n}}")
        print("a ring that is full", file=sys.stderr)
        await user.add("likes tea")
        await user.add("likes cake")
    print("done")

asyncio.run(main())
"""


def test_alerts_are_logged_to_the_standard_error(tmp_path: Path) -> None:
    """Alerts are logged to the standard error, and a full ring is none."""
    support = str(Path(__file__).parents[2])
    code = PROGRAM.format(support=support, store=str(tmp_path / "memory"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout == "done\n"
    alerts = [line for line in done.stderr.splitlines() if "quota alert" in line]
    assert alerts
    assert all("long_term.memories" in line for line in alerts)
