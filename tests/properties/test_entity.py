"""Entities and relationships under any sequence of commands: small limits, clocks that jump."""

from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.given import recorded
from support.proposing import proposing

from memory_actors.base.errors import MemoryActorsError
from memory_actors.base.quota import Limits
from memory_actors.kinds import entity
from memory_actors.kinds.entity import graph
from memory_actors.kinds.entity.events import EntitiesPruned, EntityDeleted
from memory_actors.kinds.entity.graph import RelationshipRow
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.phrasing import fact_text, name_text, observation_text, text_digest

LIMITS = Limits(entities=6, relationships=8, entity_bytes=300)
SPELLINGS = st.sampled_from(
    ["Ann", "ANN", " ann ", "Bob", "Cid", "Dee", "Eve", "Flo", "Gus", "Hal"]
)
TYPES = st.sampled_from(["person", "Person", "town"])
TEXTS = st.sampled_from(["likes tea", "is here", "was far away for a very long time", "x"])
RELATIONS = st.sampled_from(["knows", "lives_in", "Lives in"])  # lives_in is always exclusive
METADATA = st.sampled_from([{}, {"a": 1}, {"a": True}, {"b": [1, None]}])
SATISFIED = (
    entity.AddEntity,
    entity.UpdateEntity,
    entity.Relate,
    entity.UpdateRelationship,
    entity.EndRelationship,
    entity.RestoreEntities,
)  # what to ask again is harmless
TIMES = st.integers(0, 12)
ANY = st.integers(0, 1 << 16)  # picks one of the ids there are, by its remainder


def observation(name: str, text: str) -> entity.Observation:
    digest = text_digest(observation_text(name, text))
    return entity.Observation(text=text, size_bytes=len(text.encode()), digest=digest)


class EntityMachine(RuleBasedStateMachine):
    """The kind, run as an actor would, beside a replay and a snapshot."""

    def __init__(self) -> None:
        super().__init__()
        self.state = entity.KIND.initial
        self.log: list[Any] = []
        self.about: defaultdict[str, list[Any]] = defaultdict(list)
        self.exclusive: set[str] = set()
        self.snapshot = (entity.KIND.dump(self.state), 0)
        self.now_us = 1_000
        self.made = 0

    # --- as an actor would

    def ask(self, command: Any) -> None:
        before = entity.KIND.dump(self.state)
        try:
            events = entity.KIND.decide(command, self.state, LIMITS)
        except MemoryActorsError:
            assert entity.KIND.dump(self.state) == before, "a refused command changes nothing"
            return
        assert entity.KIND.dump(self.state) == before, "a decision changes nothing"
        for event in events:
            self.append(event)
        if isinstance(command, SATISFIED):
            assert not entity.KIND.decide(command, self.state, LIMITS), "it was so already"

    def append(self, event: Any) -> None:
        entry = recorded(event, len(self.log) + 1, stored_bytes=len(self.log) % 7 + 1)
        self.log.append(entry)
        self.state = entity.KIND.fold(self.state, [entry])
        for key in entity.KIND.registry.keys(event):
            self.about[key].append(entry)
        if getattr(event, "exclusive", False):
            self.exclusive.add(event.memory_id)

    def id(self, own: int | None) -> str:
        """Return a new id, or one of the caller's own that was maybe used before."""
        self.made += 1
        return f"new{self.made}" if own is None else f"own{own}"

    def used(self, memory_id: str) -> dict[str, Any]:
        past = self.about.get(memory_id)
        return {memory_id: past[0].data} if past else {}

    def one(self, ids: Any, number: int) -> str:
        chosen = sorted(ids)
        return chosen[number % len(chosen)] if chosen else "none"

    def entity_id(self, number: int) -> str:
        return self.one(self.state.held.rows, number)

    def relationship_id(self, number: int) -> str:
        return self.one(self.state.graph.held.rows, number)

    @initialize(names=st.lists(SPELLINGS, min_size=3, max_size=8))
    def begins(self, names: list[str]) -> None:
        for name in names:
            self.add(name, "person", texts=["x"])

    @rule(step=st.integers(-30, 30))
    def clock_jumps(self, step: int) -> None:
        self.now_us = max(0, self.now_us + step)

    # --- commands

    @rule(
        name=SPELLINGS,
        kind=TYPES,
        texts=st.lists(TEXTS, max_size=3),
        own=st.none() | st.integers(0, 5),
        metadata=METADATA,
        pinned=st.integers(0, 7),
        prune=st.booleans(),
    )
    def adds_an_entity(
        self, name: str, kind: str, texts: Any, own: Any, metadata: Any, pinned: int, prune: bool
    ) -> None:
        self.add(name, kind, texts, own=own, metadata=metadata, pinned=pinned == 0, prune=prune)

    def add(
        self, name: str, kind: str, texts: list[str], *, own: int | None = None,
        metadata: Any = None, pinned: bool = False, prune: bool = False,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        self.ask(
            proposing(
                entity.AddEntity,
                now_us=self.now_us,
                memory_id=memory_id,
                name=name,
                type=kind,
                digest=text_digest(name_text(name, kind)),
                occurred_at_us=self.now_us,
                observations=tuple(observation(name, text) for text in texts),
                metadata=metadata or {},
                pinned=pinned,
                auto_prune=prune,
                own_ids=() if own is None else (memory_id,),
                used=self.used(memory_id),
            )
        )
        row = entity.named(self.state, name, kind)
        assert row is None or len({o.digest for o in row.observations}) == len(row.observations)

    @precondition(lambda self: self.state.held.rows)
    @rule(
        ends=st.tuples(ANY, ANY),
        relation=RELATIONS,
        own=st.none() | st.integers(6, 9),
        since=TIMES,
        until=st.none() | TIMES,
        fact=st.none() | TEXTS,
        knows_one=st.booleans(),
        metadata=METADATA,
        pinned=st.integers(0, 7),
        prune=st.booleans(),
    )
    def relates(
        self, ends: Any, relation: str, own: Any, since: int, until: Any, fact: Any,
        knows_one: bool, metadata: Any, pinned: int, prune: bool,
    ) -> None:  # fmt: skip
        self.relate(
            ends, relation, own=own, since=since, until=until, fact=fact,
            exclusive=relation != "knows" or knows_one, metadata=metadata, pinned=pinned == 0,
            prune=prune,
        )  # fmt: skip

    @precondition(lambda self: self.state.held.rows)
    @rule(ends=st.tuples(ANY, ANY), since=TIMES)
    def moves(self, ends: Any, since: int) -> None:
        self.relate(ends, "lives_in", since=since, exclusive=True, prune=True)

    def relate(
        self, ends: Any, relation: str, *, since: int, exclusive: bool, own: int | None = None,
        until: int | None = None, fact: str | None = None, metadata: Any = None,
        pinned: bool = False, prune: bool = False,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        source, target = (self.state.held.rows.get(self.entity_id(end)) for end in ends)
        text = fact_text(getattr(source, "name", ""), relation, getattr(target, "name", ""), fact)
        self.ask(
            proposing(
                entity.Relate,
                now_us=self.now_us,
                memory_id=memory_id,
                source_id=getattr(source, "memory_id", "none"),
                relation=relation,
                target_id=getattr(target, "memory_id", "none"),
                digest=text_digest(text),
                size_bytes=len(text.encode()),
                valid_from_us=since,
                valid_to_us=until,
                fact=fact,
                exclusive=exclusive,
                metadata=metadata or {},
                pinned=pinned,
                auto_prune=prune,
                own_ids=() if own is None else (memory_id,),
                used=self.used(memory_id),
            )
        )

    @precondition(lambda self: self.state.held.rows)
    @rule(number=ANY, text=st.none() | TEXTS, metadata=st.none() | METADATA)
    def updates_an_entity(self, number: int, text: Any, metadata: Any) -> None:
        row = self.state.held.rows.get(self.entity_id(number))
        said = None if text is None or row is None else observation(row.name, text)
        self.ask(
            entity.UpdateEntity(
                now_us=self.now_us,
                memory_id=row.memory_id if row else "none",
                content=said.text if said else None,
                size_bytes=said.size_bytes if said else 0,
                digest=said.digest if said else b"",
                metadata=metadata,
            )
        )

    @precondition(lambda self: self.state.graph.held.rows)
    @rule(number=ANY, text=st.none() | TEXTS, metadata=st.none() | METADATA)
    def updates_a_relationship(self, number: int, text: Any, metadata: Any) -> None:
        self.ask(
            entity.UpdateRelationship(
                now_us=self.now_us,
                memory_id=self.relationship_id(number),
                content=text,
                size_bytes=len(text or ""),
                digest=text_digest(text or ""),
                metadata=metadata,
            )
        )

    @precondition(lambda self: self.state.held.rows)
    @rule(number=ANY, text=TEXTS)
    def removes_an_observation(self, number: int, text: str) -> None:
        memory_id = self.entity_id(number)
        row = self.state.held.rows.get(memory_id)
        digest = observation(row.name if row else "", text).digest
        self.ask(entity.RemoveObservation(now_us=self.now_us, memory_id=memory_id, digest=digest))

    @precondition(lambda self: self.state.graph.held.rows)
    @rule(number=ANY, until=TIMES)
    def ends_a_relationship(self, number: int, until: int) -> None:
        memory_id = self.relationship_id(number)
        self.ask(entity.EndRelationship(now_us=self.now_us, memory_id=memory_id, valid_to_us=until))

    @precondition(lambda self: self.state.held.rows)
    @rule(number=ANY)
    def deletes_any(self, number: int) -> None:
        ids = [row.memory_id for row in entity.KIND.rows(self.state)]
        self.ask(entity.DeleteEntity(now_us=self.now_us, memory_id=self.one(ids, number)))

    @precondition(lambda self: self.state.graph.held.rows)
    @rule(number=ANY)
    def deletes_a_relationship(self, number: int) -> None:
        memory_id = self.relationship_id(number)
        self.ask(entity.DeleteRelationship(now_us=self.now_us, memory_id=memory_id))

    @rule(numbers=st.lists(ANY, min_size=1, max_size=4))
    def restores_any(self, numbers: list[int]) -> None:
        ids = tuple(self.one(self.about, number) for number in numbers)
        self.restore(ids)

    @rule()
    def restores_what_went_last(self) -> None:
        gone = [e.data for e in self.log if isinstance(e.data, EntitiesPruned | EntityDeleted)]
        if gone:
            self.restore(entity.KIND.registry.keys(gone[-1]))

    def restore(self, ids: tuple[str, ...]) -> None:
        past = {memory_id: self.about[memory_id] for memory_id in ids if memory_id in self.about}
        self.ask(entity.RestoreEntities(now_us=self.now_us, memory_ids=ids, past=past))

    @rule()
    def takes_a_snapshot(self) -> None:
        self.snapshot = entity.KIND.dump(self.state), len(self.log)

    # --- what always holds

    @invariant()
    def no_limit_is_ever_passed(self) -> None:
        for quota in entity.KIND.quotas(self.state, LIMITS, None):
            assert quota.used <= quota.limit

    @invariant()
    def the_tally_equals_a_recount(self) -> None:
        rows = list(entity.KIND.rows(self.state))
        entities = [row for row in rows if isinstance(row, entity.EntityRow)]
        tally = entity.KIND.tally(self.state)
        assert tally.count == len(entities)
        assert tally.relationships == len(rows) - len(entities)
        assert tally.size_bytes == sum(row.size_bytes for row in rows)
        assert tally.stored_bytes == sum(row.stored_bytes for row in rows)
        pruned = [e.data for e in self.log if isinstance(e.data, EntitiesPruned)]
        assert tally.pruned == sum(len(event.memory_ids) for event in pruned)
        for row in entities:
            said = sum(held.size_bytes for held in row.observations)
            assert row.size_bytes == len(row.name.encode()) + len(row.type.encode()) + said

    @invariant()
    def the_graph_equals_a_recount(self) -> None:
        rows = self.state.graph.held.rows.values()
        bounds = {source: dict(by) for source, by in self.state.graph.ended_us.items()}
        assert self.state.graph == graph.RelationshipGraph.of(rows, bounds)
        assert set(bounds) <= set(self.state.graph.outgoing)
        for row in rows:
            if row.valid_to_us is not None:
                assert row.valid_to_us <= bounds[row.source_id][graph.relation_key(row.relation)]
        for row in rows:
            assert row.source_id in self.state.held.rows
            assert row.target_id in self.state.held.rows
        for entity_id in self.state.held.rows:
            mine = [r for r in rows if entity_id in (r.source_id, r.target_id)]
            found = graph.relationships(self.state.graph, entity_id)
            assert {row.memory_id for row in found} == {row.memory_id for row in mine}

    @invariant()
    def a_name_and_type_is_one_entity(self) -> None:
        rows = list(self.state.held.rows.values())
        keys = {(graph.name_key(row.name), graph.name_key(row.type)) for row in rows}
        assert len(keys) == len(rows)
        assert all(entity.named(self.state, row.name, row.type) is row for row in rows)

    @invariant()
    def what_contradicts_each_other_is_never_true_at_one_time(self) -> None:
        for one, other in self.contradictions():
            assert not any(graph.valid_at(one, t) and graph.valid_at(other, t) for t in range(14))

    def contradictions(self) -> Iterator[tuple[RelationshipRow, RelationshipRow]]:
        for one, other in combinations(self.state.graph.held.rows.values(), 2):
            same_relation = graph.relation_key(one.relation) == graph.relation_key(other.relation)
            if not same_relation or one.source_id != other.source_id:
                continue
            both = {one.memory_id, other.memory_id}
            if both <= self.exclusive or one.target_id == other.target_id:
                yield one, other

    @invariant()
    def texts_are_found_where_the_rows_say(self) -> None:
        events = {entry.version: entry for entry in self.log}
        labels = [
            p.label for row in entity.KIND.rows(self.state) for p in entity.KIND.passages(row)
        ]
        assert len(labels) == len(set(labels))
        for row in entity.KIND.rows(self.state):
            mine = {version: events[version] for version in entity.KIND.sources(row)}
            assert entity.KIND.content(row, mine)
            assert entity.KIND.data(row, mine)
            for passage in entity.KIND.passages(row):
                assert version_of(passage.label) in mine
                text = entity.KIND.passage_text(row, passage.label, mine)
                assert text_digest(text) == passage.digest

    @precondition(lambda self: len(self.log) % 5 == 0)
    @invariant()
    def live_is_replay_is_snapshot_and_tail(self) -> None:
        replayed = entity.KIND.fold(entity.KIND.initial, self.log)
        assert (replayed, entity.KIND.dump(replayed)) == (self.state, entity.KIND.dump(self.state))
        dumped, version = self.snapshot
        assert entity.KIND.fold(entity.KIND.load(thawed(dumped)), self.log[version:]) == self.state
        assert entity.KIND.dump(entity.KIND.load(dumped)) == dumped

    @invariant()
    def every_event_survives_the_codec(self) -> None:
        if self.log:
            event = self.log[-1].data
            prepared = entity.KIND.registry.prepare(event)
            again, _ = entity.KIND.registry.decode(prepared.tag, prepared.schema, prepared.raw)
            assert again == event


def thawed(dumped: entity.KIND.Dump) -> entity.KIND.Dump:
    """Return a dump as it comes back from disk."""
    return msgspec.msgpack.decode(msgspec.msgpack.encode(dumped), type=entity.KIND.Dump)


TestEntity = EntityMachine.TestCase
TestEntity.settings = settings(max_examples=100, stateful_step_count=50, deadline=None)
