"""A part of the demonstration: facts that change, such as where Maya lives."""

from datetime import datetime

import msgspec

from memory_actors.api.handles.user import UserMemory
from memory_actors.base.records import Hit, Neighbour, Relationship

MAYA = "Maya"
BEFORE = "2024-12-24T00:00:00Z"  # a week and a half before she moved
QUERY = "Which city is home?"


class FactsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was true when, and who is near whom."""

    entities: int
    relationships: int
    asked_at: datetime
    then: list[Relationship]
    """What related Maya to others at that time."""
    now: list[Relationship]
    ended: list[Relationship]
    """What is true no longer."""
    neighbours: list[Neighbour]
    found: list[Hit]
    """What a question found in the graph, by meaning."""


async def run_facts(user: UserMemory) -> FactsReport:
    """Tell a user's graph what the conversation says of Maya, in order, and ask it."""
    graph = user.entities
    await graph.add_entity(MAYA, "person", ["writes software", "is training for a half marathon"])
    await graph.add_entity("Theo", "person", ["plays in a band"])
    await graph.add_entity("Biscuit", "dog", ["a greyhound from the rescue in Weston"])
    for city in ("Bristol", "Glasgow"):
        await graph.add_entity(city, "city")
    await graph.relate(MAYA, "friend_of", "Theo", valid_from="2024-09-07")
    await graph.relate(MAYA, "lives_in", "Bristol", valid_from="2024-09-07")
    await graph.relate(MAYA, "owner_of", "Biscuit", valid_from="2024-09-28")
    await graph.relate(
        MAYA, "lives_in", "Glasgow", valid_from="2025-01-04", fact="Maya has moved to Glasgow."
    )
    usage = (await user.usage()).kinds["entity"]
    ever = await graph.relationships(MAYA, ended=True)
    return FactsReport(
        entities=usage.count,
        relationships=usage.quotas[1].used,
        asked_at=datetime.fromisoformat(BEFORE),
        then=await graph.relationships(MAYA, as_of=BEFORE),
        now=await graph.relationships(MAYA),
        ended=[relationship for relationship in ever if relationship.valid_to is not None],
        neighbours=await graph.neighbours("Theo", depth=2),
        found=await user.retrieve(QUERY, memory_types=["entity"], top_k=3),
    )
