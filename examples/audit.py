"""Answer for what an agent remembers: why a memory is there, what was known before, what changed.

Prints:

    added by booking-agent
    changed by support-agent
    deleted by support-agent
    known before the change: Ada flies economy
    known now: nothing
    diff: Ada flies economy -> nothing
    verified events: 3, damaged: 0
"""

import asyncio
from tempfile import TemporaryDirectory

from memory_actors import MemorySystem


async def main() -> None:
    """Write with two agents, then audit what they did."""
    with TemporaryDirectory() as directory:
        async with MemorySystem.open(directory) as memory:
            booking = memory.user("ada", agent_id="booking-agent")
            support = memory.user("ada", agent_id="support-agent")
            memory_id = (await booking.add("Ada flies economy")).memory_id
            before = (await booking.history(memory_id))[-1].position
            await support.update(memory_id, content="Ada flies business")
            await support.delete(memory_id)

            for step in (await support.why(memory_id)).steps:
                print(step.effect, "by", step.agent_id)

            async with memory.replay("ada", as_of=before) as past:
                (known,) = await past.list_memories()
                print("known before the change:", known.content)
            left = await support.list_memories()
            print("known now:", left or "nothing")

            diff = await memory.diff("ada", before)
            for change in diff.changes:
                old = change.before.content if change.before else "nothing"
                new = change.after.content if change.after else "nothing"
                print("diff:", old, "->", new)

            report = await memory.verify()
            print(f"verified events: {report.events}, damaged: {len(report.findings)}")


asyncio.run(main())
