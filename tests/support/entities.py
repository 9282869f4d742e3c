"""Entities and relationships in a few words, for their tests: ids are names in lower case."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from memory_actors import Limits, text_digest
from memory_actors.kinds import entity
from memory_actors.kinds.entity import AddEntity, Observation, Relate, RestoreEntities
from memory_actors.kinds.entity.events import EntityAdded, RelationshipAdded
from memory_actors.kinds.passages import fact_text, name_text, observation_text
from support.given import Given, recorded
from support.proposing import proposing

SMALL = Limits(entities=3, relationships=3, entity_bytes=1_000)


# --- texts, commands, events


def seen(name: str, text: str, size: int | None = None) -> Observation:
    digest = text_digest(observation_text(name, text))
    size_bytes = len(text.encode()) if size is None else size
    return Observation(text=text, size_bytes=size_bytes, digest=digest)


def add(name: str, *texts: str, type: str = "person", used: Any = None, **more: Any) -> AddEntity:  # noqa: A002
    fields: dict[str, Any] = {
        "memory_id": name.casefold(), "digest": text_digest(name_text(name, type)),
        "observations": tuple(seen(name, text) for text in texts), "occurred_at_us": 0,
    } | more  # fmt: skip
    return proposing(AddEntity, now_us=1, name=name, type=type, used=used or {}, **fields)


def added(name: str, *texts: str, at: int = 0, **more: Any) -> EntityAdded:
    (event,) = Given(entity.KIND).when(add(name, *texts, occurred_at_us=at, **more))
    return event


def relate(
    memory_id: str, source: str, relation: str, target: str, since: int = 0, **more: Any
) -> Relate:
    text = fact_text(source.title(), relation, target.title(), more.get("fact"))
    fields = {"digest": text_digest(text), "size_bytes": len(text.encode())} | more
    return proposing(
        Relate,
        now_us=1, memory_id=memory_id, source_id=source, relation=relation, target_id=target,
        valid_from_us=since, **fields,
    )  # fmt: skip


def related(
    memory_id: str, source: str, relation: str, target: str, since: int = 0, **more: Any
) -> RelationshipAdded:
    new = relate(memory_id, source, relation, target, since, fact=more.get("fact")).relationship
    fields = {"digest": new.digest, "size_bytes": new.size_bytes} | more
    return RelationshipAdded(
        memory_id=memory_id, source_id=source, source=source.title(), relation=relation,
        target_id=target, target=target.title(), valid_from_us=since, **fields,
    )  # fmt: skip


# --- given


PEOPLE = (added("Ann"), added("Bob", at=1), added("Cid", at=2))


def people(*events: Any) -> Given:
    return Given(entity.KIND, *PEOPLE, *events)


def restore(*ids: str, after: Sequence[Any]) -> RestoreEntities:
    """Return the command to bring these back after all the events there were."""
    past = defaultdict(list)
    for version, event in enumerate(after, start=1):
        for key in entity.KIND.registry.keys(event):
            past[key].append(recorded(event, version))
    chosen = {memory_id: past[memory_id] for memory_id in ids if memory_id in past}
    return RestoreEntities(now_us=1, memory_ids=ids, past=chosen)


def validity(state: Any, memory_id: str) -> tuple[int, int | None]:
    row = state.graph.rows[memory_id]
    return row.valid_from_us, row.valid_to_us


def after(given: Given, *commands: Any) -> Any:
    state = given.state
    for version, command in enumerate(commands, start=100):
        for step, event in enumerate(entity.KIND.decide(command, state, given.limits)):
            state = entity.KIND.fold(state, [recorded(event, version * 10 + step)])
    return state
