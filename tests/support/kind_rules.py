"""Rules by which a stateful test gives every command of every kind to one user's decider.

One class for each kind; a machine takes those it wants. Texts are real, and so are their sizes and
digests. `fills_KIND` adds one memory of up to eight to a kind, so that its limits are close.
"""

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import rule

from memory_actors import text_digest
from memory_actors.kinds import entity, episodic, long_term, short_term, structured, working
from memory_actors.kinds.compacting import passages_of
from memory_actors.kinds.episodic import (
    AddEpisodeSummary,
    CompressEpisodes,
    UndoEpisodeCompaction,
)
from memory_actors.kinds.episodic.events import (
    EpisodeFinished,
    EpisodeStarted,
    EpisodeSummaryAdded,
    StepTexts,
)
from memory_actors.kinds.long_term import (
    AddSummary,
    CompressMemories,
    MemoriesCompressed,
    MemoryAdded,
    Pair,
    SummaryAdded,
    SupersedeMemories,
    UndoCompaction,
)
from memory_actors.kinds.passages import fact_text, name_text, observation_text
from memory_actors.kinds.structured import PutDocument, document_text, value_json
from support.proposing import proposing
from support.user_rules import ANY, UserRules, about, some, some_relate

OWN = st.none() | st.none() | st.integers(0, 9)  # an id of the caller's own, by number
TEXTS = st.sampled_from(["a", "tea", "café", "likes tea a lot", "was far away for a long time"])
WORDS = TEXTS | st.integers(1, 70).map("x".__mul__)
CHANGES = st.none() | WORDS | st.integers(20, 120).map("x".__mul__)
METADATA = st.sampled_from([{}, {"a": 1}, {"a": True}, {"b": [1, None]}])
CHANGED = st.none() | METADATA
PINNED = st.sampled_from([False, False, False, True])
NAMES = ["k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8"]
KEYS = st.sampled_from(NAMES)
RARELY = st.sampled_from([False] * 5 + [True])
GROUPS = st.sampled_from(["s", "s", "t", "u"])  # sessions, agents, collections
VALUES = st.sampled_from([None, True, 1, 1.5, [], {}, {"a": 1}, {"a": True}]) | WORDS
PEOPLE = ["Ann", "Bob", "Cid", "Dee", "Eve", "Flo", "Gus", "Hal"]
SPELLINGS = st.sampled_from(["ANN", " ann ", *PEOPLE])
TYPES = st.sampled_from(["person", "Person", "town"])
RELATIONS = st.sampled_from(["knows", "lives_in", "Lives in"])
TIMES = st.integers(0, 12)
LASTS = st.none() | st.none() | st.integers(-1, 8)


class WorkingRules(UserRules):
    """Keys are set, updated and deleted, in any order of last use."""

    @about(working.KIND)
    @rule(
        key=KEYS, value=VALUES, own=OWN, metadata=METADATA, prune=st.booleans(),
        used=st.permutations(NAMES),
    )  # fmt: skip
    def sets_a_key(
        self, key: str, value: Any, own: Any, metadata: Any, prune: bool, used: list[str]
    ) -> None:
        memory_id = self.id(own)
        self.ask(
            working.SetKey(
                now_us=self.now_us, auto_prune=prune, least_recent=self.order(used),
                own_ids=() if own is None else (memory_id,),
                entry=working.KeySet(
                    memory_id=memory_id, key=key, value=value, metadata=metadata,
                    size_bytes=working.entry_bytes(key, value),
                ),
            )
        )  # fmt: skip

    @some(working.KIND)
    @rule(number=ANY)
    def sets_a_key_to_what_it_has(self, number: int) -> None:
        held = self.rows(working.KIND)
        row = held[number % len(held)]
        self.sets_a_key(row.key, row.value, None, row.metadata, prune=False, used=NAMES)

    def fills_working(self, number: int, text: str) -> None:
        self.sets_a_key(
            key=NAMES[number], value=text, own=None, metadata={}, prune=True, used=NAMES
        )

    @some(working.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED, used=st.permutations(NAMES))
    def updates_a_key(self, number: int, text: Any, metadata: Any, used: list[str]) -> None:
        self.ask(
            working.UpdateKey(
                now_us=self.now_us, memory_id=self.one_of(working.KIND, number), content=text,
                metadata=metadata, least_recent=self.order(used),
            )
        )  # fmt: skip

    @some(working.KIND)
    @rule(key=KEYS)
    def deletes_a_key(self, key: str) -> None:
        self.ask(working.DeleteKey(now_us=self.now_us, key=key))

    def order(self, used: Sequence[str]) -> tuple[str, ...]:
        held = self.deciding.state.working
        return tuple(key for key in used if working.KIND.named(held, key) is not None)


class ShortTermRules(UserRules):
    """Messages are added to sessions and updated."""

    @about(short_term.KIND)
    @rule(session=GROUPS, text=WORDS, own=OWN, metadata=METADATA, at=TIMES)
    def adds_a_message(self, session: str, text: str, own: Any, metadata: Any, at: int = 0) -> None:
        memory_id = self.id(own)
        self.ask(
            short_term.AddMessage(
                now_us=self.now_us, own_ids=() if own is None else (memory_id,),
                message=short_term.MessageAdded(
                    memory_id=memory_id, session_id=session, content=text,
                    size_bytes=len(text.encode()), occurred_at_us=at, metadata=metadata,
                ),
            )
        )  # fmt: skip

    def fills_short_term(self, number: int, text: str) -> None:
        self.adds_a_message(session="sstu"[number % 4], text=text, own=None, metadata={})

    @some(short_term.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def updates_a_message(self, number: int, text: Any, metadata: Any) -> None:
        self.ask(
            short_term.UpdateMessage(
                now_us=self.now_us, memory_id=self.one_of(short_term.KIND, number), content=text,
                size_bytes=len((text or "").encode()), metadata=metadata,
            )
        )  # fmt: skip


class LongTermRules(UserRules):
    """Memories are added, some at once, and updated."""

    @about(long_term.KIND)
    @rule(
        items=st.lists(st.tuples(OWN, WORDS, TIMES, PINNED, METADATA), min_size=1, max_size=4),
        prune=st.booleans(),
        on_duplicate=st.sampled_from(["keep", "count", "count", "skip"]),
    )
    def adds_memories(self, items: list[Any], prune: bool, on_duplicate: Any) -> None:
        memories = tuple(self.memory(*item) for item in items)
        own = tuple(m.memory_id for m in memories if m.memory_id.startswith("own"))
        self.ask(
            long_term.AddMemories(
                now_us=self.now_us, memories=memories, auto_prune=prune, own_ids=own,
                on_duplicate=on_duplicate, distinct=frozenset(own),
            )
        )  # fmt: skip

    def fills_long_term(self, number: int, text: str) -> None:
        items = [(None, text, number, False, {})]
        self.adds_memories(items=items, prune=True, on_duplicate="keep")

    def memory(self, own: Any, text: str, at: int, pinned: bool, metadata: Any) -> MemoryAdded:
        return MemoryAdded(
            memory_id=self.id(own), content=text, size_bytes=len(text.encode()),
            digest=text_digest(text), occurred_at_us=at, pinned=pinned, metadata=metadata,
        )  # fmt: skip

    @some(long_term.KIND)
    @rule(number=ANY, at=st.integers(0, 30), prune=st.booleans(), metadata=CHANGED)
    def says_a_memory_again(self, number: int, at: int, prune: bool, metadata: Any) -> None:
        held = self.rows(long_term.KIND)
        row = held[number % len(held)]
        text = self.deciding.log[row.version - 1].data.content
        items = [(None, text, at, row.pinned, row.metadata if metadata is None else metadata)]
        self.adds_memories(items=items, prune=prune, on_duplicate="count")

    @some(long_term.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def updates_a_memory(self, number: int, text: Any, metadata: Any) -> None:
        memory_id = self.one_of(long_term.KIND, number)
        self.ask(
            long_term.UpdateMemory(
                now_us=self.now_us, memory_id=memory_id, metadata=metadata, **said(text)
            )
        )

    @some(long_term.KIND)
    @rule(every=st.integers(1, 3), text=st.just("s") | WORDS, stale=RARELY, careless=st.booleans())
    def compresses_memories(self, every: int, text: str, stale: bool, careless: bool) -> None:
        held = [
            row for row in self.rows(long_term.KIND) if careless or long_term.KIND.compressible(row)
        ]
        rows = held[::every]
        rows.sort(key=lambda row: (row.occurred_at_us, row.version))
        if rows:
            summary = MemoriesCompressed(**summary_of(self.id(None), rows, text))
            read = tuple((row.memory_id, row.version - stale) for row in rows)
            self.ask(CompressMemories(now_us=self.now_us, summary=summary, originals=read))

    @some(long_term.KIND)
    @rule(older=ANY, newer=ANY, stale=RARELY)
    def supersedes_memories(self, older: int, newer: int, stale: bool) -> None:
        ids = self.one_of(long_term.KIND, older), self.one_of(long_term.KIND, newer)
        rows = [long_term.KIND.find(self.deciding.state.long_term, one) for one in ids]
        digests = [b"gone" if row is None or stale else row.digest for row in rows]
        pair = Pair(
            memory_id=ids[0], superseded_by_id=ids[1], older_digest=digests[0],
            newer_digest=digests[1], similarity=0.5, evidence="chance",
        )  # fmt: skip
        self.ask(SupersedeMemories(now_us=self.now_us, pairs=(pair,)))

    @about(long_term.KIND)
    @rule(own=OWN, text=WORDS)
    def adds_a_summary_from_elsewhere(self, own: Any, text: str) -> None:
        fields = from_elsewhere(self.id(own), text)
        ids = () if own is None else (fields["memory_id"],)
        self.ask(AddSummary(now_us=self.now_us, summary=SummaryAdded(**fields), own_ids=ids))

    @some(long_term.KIND)
    @rule(number=ANY)
    def undoes_a_compaction(self, number: int) -> None:
        self.ask(UndoCompaction(now_us=self.now_us, **self.undone(long_term.KIND, number)))


class EntityRules(UserRules):
    """Entities are added, observed, updated and related; relationships end and are updated."""

    @about(entity.KIND)
    @rule(
        name=SPELLINGS, kind=TYPES, texts=st.lists(TEXTS, max_size=3), own=OWN, at=TIMES,
        metadata=METADATA, pinned=PINNED, prune=st.booleans(),
    )  # fmt: skip
    def adds_an_entity(
        self, name: str, kind: str, texts: list[str], own: Any, at: int, metadata: Any,
        pinned: bool, prune: bool,
    ) -> None:  # fmt: skip
        self.add_entity(
            name, kind, texts, at, own=own, metadata=metadata, pinned=pinned, prune=prune
        )

    def add_entity(
        self, name: str, kind: str, texts: list[str], at: int, *, own: int | None = None,
        metadata: Any = None, pinned: bool = False, prune: bool,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        self.ask(
            proposing(
                entity.AddEntity,
                now_us=self.now_us, memory_id=memory_id, name=name, type=kind, occurred_at_us=at,
                digest=text_digest(name_text(name, kind)), metadata=metadata or {}, pinned=pinned,
                observations=tuple(observation(name, text) for text in texts), auto_prune=prune,
                own_ids=() if own is None else (memory_id,),
            )
        )  # fmt: skip

    @about(entity.KIND)
    @rule(names=st.lists(SPELLINGS, min_size=2, max_size=4), at=TIMES)
    def meets_people(self, names: list[str], at: int) -> None:
        for name in names:
            self.add_entity(name, "person", [], at=at, prune=True)

    def fills_entity(self, number: int, text: str) -> None:
        self.add_entity(PEOPLE[number], "person", [text], at=number, prune=True)
        self.relates(
            ends=(0, 16 * number), relation="knows", own=None, since=number, lasts=None, fact=text,
            exclusive=False, metadata={}, pinned=number == 1, prune=True,
        )  # fmt: skip

    @some(entity.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def updates_an_entity(self, number: int, text: Any, metadata: Any) -> None:
        row = self.entity(number)
        name = row.name if row else ""
        self.ask(
            entity.UpdateEntity(
                now_us=self.now_us, memory_id=row.memory_id if row else "none", metadata=metadata,
                **said(text, observation_text(name, text or "")),
            )
        )  # fmt: skip

    @some(entity.KIND)
    @rule(number=ANY, which=ANY)
    def removes_an_observation(self, number: int, which: int) -> None:
        row = self.entity(number)
        digests = [held.digest for held in row.observations] if row else []
        self.ask(
            entity.RemoveObservation(
                now_us=self.now_us, memory_id=row.memory_id if row else "none",
                digest=digests[which % len(digests)] if digests else b"none",
            )
        )  # fmt: skip

    @some(entity.KIND)
    @rule(
        ends=st.tuples(ANY, ANY), relation=RELATIONS, own=OWN, since=TIMES,
        lasts=LASTS, fact=st.none() | TEXTS, exclusive=st.booleans(),
        metadata=METADATA, pinned=PINNED, prune=st.booleans(),
    )  # fmt: skip
    def relates(
        self, ends: Any, relation: str, own: Any, since: int, lasts: Any, fact: Any,
        exclusive: bool, metadata: Any, pinned: bool, prune: bool,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        source, target = (self.entity(end) for end in ends)
        names = (getattr(end, "name", "") for end in (source, target))
        text = fact_text(next(names), relation, next(names), fact)
        self.ask(
            proposing(
                entity.Relate,
                now_us=self.now_us, memory_id=memory_id, relation=relation, fact=fact,
                source_id=getattr(source, "memory_id", "none"),
                target_id=getattr(target, "memory_id", "none"),
                digest=text_digest(text), size_bytes=len(text.encode()), valid_from_us=since,
                valid_to_us=None if lasts is None else since + lasts, exclusive=exclusive,
                metadata=metadata, pinned=pinned, auto_prune=prune,
                own_ids=() if own is None else (memory_id,),
            )
        )  # fmt: skip

    @some_relate
    @rule(number=ANY, until=TIMES)
    def ends_a_relationship(self, number: int, until: int) -> None:
        memory_id = self.relationship(number)
        self.ask(entity.EndRelationship(now_us=self.now_us, memory_id=memory_id, valid_to_us=until))

    @some_relate
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def updates_a_relationship(self, number: int, text: Any, metadata: Any) -> None:
        memory_id = self.relationship(number)
        self.ask(
            entity.UpdateRelationship(
                now_us=self.now_us, memory_id=memory_id, metadata=metadata, **said(text)
            )
        )

    @some_relate
    @rule(number=ANY)
    def deletes_a_relationship(self, number: int) -> None:
        memory_id = self.relationship(number)
        self.ask(entity.DeleteEntity(now_us=self.now_us, memory_id=memory_id))

    def entity(self, number: int) -> entity.EntityRow | None:
        held = self.deciding.state.entity.rows
        return held.get(self.one(held, number))

    def relationship(self, number: int) -> str:
        return self.one(self.deciding.state.entity.graph.rows, number)


class EpisodicRules(UserRules):
    """Episodes are started, take steps beyond their limit, end, and are updated."""

    @about(episodic.KIND)
    @rule(
        agent=GROUPS, goal=WORDS, own=OWN, at=TIMES, metadata=METADATA, pinned=PINNED,
        prune=st.booleans(),
    )  # fmt: skip
    def starts_an_episode(
        self, agent: str, goal: str, own: Any, at: int, metadata: Any, pinned: bool, prune: bool
    ) -> None:
        memory_id = self.id(own)
        self.ask(
            episodic.StartEpisode(
                now_us=self.now_us, auto_prune=prune, own_ids=() if own is None else (memory_id,),
                episode=EpisodeStarted(
                    memory_id=memory_id, agent_id=agent, goal=goal,
                    size_bytes=len(goal.encode()), digest=text_digest(goal), occurred_at_us=at,
                    metadata=metadata, pinned=pinned,
                ),
            )
        )  # fmt: skip

    def fills_episodic(self, number: int, text: str) -> None:
        self.starts_an_episode(
            agent="sstu"[number % 4], goal=text, own=None, at=number, metadata={}, pinned=False,
            prune=number % 2 == 0,
        )  # fmt: skip
        memory_id = f"new{self.made}"
        self.ask(episodic.AddStep(now_us=self.now_us, step=StepTexts(text).added(memory_id)))
        if number % 3:
            end = EpisodeFinished(memory_id=memory_id, failed=number % 3 == 1)
            self.ask(episodic.FinishEpisode(now_us=self.now_us, end=end))

    @some(episodic.KIND)
    @rule(
        number=ANY,
        steps=st.lists(st.tuples(WORDS, *[st.none() | TEXTS] * 3), min_size=1, max_size=5),
    )
    def takes_steps(self, number: int, steps: list[Any]) -> None:
        memory_id = self.one_of(episodic.KIND, number)
        for texts in steps:
            step = StepTexts(*texts).added(memory_id)
            self.ask(episodic.AddStep(now_us=self.now_us, step=step))

    @some(episodic.KIND)
    @rule(number=ANY, failed=st.booleans(), result=CHANGES)
    def ends_an_episode(self, number: int, failed: bool, result: Any) -> None:
        words = said(result)
        words["result"] = words.pop("content", None)
        memory_id = self.one_of(episodic.KIND, number)
        self.ask(
            episodic.FinishEpisode(
                now_us=self.now_us,
                end=EpisodeFinished(memory_id=memory_id, failed=failed, **words),
            )
        )  # fmt: skip

    @some(episodic.KIND)
    @rule(number=ANY, text=CHANGES, metadata=CHANGED)
    def updates_an_episode(self, number: int, text: Any, metadata: Any) -> None:
        memory_id = self.one_of(episodic.KIND, number)
        self.ask(
            episodic.UpdateEpisode(
                now_us=self.now_us, memory_id=memory_id, metadata=metadata, **said(text)
            )
        )

    @some(episodic.KIND)
    @rule(every=st.integers(1, 2), text=st.just("s") | WORDS, stale=RARELY, careless=st.booleans())
    def compresses_episodes(self, every: int, text: str, stale: bool, careless: bool) -> None:
        held = [
            row for row in self.rows(episodic.KIND) if careless or episodic.KIND.compressible(row)
        ]
        rows = [row for row in held[::every] if careless or row.agent_id == held[0].agent_id]
        rows.sort(key=lambda row: (row.occurred_at_us, row.version))
        if rows:
            made = episodic.KIND.compressed(rows, summary_of(self.id(None), rows, text))
            read = tuple((row.memory_id, row.version - stale) for row in rows)
            self.ask(CompressEpisodes(now_us=self.now_us, summary=made, originals=read))

    @about(episodic.KIND)
    @rule(own=OWN, text=WORDS, agent=GROUPS, failed=st.booleans())
    def adds_a_summary_of_episodes(self, own: Any, text: str, agent: str, failed: bool) -> None:
        fields = from_elsewhere(self.id(own), text)
        ids = () if own is None else (fields["memory_id"],)
        summary = EpisodeSummaryAdded(**fields, agent_id=agent, failed=failed)
        self.ask(AddEpisodeSummary(now_us=self.now_us, summary=summary, own_ids=ids))

    @some(episodic.KIND)
    @rule(number=ANY)
    def undoes_a_compaction_of_episodes(self, number: int) -> None:
        self.ask(UndoEpisodeCompaction(now_us=self.now_us, **self.undone(episodic.KIND, number)))


class StructuredRules(UserRules):
    """Documents are put and updated."""

    @about(structured.KIND)
    @rule(
        collection=GROUPS, key=KEYS, value=VALUES, own=OWN, at=TIMES, metadata=CHANGED,
        pinned=st.none() | PINNED, prune=st.booleans(),
    )  # fmt: skip
    def puts_a_document(
        self, collection: str, key: str, value: Any, own: Any, at: int, metadata: Any,
        pinned: Any, prune: bool,
    ) -> None:  # fmt: skip
        memory_id = self.id(own)
        self.ask(
            proposing(
                PutDocument,
                now_us=self.now_us, memory_id=memory_id, collection=collection, key=key,
                occurred_at_us=at, metadata=metadata, pinned=pinned, auto_prune=prune,
                own_ids=() if own is None else (memory_id,), **document(collection, key, value),
            )
        )  # fmt: skip

    @some(structured.KIND)
    @rule(number=ANY)
    def puts_what_a_document_has(self, number: int) -> None:
        held = self.rows(structured.KIND)
        row = held[number % len(held)]
        value = self.deciding.log[row.version - 1].data.value
        self.puts_a_document(
            row.collection, row.key, value, None, 0, row.metadata, row.pinned, prune=False
        )

    def fills_structured(self, number: int, text: str) -> None:
        self.puts_a_document(
            collection="sstu"[number % 4], key=NAMES[number], value=text, own=None, at=number,
            metadata={}, pinned=False, prune=True,
        )  # fmt: skip

    @some(structured.KIND)
    @rule(number=ANY, value=VALUES | CHANGES, metadata=CHANGED)
    def updates_a_document(self, number: int, value: Any, metadata: Any) -> None:
        row = structured.KIND.find(
            self.deciding.state.structured, self.one_of(structured.KIND, number)
        )
        words = {} if row is None or value is None else document(row.collection, row.key, value)
        self.ask(
            structured.UpdateDocument(
                now_us=self.now_us, memory_id=row.memory_id if row else "none", metadata=metadata,
                content=value_json(words["value"]) if words else None, **words,
            )
        )  # fmt: skip


# --- what a caller says of a summary


def summary_of(memory_id: str, rows: Sequence[Any], text: str) -> dict[str, Any]:
    """Return the fields of a summary of rows, which are in order of time."""
    return {
        "memory_id": memory_id, "content": text, "size_bytes": len(text.encode()),
        "digest": text_digest(text), "passages": passages_of(text),
        "occurred_at_us": rows[-1].occurred_at_us if rows else 5,
        "compressed_from_ids": tuple(row.memory_id for row in rows),
        "original_count": len(rows), "compression_method": "fake",
        "time_range_start_us": rows[0].occurred_at_us if rows else 5,
        "time_range_end_us": rows[-1].occurred_at_us if rows else 5,
        "bytes_before": sum(row.size_bytes for row in rows),
        "bytes_after": len(text.encode()),
    }  # fmt: skip


def from_elsewhere(memory_id: str, text: str) -> dict[str, Any]:
    """Return the fields of a summary whose original is in another store."""
    there = {"original_count": 1, "compressed_from_ids": ("far",)}
    return {**summary_of(memory_id, [], text), **there}


# --- what a caller says of a text


def said(content: str | None, found_by: str | None = None) -> dict[str, Any]:
    """Return the fields of a new content; `found_by` is what is embedded, if that is more."""
    if content is None:
        return {}
    digest = text_digest(content if found_by is None else found_by)
    return {"content": content, "size_bytes": len(content.encode()), "digest": digest}


def observation(name: str, text: str) -> entity.Observation:
    """Return an observation of an entity of this name."""
    digest = text_digest(observation_text(name, text))
    return entity.Observation(text=text, size_bytes=len(text.encode()), digest=digest)


def document(collection: str, key: str, value: Any) -> dict[str, Any]:
    """Return the fields of a document's value."""
    as_json = value_json(value)
    return {
        "value": value,
        "size_bytes": len(as_json.encode()),
        "digest": text_digest(document_text(collection, key, value)),
        "value_digest": text_digest(as_json),
    }
