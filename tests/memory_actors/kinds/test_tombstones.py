"""Tombstones at the decider: what they refuse, in which order commands ever come."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from support.proposing import proposing

from memory_actors import ForgottenError
from memory_actors.base.errors import EmbeddingNeededError
from memory_actors.kinds import snapshots, tombstones
from memory_actors.kinds.commands import Command
from memory_actors.kinds.context.commands import AddEntry, EditEntry
from memory_actors.kinds.entity import AddEntity
from memory_actors.kinds.entity.events import EntityAdded, Observation
from memory_actors.kinds.entity.relationships import Relate, UpdateRelationship
from memory_actors.kinds.episodic import AddStep, FinishEpisode, StartEpisode, UpdateEpisode
from memory_actors.kinds.episodic.events import EpisodeFinished, EpisodeStarted, StepTexts
from memory_actors.kinds.forgetting import Forget
from memory_actors.kinds.kind import tentative
from memory_actors.kinds.long_term import (
    AddMemories,
    DeleteMemory,
    MemoryAdded,
    RestoreMemories,
    UpdateMemory,
)
from memory_actors.kinds.provenance import SourcePurged
from memory_actors.kinds.short_term import AddMessage, MessageAdded, UpdateMessage
from memory_actors.kinds.structured import DocumentPut, PutDocument
from memory_actors.kinds.tombstones import (
    LiftTombstones,
    PutTombstones,
    Tombstone,
    Tombstones,
    TombstonesPut,
    tombstones_of,
    trimmed,
)
from memory_actors.kinds.user_state import FOLD, KINDS, UserState, fold, totals
from memory_actors.kinds.working import KeySet, SetKey
from memory_actors.upkeep.store import event_registry

KEY = b"a key of 16 byte"
KEYS = event_registry().keys
FACTS = ("Anna lives in Bern", "I like tea", "the code is 1234")


def stones(*texts: str, **fields: Any) -> tuple[Tombstone, ...]:
    made = tombstones_of(texts, Tombstones(), KEY, 1)
    return tuple(Tombstone(**{**{n: getattr(one, n) for n in one.__struct_fields__}, **fields})
                 for one in made)  # fmt: skip


def memory(number: int, text: str, digest: bytes = b"") -> MemoryAdded:
    return MemoryAdded(
        memory_id=f"m{number}", content=text, size_bytes=len(text), digest=digest or text.encode(),
        occurred_at_us=number,
    )  # fmt: skip


def doors(number: int, text: str) -> list[Command]:
    """Return a command for each way in which a text may come."""
    at: dict[str, int] = {"now_us": number}
    one = f"x{number}"
    value = {"note": [text]}
    return [
        AddMemories(**at, memories=(memory(number, text),)),
        UpdateMemory(**at, memory_id="first", content=text, size_bytes=9, digest=text.encode()),
        AddMessage(
            **at,
            message=MessageAdded(
                memory_id=one, session_id="s", content=text, size_bytes=9, occurred_at_us=1
            ),
        ),
        SetKey(**at, entry=KeySet(memory_id=one, key="k", value=value, size_bytes=9)),
        AddEntity(
            **at,
            entity=EntityAdded(
                memory_id=one, name=one, type="", digest=b"n", size_bytes=9, occurred_at_us=1,
                observations=tuple(
                    Observation(text=one, size_bytes=9, digest=one.encode())
                    for one in (text, f" {text}")
                ),
            ),
        ),
        PutDocument(
            **at,
            document=DocumentPut(
                memory_id=one, collection="c", key=one, value=value, size_bytes=9, digest=b"d",
                value_digest=text.encode(), occurred_at_us=1,
            ),
        ),
    ]  # fmt: skip


class Life:
    """A user's decider, with what the log has."""

    def __init__(self) -> None:
        self.log: list[Any] = []
        self.state = UserState()
        self.ask(AddMemories(now_us=0, memories=(memory(0, "nothing much"),)))

    @property
    def past(self) -> dict[str, list[Any]]:
        """Every event about each memory."""
        past: dict[str, list[Any]] = {}
        for one in self.log:
            for memory_id in KEYS(one.data):
                past.setdefault(memory_id, []).append(one)
        return past

    def forgetting(self, fact: str) -> Forget:
        past = self.past
        return Forget(now_us=99, memory_ids=tuple(past), tombstones=stones(fact), past=past)

    def ask(self, command: Command) -> Sequence[Any]:
        if isinstance(command, UpdateMemory):
            command = UpdateMemory(
                now_us=1, memory_id="m0", content=command.content, size_bytes=9,
                digest=command.digest,
            )  # fmt: skip
        if isinstance(command, RestoreMemories):
            command = replace(command, past=self.past)
        events = FOLD.decide(command, self.state)
        recorded = [
            one
            for n, event in enumerate(events, len(self.log) + 1)
            for one in tentative([event], command.now_us, n)
        ]
        self.log += recorded
        self.state = fold(self.state, recorded)
        return events


START = EpisodeStarted(memory_id="e", agent_id="a", goal="find out", size_bytes=8, digest=b"g",
                       occurred_at_us=1)  # fmt: skip
ENTRY: dict[str, Any] = {"now_us": 1, "memory_id": "n", "document": "D", "heading_id": "h"}


def person(name: str, **said: Any) -> AddEntity:
    return proposing(AddEntity, now_us=1, memory_id=name, name=name, type="", digest=b"n",
                     occurred_at_us=1, **said)  # fmt: skip


def related(source: str, target: str, fact: str | None = None) -> Relate:
    return proposing(Relate, now_us=1, memory_id="r", relation="knows", source_id=source,
                     target_id=target, fact=fact, digest=b"r", size_bytes=9, valid_from_us=1,
                     valid_to_us=None)  # fmt: skip


def fields(text: str) -> dict[str, list[Command]]:
    """Return, for each field that a text may come in, the command with it behind what it needs."""
    ended = EpisodeFinished(memory_id="e", failed=False, result=text, size_bytes=9, digest=b"r")
    begun = StartEpisode(now_us=1, episode=START)
    waits: dict[str, Any] = {"held_until_us": 9}
    changed: dict[str, Any] = {"now_us": 1, "content": text, "size_bytes": 9, "digest": b"c"}
    about: dict[str, Any] = {"metadata": {"a": [{"b": text}]}}
    steps = {
        part: [begun, AddStep(now_us=1, step=StepTexts(**{"action": "a", part: text}).added("e"))]
        for part in StepTexts._fields
    }
    return steps | {f"door {n}": [one] for n, one in enumerate(doors(1, text))} | {
        "goal": [StartEpisode(now_us=1, episode=replace(START, goal=text))],
        "new goal": [begun, UpdateEpisode(**changed, memory_id="e")],
        "result": [begun, FinishEpisode(now_us=1, end=ended)],
        "name": [person(text)],
        "fact": [person("x"), person("y"), related("x", "y", text)],
        "new fact": [person("x"), person("y"), related("x", "y"),
                     UpdateRelationship(**changed, memory_id="r")],
        "source": [person(text), person("y"), related(text, "y")],
        "target": [person("x"), person(text), related("x", text)],
        "metadata": [AddMemories(now_us=1, memories=(replace(memory(1, "x"), **about),))],
        "new metadata": [begun, UpdateEpisode(now_us=1, memory_id="e", **about)],
        "message": [*doors(1, "x")[2:3], UpdateMessage(**changed, memory_id="x1")],
        "entry": [AddEntry(**ENTRY, section="", text=text)],
        "section": [AddEntry(**ENTRY, section=text, text="x")],
        "new entry": [AddEntry(**ENTRY, section="", text="x"),
                      EditEntry(now_us=1, memory_id="n", text=text)],
        "restored": [AddMemories(now_us=1, memories=(memory(1, text),)),
                     DeleteMemory(now_us=1, memory_id="m1"),
                     RestoreMemories(now_us=1, memory_ids=("m1",))],
        "pending entry": [AddEntry(**ENTRY, **waits, section=text, text="x")],
        "pending fact": [AddMemories(now_us=1, memories=(memory(1, text),), **waits)],
        "pending observation": [
            replace(person("x", observations=(Observation(text=text, size_bytes=9, digest=b"o"),)),
                    **waits)
        ],
        "pending relationship": [person("x"), person("y"),
                                 replace(related("x", "y", text), **waits)],
    }  # fmt: skip


@pytest.mark.parametrize("field", fields(""))
def test_a_tombstone_refuses_its_text_in_every_field_until_it_is_lifted(field: str) -> None:
    (fact,), life = FACTS[1:2], Life()
    *needed, last = fields(fact)[field]
    for command in needed:
        life.ask(command)
    imported = tombstones_of(["something else"], Tombstones(), b"0 key of another", 1)
    life.ask(PutTombstones(now_us=2, tombstones=(*imported, *stones(fact))))
    with pytest.raises(ForgottenError):
        life.ask(last)
    life.ask(LiftTombstones(now_us=3, digests=(stones(fact)[0].digest,)))
    assert life.ask(last)


STEPS = st.lists(
    st.tuples(st.sampled_from(("put", "lift", *range(6))), st.sampled_from(FACTS)), max_size=24
)


@given(STEPS)
@settings(max_examples=30, deadline=None)
def test_a_forgotten_fact_is_refused_by_every_door_in_every_order(
    steps: list[tuple[str | int, str]],
) -> None:
    life, buried = Life(), set[str]()
    for number, (step, fact) in enumerate(steps, 1):
        if step == "put":
            life.ask(PutTombstones(now_us=number, tombstones=stones(fact)))
            buried.add(fact)
        elif step == "lift":
            digests = tuple(one.digest for one in stones(fact))
            life.ask(LiftTombstones(now_us=number, digests=digests))
            buried.discard(fact)
        else:
            said = f"  {fact.upper()}! And more." if number % 2 else fact
            command = doors(number, said)[int(step)]
            if fact in buried:
                before = life.state
                with suppress(ForgottenError):
                    assert life.ask(command) == [], "it says so already, or nothing came"
                assert life.state == before
            else:
                life.ask(command)
    replayed = fold(UserState(), life.log)
    assert snapshots.fingerprint(replayed) == snapshots.fingerprint(life.state)
    again = snapshots.load(snapshots.dump(life.state))
    assert snapshots.fingerprint(again) == snapshots.fingerprint(life.state)
    assert totals(replayed) == totals(life.state)
    assert len(life.state.tombstones.by_digest) == len(buried)


TEXTS = st.sampled_from(
    (*FACTS, "Anna lives in Bern and works for Y.", "I like tea. I like jam.", "Tom is tall")
)


@given(st.lists(st.tuples(st.integers(0, 5), TEXTS), max_size=16), st.sampled_from(FACTS))
@example([(4, FACTS[1])], FACTS[1])  # an entity that says it twice
@settings(max_examples=40, deadline=None)
def test_after_forgetting_nothing_says_the_fact_but_what_is_told_and_a_replay_agrees(
    said: list[tuple[int, str]], fact: str
) -> None:
    life = Life()
    for number, (door, text) in enumerate(said, 1):
        life.ask(doors(number, text)[door])
    before = life.state
    done = [one for one in life.ask(life.forgetting(fact)) if isinstance(one, SourcePurged)]
    kept = {memory_id for one in done for _, memory_id in one.kept}
    events = {one.version: one for one in life.log}
    for kind in KINDS:
        for row in kind.rows(life.state.of(kind)):
            content = kind.content(row, events)
            if row.memory_id not in kept:
                assert fact.casefold() not in content.casefold()
    untold = {memory_id for one in done for _, memory_id in (*one.gone, *one.changed)} | kept
    for kind in KINDS:
        for row in kind.rows(before.of(kind)):
            if row.memory_id not in untold:
                assert kind.find(life.state.of(kind), row.memory_id) == row
    replayed = fold(UserState(), life.log)
    assert snapshots.fingerprint(replayed) == snapshots.fingerprint(life.state)
    assert totals(replayed) == totals(life.state)
    assert kept or life.ask(life.forgetting(fact)) == [], "once is enough"


def test_a_similar_text_is_refused_by_the_embedding_in_the_command() -> None:
    """From exactly the cosine on; and a fact that is forgotten again may have another cosine."""
    life = Life()
    code = bytes([100, 0, 0])
    add = AddMemories(now_us=2, memories=(memory(1, "Tea is what I like", b"other"),))
    near, far = bytes([90, 10, 0]), bytes([0, 100, 0])
    for similar, refused, let_in in ((1.0, code, near), (0.9, near, far)):
        stone = stones("I like tea", similar=similar, code=code)
        assert life.ask(PutTombstones(now_us=1, tombstones=stone))
        assert not life.ask(PutTombstones(now_us=1, tombstones=stone))
        with pytest.raises(EmbeddingNeededError):
            life.ask(add)
        with pytest.raises(ForgottenError):
            life.ask(replace(add, codes={b"other": refused}))
        assert FOLD.decide(replace(add, codes={b"other": let_in}), life.state)


PIECES = st.sampled_from(
    ("Anna", "lives in Bern", "works", " and ", ". ", "\n", "- ", "he", "my", ",", "  ", "!", "and")
)


@given(st.lists(PIECES, max_size=9).map(" ".join), st.sampled_from((*FACTS, "Anna works", "works")))
@settings(max_examples=150, deadline=None)
def test_a_text_is_trimmed_or_kept_exactly_where_it_is_refused(text: str, fact: str) -> None:
    """Otherwise a living memory would lose words without an event that says so."""
    state = tombstones.state_of(stones(fact))
    left = trimmed(text, lambda one: state.of(one) is not None)
    assert (state.said_in(text) is None) == (left == text)
    if left:
        assert state.of(left) is None


@pytest.mark.parametrize(
    ("fact", "text", "left"),
    [
        ("Anna lives in Bern", "Anna lives in Bern and works for Y.", "Anna works for Y."),
        ("Anna works for Y", "Anna lives in Bern and works for Y.", "Anna lives in Bern."),
        ("I like tea", "I like tea. I like jam.", "I like jam."),
        ("I like tea", "I like tea, and Tom likes jam", "Tom likes jam"),
        ("I like tea", " i LIKE  tea!!", ""),
        ("My son is ill", "My son is ill and sleeps", None),
        ("tea", "I like teas and jam", "I like teas and jam"),
    ],
)
def test_a_compound_text_loses_the_part_that_was_forgotten(
    fact: str, text: str, left: str | None
) -> None:
    state = tombstones.PART.fold(
        Tombstones(), tentative([TombstonesPut(tombstones=stones(fact))], 1, 1)
    )
    assert trimmed(text, lambda one: state.of(one) is not None) == left
    assert (state.said_in(text) is None) == (left == text)
