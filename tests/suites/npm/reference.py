"""Random sequences of calls to the reference memory server and to ours: the same answers.

The reference runs in Node over stdio, ours in this process, both behind the client of the package
`mcp`. A sequence begins with an empty graph on both sides. Answers are compared as
`structuredContent`, the order in lists aside. What differs on purpose (`differences.py`) does not
come up in a sequence; each has a test of its own.
"""

import json
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from mcp import Client, StdioServerParameters

from bench.hashed import HashedEmbedder
from memory_actors import MemorySystem, UserMemory
from memory_actors.integrations.mcp.serving import Context, new_server
from suites.npm.differences import Call
from suites.npm.node import node, package

PACKAGE, VERSION = "@modelcontextprotocol/server-memory", "2026.8.31"
CALLS_MAX = 16
NAMES = ("Ann", "Bob", "Acme Ltd", "Zoë", "東京", "tea_time", "O'Hara", "mem_0660", "x" * 100)
TYPES = ("person", "company", "place")
RELATIONS = ("knows", "works_at", "lives_in", "is part of", "λ")
TEXTS = (
    "likes tea", "Likes Tea", "lives in Oslo", "ÜBER 30", "a\nb", "tea", "{}", "born 1990",
    "née Smith", "speaks 日本語", "🙂", "Bob's friend",
)  # fmt: skip
QUERIES = ("", "tea", "TEA", "o", "person", "über", "日", "nothing like it", "Ann", " ", "'")


class Mismatch(NamedTuple):
    """A call that the two answered otherwise."""

    sequence: int
    calls: Sequence[Call]
    theirs: Any
    ours: Any


class Both:
    """The two servers, each behind a client."""

    def __init__(self, theirs: Client, ours: Client, file: Path):
        self._theirs, self._ours, self._file = theirs, ours, file
        self.user_id = ""

    def begin(self, name: str) -> None:
        """Begin with an empty graph."""
        self._file.unlink(missing_ok=True)
        self.user_id = name

    async def call(self, name: str, arguments: dict[str, Any]) -> tuple[Any, Any]:
        """Return what the reference and we answer, in an order of their own."""
        answers = [await one.call_tool(name, arguments) for one in (self._theirs, self._ours)]
        found = [None if one.is_error else ordered(one.structured_content) for one in answers]
        return found[0], found[1]


@asynccontextmanager
async def both() -> AsyncIterator[Both]:
    """Hold both servers.

    :raises NotObtainedError: there is no Node, or no registry.
    """
    program = package(PACKAGE, VERSION) / "dist" / "index.js"
    with TemporaryDirectory() as directory:
        file = Path(directory) / "memory.jsonl"
        environment = {**node().environment, "MEMORY_FILE_PATH": str(file)}
        reference = StdioServerParameters(
            command=str(node().node), args=[str(program)], env=environment
        )
        opening = MemorySystem.open(Path(directory) / "memory", embedder=HashedEmbedder())
        async with opening as memory:

            async def whose(_context: Context) -> UserMemory:
                return memory.user(running.user_id)

            server = new_server(whose, ["graph"])
            async with Client(reference) as theirs, Client(server) as ours:
                running = Both(theirs, ours, file)
                yield running


async def compare(sequences: int, seed: int) -> list[Mismatch]:
    """Run random sequences; return the first mismatch of each that has one."""
    found = []
    async with both() as servers:
        for number in range(sequences):
            chance = random.Random(f"{seed} {number}")
            servers.begin(f"sequence {number}")
            calls: list[Call] = []
            for _ in range(chance.randint(2, CALLS_MAX)):
                calls.append(a_call(chance))
                theirs, ours = await servers.call(*calls[-1])
                if theirs != ours:
                    found.append(Mismatch(number, calls, theirs, ours))
                    break
    return found


def a_call(chance: random.Random) -> Call:
    """Return a random call."""
    name = chance.choice(list(CALLS))
    return name, CALLS[name](chance)


def _some(chance: random.Random, of: Sequence[str], most: int = 3) -> list[str]:
    return chance.sample(of, chance.randint(0, most))


def _links(chance: random.Random) -> list[dict[str, str]]:
    links = {
        (chance.choice(NAMES), chance.choice(RELATIONS), chance.choice(NAMES))
        for _ in range(chance.randint(0, 3))
    }
    return [{"from": a, "relationType": b, "to": c} for a, b, c in sorted(links)]


CALLS = {
    "create_entities": lambda chance: {
        "entities": [
            {"name": name, "entityType": chance.choice(TYPES), "observations": _some(chance, TEXTS)}
            for name in _some(chance, NAMES)
        ]
    },
    "create_relations": lambda chance: {"relations": _links(chance)},
    "add_observations": lambda chance: {
        "observations": [
            {"entityName": chance.choice(NAMES), "contents": _some(chance, TEXTS)}
            for _ in range(chance.randint(0, 2))
        ]
    },
    "delete_entities": lambda chance: {"entityNames": _some(chance, NAMES, 2)},
    "delete_observations": lambda chance: {
        "deletions": [
            {"entityName": chance.choice(NAMES), "observations": _some(chance, TEXTS)}
            for _ in range(chance.randint(0, 2))
        ]
    },
    "delete_relations": lambda chance: {"relations": _links(chance)},
    "read_graph": lambda _chance: {},
    "search_nodes": lambda chance: {"query": chance.choice(QUERIES)},
    "open_nodes": lambda chance: {"names": _some(chance, NAMES)},
}


def ordered(value: Any) -> Any:
    """Return a JSON value with its lists sorted."""
    if isinstance(value, dict):
        return {key: ordered(one) for key, one in value.items()}
    if isinstance(value, list):
        return sorted(map(ordered, value), key=lambda one: json.dumps(one, sort_keys=True))
    return value
