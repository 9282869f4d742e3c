"""Each kind alone: a user who has no other, and what holds of some kinds only."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import Any, ClassVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant
from properties.test_user_decider import FILLED, SIZES, UserMachine
from support.deciding import Decided

from memory_actors import Limits, text_digest
from memory_actors.kinds import (
    context,
    entity,
    episodic,
    long_term,
    short_term,
    structured,
    working,
)
from memory_actors.kinds.commands import Command
from memory_actors.kinds.entity import graph
from memory_actors.kinds.entity.graph import RelationshipRow
from memory_actors.kinds.episodic.events import EpisodeCompactionUndone, EpisodesCompressed
from memory_actors.kinds.kind import ROW_BYTES, Kind
from memory_actors.kinds.passages import version_of
from memory_actors.kinds.structured import PutDocument, UpdateDocument, value_json


class OneKind(UserMachine):
    """A user who has one kind of memory, beside a replay, a snapshot, a recount and its rules."""

    KIND: ClassVar[Kind]

    @initialize(sizes=st.tuples(SIZES, SIZES, SIZES), filled=FILLED)
    def begins(
        self, sizes: tuple[tuple[int, int], ...], _mixture: object = None,
        filled: Sequence[str] = (),
    ) -> None:  # fmt: skip
        UserMachine.begins(self, sizes, {self.KIND.NAME}, filled)

    @property
    def events(self) -> dict[int, Any]:
        return {entry.version: entry for entry in self.deciding.log}


class WorkingMachine(OneKind):
    """Keys and their values."""

    KIND = working.KIND

    @invariant()
    def the_memory_that_it_takes_has_all_values(self) -> None:
        sizes_bytes = [ROW_BYTES + row.size_bytes for row in self.rows(working.KIND)]
        assert working.KIND.held_bytes(self.state.working) == sum(sizes_bytes)


class ShortTermMachine(OneKind):
    """Messages of sessions."""

    KIND = short_term.KIND


class LongTermMachine(OneKind):
    """Facts and their summaries."""

    KIND = long_term.KIND


class ContextMachine(OneKind):
    """Entries of documents."""

    KIND = context.KIND


class EntityMachine(OneKind):
    """The graph: its indexes, its names, its contradictions, and where its texts are."""

    KIND = entity.KIND

    @invariant()
    def the_graph_equals_a_recount(self) -> None:
        state = self.state.entity
        rows = state.graph.rows.values()
        bounds = {source: dict(by) for source, by in state.graph.ended_us.items()}
        assert state.graph == graph.RelationshipGraph.of(rows, bounds)
        assert set(bounds) <= set(state.graph.outgoing)
        for row in rows:
            if row.valid_to_us is not None:
                assert row.valid_to_us <= bounds[row.source_id][graph.relation_key(row.relation)]
        for entity_id in state.rows:
            mine = [row for row in rows if entity_id in (row.source_id, row.target_id)]
            found = graph.relationships(state.graph, entity_id)
            assert {row.memory_id for row in found} == {row.memory_id for row in mine}

    @invariant()
    def a_name_and_type_is_one_entity(self) -> None:
        rows = list(self.state.entity.rows.values())
        keys = {(graph.name_key(row.name), graph.name_key(row.type)) for row in rows}
        assert len(keys) == len(rows)
        assert all(entity.named(self.state.entity, row.name, row.type) is row for row in rows)
        for row in rows:
            assert len({one.digest for one in row.observations}) == len(row.observations)

    @invariant()
    def what_contradicts_each_other_is_never_true_at_one_time(self) -> None:
        for one, other in self.contradictions():
            assert not any(graph.valid_at(one, t) and graph.valid_at(other, t) for t in range(22))

    def contradictions(self) -> Iterator[tuple[RelationshipRow, RelationshipRow]]:
        said = (entry.data for entry in self.deciding.log)
        exclusive = {event.memory_id for event in said if getattr(event, "exclusive", False)}
        for one, other in combinations(self.state.entity.graph.rows.values(), 2):
            same_relation = graph.relation_key(one.relation) == graph.relation_key(other.relation)
            if not same_relation or one.source_id != other.source_id:
                continue
            if {one.memory_id, other.memory_id} <= exclusive or one.target_id == other.target_id:
                yield one, other

    @invariant()
    def texts_are_found_where_the_rows_say(self) -> None:
        labels, events = [], self.events
        for row in entity.KIND.rows(self.state.entity):
            mine = {version: events[version] for version in entity.KIND.sources(row)}
            for passage in entity.KIND.passages(row):
                labels.append(passage.label)
                assert version_of(passage.label) in mine
                text = entity.KIND.passage_text(row, passage.label, mine)
                assert text_digest(text) == passage.digest
        assert len(labels) == len(set(labels))


class EpisodicMachine(OneKind):
    """Agents, the numbers of their steps, and summaries of what ended."""

    KIND = episodic.KIND

    def check_compaction(self, decided: Decided) -> None:
        """A summary is of one agent's ended episodes; those that come back are kept."""
        super().check_compaction(decided)
        was, rows = decided.before.episodic.rows, decided.after.episodic.rows
        for event in (entry.data for entry in decided.events):
            if isinstance(event, EpisodesCompressed):
                gone = [was[one] for one in event.compressed_from_ids]
                assert {row.agent_id for row in gone} == {event.agent_id}
                assert all(episodic.KIND.compressible(row) for row in gone)
            elif isinstance(event, EpisodeCompactionUndone):
                assert all(rows[one].keep for one in set(rows) - set(was))

    @invariant()
    def agents_equal_a_recount(self) -> None:
        state, agents = self.state.episodic, {}
        for row in episodic.KIND.rows(state):
            agents.setdefault(row.agent_id, {})[row.memory_id] = row.memory_id
        assert {agent: dict(ids) for agent, ids in state.groups.items()} == agents
        (episodes, _) = episodic.KIND.quotas(state, Limits(), None)
        assert episodes.used == max(map(len, agents.values()), default=0)

    @invariant()
    def steps_are_numbered_without_gaps(self) -> None:
        for row in episodic.KIND.rows(self.state.episodic):
            numbers = [step.number for step in row.steps]
            gone = [marker.number for marker in row.evicted]
            assert numbers == sorted(numbers)
            if len(gone) == row.steps_evicted:
                assert sorted(numbers + gone) == list(range(1, row.next_number))

    @invariant()
    def every_row_reads(self) -> None:
        events = self.events
        for row in episodic.KIND.rows(self.state.episodic):
            data, says = episodic.KIND.data(row, events), episodic.KIND.content(row, events)
            assert says == data["goal"] if row.original_count else says.startswith("Goal: ")
            labels = [passage.label for passage in episodic.KIND.passages(row)]
            assert len(set(labels)) == len(labels) == 1 + len(row.steps) + bool(row.result)
            assert all(episodic.KIND.passage_text(row, label, events) for label in labels)


class StructuredMachine(OneKind):
    """Documents by collection and key, and the last value of each."""

    KIND = structured.KIND

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        super().__init__()

    def ask(self, command: Command) -> Decided:
        decided = super().ask(command)
        rows = decided.after.structured
        match decided.command:
            case PutDocument(document=told) if decided.refusal is None:
                row = rows.named(told.collection, told.key)
                if row is not None and decided.events:
                    self.values[row.memory_id] = value_json(told.value)
            case UpdateDocument() as told if decided.refusal is None and told.value_digest:
                self.values[told.memory_id] = value_json(told.value)
        return decided

    @invariant()
    def every_value_is_the_last_that_was_put(self) -> None:
        events = self.events
        for row in structured.KIND.rows(self.state.structured):
            assert structured.KIND.content(row, events) == self.values[row.memory_id]

    @invariant()
    def collections_equal_a_recount(self) -> None:
        state, collections = self.state.structured, {}
        for row in structured.KIND.rows(state):
            assert state.named(row.collection, row.key) is row
            collections.setdefault(row.collection, {})[row.key] = row.memory_id
        assert {name: dict(ids) for name, ids in state.groups.items()} == collections


SHORT = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestWorking = WorkingMachine.TestCase
TestWorking.settings = SHORT
TestShortTerm = ShortTermMachine.TestCase
TestShortTerm.settings = SHORT
TestLongTerm = LongTermMachine.TestCase
TestLongTerm.settings = SHORT
TestEntity = EntityMachine.TestCase
TestEntity.settings = SHORT
TestEpisodic = EpisodicMachine.TestCase
TestEpisodic.settings = SHORT
TestStructured = StructuredMachine.TestCase
TestStructured.settings = SHORT
TestContext = ContextMachine.TestCase
TestContext.settings = SHORT
