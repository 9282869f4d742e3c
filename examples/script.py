"""A script without `async`: `memory_actors.sync` has the same calls.

Prints:

    open tasks: 2
    cheapest: Renew the passport
    about travel: Book the ferry to Corsica
    last run: 2026-05-01
    kinds in use: long_term, structured, working
"""

from tempfile import TemporaryDirectory

from memory_actors.sync import MemorySystem

TASKS = {
    "t1": {"title": "Renew the passport", "cost": 140, "done": False},
    "t2": {"title": "Book the ferry", "cost": 310, "done": False},
    "t3": {"title": "Cancel the newspaper", "cost": 0, "done": True},
}


def main() -> None:
    """Keep tasks as documents, notes as long-term memories, and the date of the run."""
    with TemporaryDirectory() as directory, MemorySystem.open(directory) as memory:
        user = memory.user("ada")
        for key, task in TASKS.items():
            user.documents.put("tasks", task, key=key)
        user.add("Book the ferry to Corsica")
        user.add("The passport office opens at nine")
        user.working.set("last_run", "2026-05-01")

        print("open tasks:", user.documents.count("tasks", {"done": False}))
        (cheapest,) = user.documents.find("tasks", {"done": False}, order_by="cost", limit=1)
        print("cheapest:", cheapest.value["title"])
        (hit,) = user.retrieve("travel by sea", memory_type="long_term", top_k=1)
        print("about travel:", hit.content)
        print("last run:", user.working.get("last_run"))
        kinds = sorted({memory.memory_type for memory in user.list_memories()})
        print("kinds in use:", ", ".join(kinds))


main()
