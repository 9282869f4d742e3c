"""Random sequences of calls on mem0's `Memory` and on ours: what differs in shape, ids or errors.

mem0 runs on a local Qdrant in memory, with a stub embedder and no model. Compared are the keys and
types of what is returned, texts and metadata, which memories there are under which filters, and the
classes of errors. Times, scores, hashes of times and the order of results are not: see
docs/integrations/mem0.md for what differs on purpose.
"""

import os
import random
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from memory_actors.integrations.mem0 import Memory
from support.fakes import FakeEmbedder

CALLS = 40
WRONG = 0.08  # of the arguments: what both must refuse
FACTS = ("likes tea", "lives in Porto", "has a cat", "plays chess on Sundays", "is called Ada")
SCOPES: Sequence[dict[str, Any]] = (
    {"user_id": "u1"}, {"user_id": "u1"}, {"user_id": "u2"}, {"user_id": "u1", "agent_id": "a1"},
    {"user_id": "u1", "run_id": "r1"}, {"agent_id": "a1"}, {"run_id": "r1"},
    {"user_id": "u2", "agent_id": "a2", "run_id": "r2"}, {"user_id": 7}, {"user_id": " u1 "},
)  # fmt: skip
NO_SCOPES: Sequence[dict[str, Any]] = (
    {}, {"user_id": ""}, {"user_id": "a b"}, {"agent_id": "\t"},
)  # fmt: skip
METADATA: Sequence[Any] = (
    None, {}, {"cat": "food"}, {"cat": "home", "n": 3}, {"n": 5, "tags": ["a", "b"]},
    {"deep": {"x": 1}, "flag": True}, {"user_id": "u9", "cat": "x"}, {"hash": "h", "cat": "food"},
    {"created_at": "2024-01-01T00:00:00+00:00"}, {"attributed_to": "user", "id": "5"},
)  # fmt: skip
EXPIRATIONS: Sequence[Any] = (None, None, None, None, "2020-01-01", "2999-01-01")
NO_EXPIRATIONS: Sequence[Any] = ("soon", 5)
MORE_FILTERS: Sequence[dict[str, Any]] = (
    *[{}] * 12, {"cat": "food"}, {"cat": "*"}, {"cat": ["food", "home"]}, {"n": {"gt": 3}},
    {"n": {"gte": 3, "lt": 5}}, {"cat": {"ne": "food"}}, {"cat": {"in": ["food"]}},
    {"cat": {"nin": ["food"]}}, {"cat": {"eq": "home"}}, {"OR": [{"cat": "food"}, {"n": 5}]},
    {"NOT": [{"cat": "food"}]}, {"AND": [{"cat": "home"}, {"n": 3}]}, {"deep.x": 1},
    {"role": "user"}, {"actor_id": "bob"}, {"flag": True},
)  # fmt: skip
NO_FILTERS: Sequence[Any] = (
    {"n": {"like": 3}}, {"OR": 5}, {"NOT": {"cat": "food"}}, {"n": {"gt": 3, "eq": 4}},
)  # fmt: skip


def one_of(rng: random.Random, right: Sequence[Any], wrong: Sequence[Any]) -> Any:
    """Return an argument; a wrong one now and then."""
    return rng.choice(wrong if rng.random() < WRONG else right)


def spoken(rng: random.Random) -> Any:
    """Return messages, or what is none."""
    text = f"{rng.choice(FACTS)} {rng.randrange(1000)}"
    return one_of(
        rng,
        [
            text,
            text,
            {"role": "user", "content": text},
            [{"role": "user", "content": text, "name": "bob"}],
            [{"role": "user", "content": text}, {"role": "assistant", "content": f"so: {text}"}],
            [{"role": "system", "content": "be kind"}, {"role": "user", "content": text}],
            [{"role": "assistant", "content": None}, {"content": "no role"}],
            [{"role": "user", "content": [{"type": "text", "text": text}, {"type": "image_url"}]}],
            [{"role": "user", "content": [{"type": "image_url"}]}],
            [],
        ],
        [5, None],
    )


class Call(NamedTuple):
    """A call; `at` is where the memory that it is about stands among all; from 0.95 on, nowhere."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    at: float | None = None


def calls(rng: random.Random) -> Iterator[Call]:
    """Yield calls for ever."""
    makers = [_add] * 12 + [_update] * 4 + [_search] * 4 + [_get_all] * 4 + [_get, _history] * 2
    makers += [_delete, _delete, _misuse, _misuse]
    makers = makers * 3 + [_delete_all]
    while True:
        yield Call("reset", (), {}) if rng.random() < 0.005 else rng.choice(makers)(rng)


def _add(rng: random.Random) -> Call:
    kwargs = {**one_of(rng, SCOPES, NO_SCOPES), "metadata": rng.choice(METADATA), "infer": False}
    expires = one_of(rng, EXPIRATIONS, NO_EXPIRATIONS)
    return Call("add", (spoken(rng),), {**kwargs, "expiration_date": expires})


def _update(rng: random.Random) -> Call:
    kwargs: dict[str, Any] = {}
    if rng.random() < 0.7:
        kwargs["text"] = f"{rng.choice(FACTS)}, it is said {rng.randrange(1000)}"
    if rng.random() < 0.4:
        kwargs["metadata"] = rng.choice(METADATA)
    if rng.random() < 0.3:
        kwargs["expiration_date"] = one_of(rng, EXPIRATIONS, NO_EXPIRATIONS)
    return Call("update", (), kwargs, rng.random())


def _filters(rng: random.Random) -> Any:
    scope = one_of(rng, SCOPES, NO_SCOPES) or one_of(rng, [{}], [None])
    more = one_of(rng, MORE_FILTERS, NO_FILTERS)
    return None if scope is None else {**scope, **more}


def _search(rng: random.Random) -> Call:
    query = one_of(rng, [*FACTS, "tea"], ["", "  ", 5])
    return Call("search", (query,), {"filters": _filters(rng), "top_k": 60, "threshold": 0.0})


def _get_all(rng: random.Random) -> Call:
    shown = rng.random() < 0.5
    return Call("get_all", (), {"filters": _filters(rng), "top_k": 60, "show_expired": shown})


def _get(rng: random.Random) -> Call:
    return Call("get", (), {}, rng.random())


def _history(rng: random.Random) -> Call:
    return Call("history", (), {}, rng.random())


def _delete(rng: random.Random) -> Call:
    return Call("delete", (), {}, rng.random())


def _delete_all(rng: random.Random) -> Call:
    return Call("delete_all", (), dict(one_of(rng, SCOPES, NO_SCOPES)))


def _misuse(rng: random.Random) -> Call:
    found: list[Call] = [
        Call("add", ("x",), {"user_id": "u1", "infer": False, "memory_type": "no such"}),
        Call("add", ("x",), {"user_id": "u1", "infer": False, "timestamp": 5}),
        Call("search", ("x",), {"user_id": "u1"}),
        Call("get_all", (), {"agent_id": "a1", "filters": {"user_id": "u1"}}),
        Call("search", ("x",), {"filters": {"user_id": "u1"}, "threshold": 2}),
        Call("search", ("x",), {"filters": {"user_id": "u1"}, "top_k": -1}),
        Call("search", ("x",), {"filters": {"user_id": "u1"}, "top_k": "5"}),
        Call("get_all", (), {"filters": {"user_id": "u1"}, "top_k": True}),
        Call("search", ("x",), {"filters": {"user_id": "u1"}, "reference_date": "2024-01-01"}),
        Call("update", (), {}, 0),
    ]
    return rng.choice(found)


# --- the two


class Stub:
    """An embedder for mem0: a vector of positive numbers for each text."""

    config = None

    def embed(self, text: str, _action: str = "add") -> list[float]:
        seed = int.from_bytes(text.encode()[:64], "big") % (1 << 32)
        vector = np.random.default_rng(seed).random(8) + 0.1
        return [float(one) for one in vector / np.linalg.norm(vector)]


@contextmanager
def theirs(directory: Path) -> Iterator[Any]:
    """Hold mem0's `Memory`."""
    os.environ |= {"MEM0_TELEMETRY": "False", "MEM0_DIR": str(directory)}
    from mem0 import Memory as Mem0
    from mem0.configs.base import MemoryConfig
    from mem0.utils.factory import EmbedderFactory, LlmFactory
    from qdrant_client import QdrantClient

    where = {
        "client": QdrantClient(":memory:"), "collection_name": "facts",
        "embedding_model_dims": 8,
    }  # fmt: skip
    config = MemoryConfig(
        vector_store={"provider": "qdrant", "config": where},
        history_db_path=":memory:",
    )
    made: Callable[..., Any] = lambda *_: Stub()  # noqa: E731
    with patch.object(EmbedderFactory, "create", made), patch.object(LlmFactory, "create", made):
        memory = Mem0(config)
        yield memory
        memory.close()


@contextmanager
def ours(directory: Path) -> Iterator[Memory]:
    with Memory(directory / "memory", embedder=FakeEmbedder(), alerts=[]) as memory:
        yield memory


# --- compared


class Pair:
    """Both, the ids of what was added to them in the same order, and what differs."""

    def __init__(self, mine: Any, other: Any):
        self.sides = (mine, other)
        self.ids: list[tuple[str, str]] = []

    def call(self, call: Call) -> str | None:
        """Make a call on both; return how they differ, None if they do not."""
        said = [self._answer(side, call) for side in (0, 1)]
        if call.name == "add" and not any(isinstance(one, Exception) for one in said):
            added = [[each["id"] for each in one["results"]] for one in said]
            self.ids += zip(*added, strict=False)
        mine, other = said
        if isinstance(mine, Exception) or isinstance(other, Exception):
            return self._errors(call, mine, other)
        shapes = [self._shape(one, side) for side, one in enumerate(said)]
        return None if shapes[0] == shapes[1] else f"{call}: {shapes[0]} / {shapes[1]}"

    def _answer(self, side: int, call: Call) -> Any:
        args = call.args
        if call.at is not None:
            place = int(call.at * len(self.ids))
            is_known = self.ids and call.at < 0.95
            args = (self.ids[place][side] if is_known else str(uuid.uuid4()), *args)
        try:
            return getattr(self.sides[side], call.name)(*args, **call.kwargs)
        except Exception as error:
            return error

    def _errors(self, call: Call, mine: Any, other: Any) -> str | None:
        kinds = {kind.__name__ for kind in type(mine).__mro__}
        if isinstance(mine, Exception) and type(other).__name__ in kinds:
            return None
        return f"{call}: {mine!r:.200} / {other!r:.200}"

    def _shape(self, value: Any, side: int) -> Any:
        """Return the comparable form of an answer: ids by their numbers, times by their types."""
        if isinstance(value, dict):
            return {name: self._field(name, one, side) for name, one in sorted(value.items())}
        if isinstance(value, list):
            return sorted((self._shape(one, side) for one in value), key=repr)
        return value

    def _field(self, name: str, value: Any, side: int) -> Any:
        if name in ("id", "memory_id"):
            numbers = [n for n, ids in enumerate(self.ids) if ids[side] == value]
            return (type(value), uuid.UUID(value) is not None, numbers)
        if name in ("created_at", "updated_at"):
            return value if str(value).startswith("2024") else type(value)
        if name == "score":
            return None if value is None else type(value)
        return self._shape(value, side)


def compared(directory: Path, seed: int) -> list[str]:
    """Return how the two differ over one sequence."""
    rng = random.Random(seed)
    found = []
    with theirs(directory) as other, ours(directory) as mine:
        pair = Pair(mine, other)
        for _, call in zip(range(CALLS), calls(rng), strict=False):
            if (difference := pair.call(call)) is not None:
                found.append(difference)
    return found
