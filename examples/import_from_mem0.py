"""Import memories from another program: here from what mem0's `get_all` returned.

`memory-actors import --from mem0 FILE` does the same on the command line.

Prints:

    would add 3, for ada and bob
    added 3
    added by a second import: 0
    ada: Lives in Bern / Plays the cello
    from: mem0
"""

import asyncio
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from memory_actors import MemorySystem
from memory_actors.interchange import import_from, plan_import

EXPORTED = {
    "results": [
        {"id": "m1", "memory": "Plays the cello", "user_id": "ada", "created_at": "2026-01-05"},
        {"id": "m2", "memory": "Lives in Bern", "user_id": "ada", "created_at": "2026-02-01"},
        {"id": "m3", "memory": "Is vegan", "user_id": "bob", "created_at": "2026-02-03"},
    ]
}


async def main() -> None:
    """Look at a file, import it, and import it once more."""
    with TemporaryDirectory() as directory:
        file = Path(directory) / "mem0.json"
        file.write_text(json.dumps(EXPORTED), "utf-8")
        plan = await plan_import("mem0", file)
        print(f"would add {plan.records}, for {' and '.join(sorted(plan.users))}")
        async with MemorySystem.open(Path(directory) / "memory") as memory:
            print("added", (await import_from(memory, "mem0", file)).added)
            again = await import_from(memory, "mem0", file)
            print("added by a second import:", again.added)
            memories = await memory.user("ada").list_memories()
            print("ada:", " / ".join(memory.content for memory in memories))
            print("from:", memories[0].origins[0].source)


asyncio.run(main())
