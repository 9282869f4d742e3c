"""Any mixture of memories: what is exported, imported and exported again is the same."""

import asyncio
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from hypothesis import event, given, settings
from hypothesis import strategies as st
from support.fakes import FakeClock, FakeEmbedder, FakeIds
from support.given import pro

from memory_actors import Limits, MemoryActorsError, MemorySystem, Settings
from memory_actors.api.user import UserMemory
from memory_actors.interchange import export_jsonl, import_jsonl

Operation = tuple[str, Mapping[str, Any]]

names = st.sampled_from(["Ada", "ADA ", "Bob", "Acme", "Æ “x”\u2028y"])
keys = st.sampled_from(["k1", "k2", "k3"])
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(str.strip)
maybe_text = st.none() | texts
times = st.none() | st.datetimes(timezones=st.just(UTC))
flags = st.booleans()
lifetimes = st.none() | st.integers(1_000, 100_000)
which = st.integers(0, 40)
"""Of the memories there are."""
values = st.one_of(
    st.none(), flags, st.integers(-(2**63), 2**63 - 1), st.floats(-1e9, 1e9), st.text(max_size=5),
    st.lists(st.integers(0, 9), max_size=2), st.dictionaries(keys, st.booleans(), max_size=2),
)  # fmt: skip
objects = st.dictionaries(st.sampled_from(["", "a", "b.c", "\\d"]), values, max_size=2)


def operation(what: str, /, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Operation]:
    return st.tuples(st.just(what), st.fixed_dictionaries(fields))


operations = st.lists(
    st.one_of(
        operation(
            "fact", content=texts, role=maybe_text, session_id=maybe_text, metadata=objects,
            occurred_at=times, pinned=flags, ttl_s=lifetimes,
        ),
        operation("message", content=texts, session_id=keys, role=maybe_text, occurred_at=times),
        operation("key", key=keys, value=values, metadata=objects, ttl_s=lifetimes),
        operation(
            "entity", name=names, type=keys, observations=st.lists(texts, max_size=3),
            metadata=objects, occurred_at=times, pinned=flags,
        ),
        operation("observe", which=which, text=texts),
        operation("unobserve", which=which),
        operation(
            "relate", source=which, relation=keys, target=which, fact=maybe_text, lasts=times,
            exclusive=flags, metadata=objects, pinned=flags,
        ),
        operation("end", which=which),
        operation(
            "episode", goal=texts, agent_id=keys, session_id=maybe_text, metadata=objects,
            occurred_at=times, pinned=flags,
        ),
        operation(
            "step", which=which, action=texts, observation=maybe_text, outcome=maybe_text,
            error=maybe_text,
        ),
        operation("finish", which=which, result=maybe_text, success=flags),
        operation(
            "document", collection=keys, document=objects, key=st.none() | keys,
            metadata=st.none() | objects, occurred_at=times, pinned=st.none() | flags,
            ttl_s=lifetimes,
        ),
        operation("update", which=which, content=maybe_text, metadata=st.none() | objects),
        operation("delete", which=which),
        operation("restore", which=which),
    ),
    min_size=20,
    max_size=60,
)  # fmt: skip


class Run:
    """Carries operations out on one user; what cannot be is refused and left."""

    def __init__(self, users: Sequence[UserMemory], clock: FakeClock):
        self._users = users
        self.clock = clock
        self.ids: list[str] = []
        self.count = 0

    @property
    def user(self) -> UserMemory:
        """Return the user, by one agent or none, from one source or another, or from nowhere."""
        sources = (None, "https://a.example", "a tool")
        user = self._users[self.count % len(self._users)]
        return user.from_source(sources[self.count % 3], ("untrusted", None)[self.count % 2])

    async def do(self, name: str, fields: Mapping[str, Any]) -> None:
        self.clock.move(0.001)
        self.count += 1
        with suppress(MemoryActorsError):
            receipt = await getattr(self, name)(**fields)
            self.ids.append(receipt.memory_id)

    def pick(self, which: int, kind: str | None = None) -> str:
        ids = [i for i in self.ids if kind is None or i.startswith(kind)]
        return ids[which % len(ids)] if ids else "none"

    async def fact(self, **fields: Any) -> Any:
        return await self.user.add(**fields)

    async def message(self, **fields: Any) -> Any:
        return await self.user.short_term.add_message(**fields)

    async def key(self, **fields: Any) -> Any:
        return await self.user.working.set(**fields)

    async def entity(self, **fields: Any) -> Any:
        return await self.user.entities.add_entity(**fields, memory_id=f"ent{self.count}")

    async def observe(self, which: int, text: str) -> Any:
        return await self.user.entities.observe(self.pick(which, "ent"), text)

    async def unobserve(self, which: int) -> Any:
        entity = await self.user.entities.get(self.pick(which, "ent"))
        text = (entity.observations or ("none",))[0]
        return await self.user.entities.remove_observation(entity.memory_id, text)

    async def relate(self, source: int, target: int, lasts: datetime | None, **fields: Any) -> Any:
        begins = datetime(2000, 1, 1, tzinfo=UTC) + timedelta(days=self.count * 37 % 31)
        ends = None if lasts is None else begins + timedelta(days=lasts.day % 9)
        return await self.user.entities.relate(
            self.pick(source, "ent"), target=self.pick(target, "ent"), valid_from=begins,
            valid_to=ends, memory_id=f"rel{self.count}", **fields,
        )  # fmt: skip

    async def end(self, which: int) -> Any:
        return await self.user.entities.end(self.pick(which, "rel"))

    async def episode(self, **fields: Any) -> Any:
        return await self.user.episodes.start(**fields, memory_id=f"epi{self.count}")

    async def step(self, which: int, **fields: Any) -> Any:
        return await self.user.episodes.step(self.pick(which, "epi"), **fields)

    async def finish(self, which: int, **fields: Any) -> Any:
        return await self.user.episodes.finish(self.pick(which, "epi"), **fields)

    async def document(self, **fields: Any) -> Any:
        return await self.user.documents.put(**fields)

    async def update(self, which: int, **fields: Any) -> Any:
        return await self.user.update(self.pick(which), **fields)

    async def delete(self, which: int) -> Any:
        return await self.user.delete(self.pick(which))

    async def restore(self, which: int) -> Any:
        (receipt,) = await self.user.restore([self.pick(which)]) or [None]
        return receipt or await self.user.delete("none")


async def there_and_back(chosen: list[Operation], directory: Path) -> None:
    clock, embedder, new_id = FakeClock(), FakeEmbedder(), FakeIds()
    one, two = (directory / name for name in ("one.jsonl", "two.jsonl"))
    async with MemorySystem.open(
        directory / "memory",
        embedder=embedder,
        clock=clock,
        new_id=new_id,
        settings=Settings(tiers=pro(Limits(episode_steps=2)), check_replay=True),
    ) as memory:
        here, there = memory.user("here"), memory.user("there")
        agents = [here, *(memory.user("here", agent_id=name) for name in ("planner", "critic"))]
        run = Run([*agents, here], clock)
        for name, fields in chosen:
            await run.do(name, fields)
        count = await export_jsonl(here, one)
        report = await import_jsonl(there, one)
        await export_jsonl(there, two)
        assert two.read_bytes() == one.read_bytes()
        assert await written(there) == await written(here)
        assert (report.added, report.unchanged) == (count, 0)
        for user in (there, here):
            again = await import_jsonl(user, one)
            assert (again.added, again.unchanged) == (0, count)
        assert await export_jsonl(there, two) == await export_jsonl(here, one) == count
        assert two.read_bytes() == one.read_bytes()
        event(f"{count // 10 * 10} memories or more")


async def written(user: UserMemory) -> list[tuple[str, str | None, datetime | None]]:
    """Return the agent and the end of each memory of a user, by its id."""
    return sorted([(one.memory_id, one.agent_id, one.expires_at) async for one in user.export()])


@settings(max_examples=12, deadline=None)
@given(chosen=operations)
def test_what_is_exported_imported_and_exported_again_is_the_same(
    chosen: list[Operation],
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(there_and_back(chosen, Path(directory)))
