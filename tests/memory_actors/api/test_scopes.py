"""Scopes with grants: who reads what, searches over several scopes, and a person who is erased."""

import asyncio
from collections.abc import Awaitable, Callable
from random import Random
from typing import Any

import pytest
from support.given import recorded

from memory_actors import AccessDeniedError, InvalidInputError, NotFoundError, Right, UserMemory
from memory_actors.kinds import grants
from memory_actors.kinds.commands import Command
from memory_actors.kinds.grants import SetRight
from memory_actors.kinds.user_state import FOLD, UserState
from memory_actors.kinds.working import KeySet, SetKey

pytestmark = pytest.mark.anyio

SUBJECTS = ("person:ada", "person:bob", "agent:planner", "key:1f")
RIGHTS = ("read", "write", "manage")
GRANTS_MAX = 3


class Model:
    """The rule of grants in ten lines."""

    def __init__(self) -> None:
        self.rights: dict[str, str] = {}
        self.governed = False

    def allows(self, by: tuple[str, ...], right: str) -> bool:
        if not by:
            return True
        if not self.governed:
            return not any(one.startswith("key:") for one in by)
        has = [RIGHTS.index(self.rights[one]) for one in by if one in self.rights]
        return max(has, default=-1) >= RIGHTS.index(right)


def step(act: Random) -> tuple[str, tuple[str, ...], str, str]:
    """Return an action, its subjects, and the subject and right that it is about."""
    by = tuple(act.sample(SUBJECTS, act.choice((0, 0, 1, 1, 1, 2))))
    name = act.choice(("grant", "grant", "revoke", "write", "read"))
    return name, by, act.choice(SUBJECTS), act.choice(RIGHTS)


def command_of(name: str, by: tuple[str, ...], subject: str, right: str) -> Command:
    if name in ("grant", "revoke"):
        given = Right(right) if name == "grant" else None
        return SetRight(now_us=1, by=by, subject=subject, right=given)
    return SetKey(now_us=1, by=by, entry=KeySet(memory_id="m", key="k", value=1, size_bytes=1))


def outcome(name: str, by: tuple[str, ...], subject: str, right: str, state: UserState) -> Any:
    """Return whether a read is allowed, or the events of a write; None if it is refused."""
    if name == "read":
        return state.grants.allow(by, Right.READ)
    try:
        return FOLD.decide(command_of(name, by, subject, right), state)
    except AccessDeniedError:
        return None
    except NotFoundError:  # to revoke what nobody has
        assert name == "revoke"
        return []
    except InvalidInputError:
        assert (name, len(state.grants.rights)) == ("grant", GRANTS_MAX)
        assert subject not in state.grants.rights
        return []


def test_a_thousand_sequences_of_grants_let_in_whom_the_model_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """There may be three grants for four subjects, and never more."""
    monkeypatch.setattr(grants, "GRANTS_MAX", GRANTS_MAX)
    for seed in range(1_000):
        act, model, state = Random(seed), Model(), FOLD.initial
        for _ in range(15):
            name, by, subject, right = step(act)
            came = outcome(name, by, subject, right, state)
            needs = name if name in RIGHTS else "manage"
            assert (came is not None and came is not False) == model.allows(by, needs), seed
            if not isinstance(came, list) or not came:
                continue
            state = FOLD.evolve_many(state, [recorded(event) for event in came])
            assert not by or by[0] in state.grants.known, "the first one wrote"
            if name == "grant":
                model.rights[subject], model.governed = right, True
            elif name == "revoke":
                del model.rights[subject]
            assert len(state.grants.rights) <= GRANTS_MAX
        assert state.grants.rights == model.rights, seed


async def refused(call: Awaitable[object]) -> str:
    with pytest.raises(AccessDeniedError) as refusal:
        await call
    return str(refusal.value)


async def test_a_search_of_several_scopes_is_one_search(memory: Any, embedder: Any) -> None:
    project, ada = memory.user("project:x"), memory.user("ada")
    await project.grant("ada")
    for user, text in ((ada, "ada ships on friday"), (project, "the team ships on friday")):
        await user.add(text)
        await user.add("tea is in the kitchen")
    await memory.user("team:y").add("another team ships on monday")
    embedder.texts.clear()
    both = ada.reads("project:x", "team:y", "project:x")
    hits = await both.retrieve("who ships on friday?", top_k=4)
    assert embedder.texts.count("who ships on friday?") == 1
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    found = {hit.content: hit.scope for hit in hits}
    assert found["the team ships on friday"] == "project:x"
    assert found["another team ships on monday"] == "team:y"
    (tea,) = [hit for hit in hits if "tea is" in hit.content]
    assert len(tea.near_duplicates) == 1
    assert len(await both.retrieve("who ships on friday?", top_k=2)) == 2
    assert len({hit.answered for hit in hits}) == 1
    prompt = await both.context("who ships on friday?")
    assert {part.scope for part in prompt.parts} == {"ada", "project:x", "team:y"}
    receipt = await both.add("ada likes rye bread")
    assert (await ada.get(receipt.memory_id)).content == "ada likes rye bread"


async def test_a_write_to_a_shared_scope_names_who_wrote(memory: Any) -> None:
    await memory.user("project:x").grant("ada", "write")
    mine = memory.user("project:x", by="ada")
    receipt = await mine.add("the build is green")
    written = await memory.user("project:x").get(receipt.memory_id)
    assert [one.source for one in written.origins] == ["person:ada"]
    cited = await mine.from_source("https://x.example", "untrusted").add("the sky is green")
    origins = (await mine.get(cited.memory_id)).origins
    assert {one.source for one in origins} == {"https://x.example", "person:ada"}
    assert await mine.count(sources=["person:ada"]) == 1
    with pytest.raises(InvalidInputError):
        mine.from_source("person:bob")
    own = await memory.user("ada", by="ada").add("mine alone")
    assert (await memory.user("ada").get(own.memory_id)).origins == ()


CALLS: dict[str, Callable[[UserMemory], Awaitable[object]]] = {
    "retrieve": lambda user: user.retrieve("secret"),
    "context": lambda user: user.context("secret"),
    "get": lambda user: user.get("m"),
    "list_memories": lambda user: user.list_memories(),
    "count": lambda user: user.count(),
    "history": lambda user: user.history("m"),
    "why": lambda user: user.why("m"),
    "full_id": lambda user: user.full_id("m"),
    "extractions": lambda user: user.extractions(),
    "forgotten": lambda user: user.forgotten(),
    "usage": lambda user: user.usage(),
    "cost": lambda user: user.estimate_monthly_cost(),
    "grants": lambda user: user.grants(),
    "export": lambda user: anext(user.export()),
    "working": lambda user: user.working.get("k"),
    "messages": lambda user: user.short_term.messages(),
    "entity": lambda user: user.entities.get("e"),
    "document": lambda user: user.documents.find(),
    "render": lambda user: user.context.render(),
    "add": lambda user: user.add("x"),
    "update": lambda user: user.update("m", content="x"),
    "delete": lambda user: user.delete("m"),
    "delete_many": lambda user: user.delete_many({"n": 1}),
    "restore": lambda user: user.restore(["m"]),
    "purge": lambda user: user.purge("a source"),
    "forget": lambda user: user.forget("m"),
    "set": lambda user: user.working.set("k", 1),
    "grant": lambda user: user.grant("bob", "manage"),
    "revoke": lambda user: user.revoke("ada"),
    "set_tier": lambda user: user.set_tier("pro"),
}
READS = list(CALLS)[: list(CALLS).index("add")]


async def test_a_revoked_grant_ends_with_the_next_call_of_whatever_kind(memory: Any) -> None:
    scope = memory.user("project:x")
    await scope.add("the secret is in the safe", memory_id="m")
    await scope.grant("ada", "manage")
    ada, bob = memory.user("project:x", by="ada"), memory.user("project:x", by="bob")
    assert (await ada.right(), await bob.right()) == ("manage", None)
    assert len(await ada.retrieve("secret")) == 1
    reading = ada.export()
    assert (await anext(reading)).memory_id == "m"
    await scope.revoke("ada")
    for name, call in CALLS.items():
        for user in (ada, bob):
            said = await refused(call(user))
            assert "safe" not in said, name
    assert await refused(memory.user("ada").reads("project:x").retrieve("secret"))
    assert await scope.count() == 1
    assert await scope.grants() == {}


async def test_readers_do_not_write_and_writers_do_not_manage(memory: Any) -> None:
    scope = memory.user("project:x")
    await scope.grant("agent:planner", "write")
    await scope.grant("ada", "read")
    await scope.add("m", memory_id="m", metadata={"n": 1})
    reader, writer = (memory.user("project:x", by=by) for by in ("ada", "agent:planner"))
    for name, call in CALLS.items():
        if name not in READS:
            await refused(call(reader))
    assert (await writer.add("by the planner")).operation == "add"
    for name in ("grant", "revoke", "set_tier", "purge", "forget"):
        await refused(CALLS[name](writer))
    labelled = memory.user("project:x", agent_id="planner", by="bob")
    await refused(labelled.count())
    await refused(memory.user("project:x", by="key:planner").count())


async def test_grants_survive_and_are_seen_by_those_who_come_later(open_memory: Any) -> None:
    async with open_memory() as memory:
        await memory.user("project:x").grant("ada", "read")
        await memory.user("project:x").grant("bob")
        await memory.user("project:x").revoke("bob")
    async with open_memory() as memory:
        assert await memory.user("project:x", by="ada").grants() == {"person:ada": "read"}
        await refused(memory.user("project:x", by="bob").count())


@pytest.mark.parametrize("fate", ["erase", "anonymous"])
async def test_a_person_who_is_erased_leaves_the_scopes_of_others(
    open_memory: Any, fate: str
) -> None:
    async with open_memory(shared_writes_on_erase=fate) as memory:
        scope = memory.user("project:x")
        await memory.user("team:y", by="ada").add("tea by ada")  # it never had a grant
        await scope.grant("ada", "write")
        await scope.grant("bob", "write")
        for by in ("ada", "bob"):
            await memory.user("project:x", by=by).add(f"bread by {by}")
        await memory.user("project:x", by="ada").working.set("k", "by ada")
        receipt = await memory.erase("ada")
        assert receipt.scopes == 2
        assert await scope.grants() == {"person:bob": "write"}
        left = {one.content: one.origins for one in await scope.list_memories()}
        names = {one.source for origins in left.values() for one in origins}
        assert names == {"person:bob"}
        assert ("bread by ada" in left) == (fate == "anonymous")
        logged = str([one async for one in memory.events("project:x")])
        assert ("bread by ada" in logged) == (fate == "anonymous")
        assert "bread by bob" in logged
        assert await memory.user("team:y").count() == (fate == "anonymous")
        assert (await memory.erase("ada")).events == 0


async def test_subjects_and_scopes_are_checked(memory: Any) -> None:
    scope = memory.user("project:x")
    for wrong in ("", "person:", "x" * 600):
        with pytest.raises(InvalidInputError):
            await scope.grant(wrong)
        with pytest.raises(InvalidInputError):
            memory.user("project:x", by=wrong)
    with pytest.raises(InvalidInputError):
        await scope.grant("ada", "own")
    with pytest.raises(InvalidInputError):
        scope.reads(*(f"s{n}" for n in range(17)))
    await scope.add("x")
    async with memory.replay("project:x") as past:
        with pytest.raises(InvalidInputError):
            past.reads("ada")


async def test_two_persons_who_know_each_other_are_erased_at_once(memory: Any) -> None:
    for one, other in (("ada", "bob"), ("bob", "ada")):
        await memory.user(one).add("tea")
        await memory.user(one).grant(other, "write")
    await asyncio.gather(memory.erase("ada"), memory.erase("bob"))
    assert await memory.users() == []
