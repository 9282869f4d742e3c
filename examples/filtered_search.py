"""Search with filters: metadata, time, a threshold, and the reasons for a rank.

Prints:

    no filter: Table for two at the sushi bar
    category is hotel: The room at the Grand was too loud
    cost at most 40: Lunch at the noodle shop
    in March: Table for two at the sushi bar
    hotels and trains: 2
    has signals: True
"""

import asyncio
from tempfile import TemporaryDirectory

from memory_actors import Item, MemorySystem

NOTES = (
    ("Table for two at the sushi bar", "2026-03-02", {"category": "food", "cost": 90}),
    ("Lunch at the noodle shop", "2026-04-11", {"category": "food", "cost": 24}),
    ("The room at the Grand was too loud", "2026-04-12", {"category": "hotel", "cost": 210}),
    ("Night train to Vienna, lower berth", "2026-05-01", {"category": "train", "cost": 120}),
)
QUESTION = "Where did we have sushi?"


async def main() -> None:
    """Ask one question with different filters."""
    with TemporaryDirectory() as directory:
        async with MemorySystem.open(directory) as memory:
            user = memory.user("ada")
            await user.add_many(
                [Item(content=text, occurred_at=day, metadata=data) for text, day, data in NOTES]
            )
            asked = {
                "no filter": {},
                "category is hotel": {"filters": {"category": "hotel"}},
                "cost at most 40": {"filters": {"cost": {"lte": 40}}},
                "in March": {"since": "2026-03-01", "until": "2026-04-01"},
            }
            for name, narrowed in asked.items():
                (hit,) = await user.retrieve(QUESTION, top_k=1, **narrowed)
                print(f"{name}: {hit.content}")
            print("hotels and trains:", await user.count({"category": {"in": ["hotel", "train"]}}))
            (hit,) = await user.retrieve(QUESTION, top_k=1, explain=True)
            print("has signals:", bool(hit.signals))


asyncio.run(main())
