"""Arguments of every public call: exact values are kept of them, and what is none is refused."""

import inspect
from datetime import UTC, datetime
from enum import Enum, IntEnum
from typing import Any

import pytest

from memory_actors import Episode, InvalidInputError, Item, Memory, MemoryActorsError, Step
from memory_actors.base.validation import json_copy

pytestmark = pytest.mark.anyio

NOW = datetime(2024, 5, 1, tzinfo=UTC)


class Color(str, Enum):  # noqa: UP042 - a `StrEnum` is what `str` of it says
    RED = "red"


class Size(IntEnum):
    SMALL = 3


class Count(int):
    def __int__(self) -> int:
        return 7


class Share(float):
    def __float__(self) -> float:
        return 7.0


# --- exact values


async def test_values_of_another_class_are_the_values_they_are() -> None:
    given = {Color.RED: [Color.RED, Size.SMALL, Count(3), Share(0.5), True, None]}
    copy = json_copy(given, "value")
    assert copy == {"red": ["red", 3, 3, 0.5, True, None]}
    assert list(map(type, copy)) == [str]
    assert list(map(type, copy["red"])) == [str, int, int, float, bool, type(None)]


async def test_a_member_of_an_enumeration_is_found_by_its_value(user: Any) -> None:
    added = await user.add("a rose", metadata={Color.RED: Color.RED})
    for value in ("red", Color.RED):
        (hit,) = await user.retrieve("rose", filters={"red": value})
        assert (hit.memory_id, hit.metadata) == (added.memory_id, {"red": "red"})
    await user.working.set(Color.RED, {"c": Color.RED})
    assert await user.working.items() == {"red": {"c": "red"}}
    await user.documents.put("c", {"c": Color.RED}, key="k")
    (document,) = await user.documents.find("c", {"c": "red"})
    assert document.value == {"c": "red"}


async def test_texts_of_another_class_are_the_texts_they_are(memory: Any, user: Any) -> None:
    """Each write is compared with its replay: what it is indexed by is of the plain text too."""
    red: Any = Color.RED
    rose = await user.entities.add_entity(red, red, [red])
    await user.entities.add_entity("rose", observations=["is grown"])
    await user.entities.relate("rose", red, "red", fact=red)
    started = await user.episodes.start(red)
    await user.episodes.step(started.memory_id, red, observation=red, error=red)
    await user.episodes.finish(started.memory_id, red)
    key = await user.working.set(red, 1)
    await user.update(key.memory_id, content=red)
    entity = await user.entities.get(rose.memory_id)
    assert (entity.name, entity.type, entity.observations) == ("red", "red", ("red",))
    said = {hit.content for hit in await user.retrieve("red", top_k=50)}
    assert not [text for text in said if "Color" in text]
    await user.entities.remove_observation("red", red)
    assert (await user.entities.get("red")).observations == ()
    other = memory.user("v").episodes
    put = await other.put(an_episode(goal=red, steps=(Step(number=1, action=red),)))
    (step,) = (await other.get(put.memory_id)).steps
    assert step.action == "red"


# --- what is no argument


def an_episode(**fields: Any) -> Episode:
    given = {
        "memory_id": "e", "agent_id": "bot", "goal": "book", "status": "running", "result": None,
        "steps": (), "evicted": (), "steps_evicted": 0, "metadata": {}, "session_id": None,
        "created_at": NOW, "occurred_at": NOW, "pinned": False,
    }  # fmt: skip
    return Episode(**{**given, **fields})


def a_memory(**fields: Any) -> Memory:
    given = {
        "memory_id": "s", "content": "x", "memory_type": "long_term", "metadata": {},
        "created_at": NOW, "occurred_at": NOW,
    }  # fmt: skip
    return Memory(**{**given, **fields})


BLOCK = {"document": "MEMORY.md", "raw": "- a\n", "rank": "V"}
SECTION = {"heading_id": "h", "title": "T", "raw": "## T\n", "rank": "U"}
ITEM = Item(content="a")


async def test_a_block_is_put_as_an_export_has_it(user: Any) -> None:
    archived = {**BLOCK, "archived": True, "section": SECTION}
    await user.context._put_block("b", ITEM, archived)
    await user.context.restore(["b"])
    assert await user.context.render() == "## T\n- a\n"
    with pytest.raises(InvalidInputError, match="an Item"):
        await user.context._put_block("c", {"content": "a"}, BLOCK)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "part", ["", "working", "short_term", "entities", "episodes", "documents", "context"]
)
async def test_a_wrong_type_is_refused_by_a_typed_error(open_memory: Any, part: str) -> None:
    """Each parameter of each method gets what it cannot be, and the others what they can."""
    async with open_memory(check_replay=False) as memory:
        methods = inspect.getmembers(handle(memory.user("u"), part), inspect.ismethod)
        for name in [name for name, _ in methods if name[0] != "_" or name == "__call__"]:
            user = memory.user(name)
            await user.entities.add_entity("x")
            await refuse_odd_arguments(getattr(handle(user, part), name))


@pytest.mark.no_http
async def test_what_is_no_yes_or_no_is_refused(memory: Any) -> None:
    user = memory.user("u").from_source("web")
    await user.add("a rose")
    odd_values: tuple[Any, ...] = ("no", 1, 0, None)
    for odd in odd_values:
        for refused in (
            user.purge("web", dry_run=odd),
            memory.purge("web", dry_run=odd),
            memory.compact(dry_run=odd),
        ):
            with pytest.raises(InvalidInputError, match="dry_run must be True or False"):
                await refused
        if odd is not None:
            with pytest.raises(InvalidInputError, match="episodes must be True or False"):
                await memory.compact(episodes=odd)


async def test_dropped_originals_are_kept_or_dropped(memory: Any) -> None:
    """The argument about what was dropped is one of two words."""
    await memory.user("u").add("a rose")
    odd_values: tuple[Any, ...] = ("Mark", "", None, True, ["mark"])
    for odd in odd_values:
        with pytest.raises(InvalidInputError, match="dropped must be one of raise, mark"):
            await memory.diff("u", 0, dropped=odd)
        with pytest.raises(InvalidInputError, match="dropped must be one of raise, mark"):
            async with memory.replay("u", dropped=odd):
                pass
    async with memory.replay("u", dropped="mark") as past:
        assert past.lost == 0


# --- how


ODD = (None, 5, 10**30, float("nan"), "\ud800", b"x", [], [5], [None], {}, {5: 5}, object())
GOOD = {
    "names": {}, "changes": [], "base": [], "value": 1, "document": {"a": 1}, "item": ITEM,
    "data": BLOCK, "tier": "pro", "origins": (), "items": [ITEM], "memory_ids": ["x"],
    "entry_ids": ["x"], "episode": an_episode(), "memory": a_memory(),
}  # fmt: skip


async def refuse_odd_arguments(method: Any) -> None:
    for wanted in inspect.signature(method).parameters.values():
        for odd in ODD:
            given, more = arguments(method, wanted, odd)
            try:
                await ended(method(*given, **more))
            except MemoryActorsError:
                continue
            except Exception as error:
                raise AssertionError(f"{method.__name__}({wanted.name}={odd!r})") from error


def handle(user: Any, part: str) -> Any:
    return getattr(user, part) if part else user


def arguments(method: Any, wanted: inspect.Parameter, odd: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments of a method, an odd one where it is wanted."""
    given, more = [], {}
    for parameter in inspect.signature(method).parameters.values():
        value = odd if parameter == wanted else GOOD.get(parameter.name, "x")
        if parameter.kind is parameter.VAR_KEYWORD:
            continue
        if parameter.kind is parameter.KEYWORD_ONLY:
            more |= {parameter.name: value} if parameter == wanted else {}
        elif parameter == wanted or parameter.default is parameter.empty:
            given.append(value)
        else:
            given.append(parameter.default)
    return given, more


async def ended(called: Any) -> None:
    if inspect.isasyncgen(called):
        async for _ in called:
            pass
    elif inspect.isawaitable(called):
        await called
