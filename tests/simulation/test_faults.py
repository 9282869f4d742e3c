"""The fast half of the fault matrix: each row with small counts, by `python -m bench faults`.

Kills have tests of their own beside this one, the model in `tests/properties`.
"""

import inspect
from typing import Any

import pytest

from bench.faults import ROWS, run
from bench.faults.commands import COMMANDS
from memory_actors import MemorySystem, UserMemory
from memory_actors.api.handles.documents import Documents
from memory_actors.api.handles.entities import EntityGraph
from memory_actors.api.handles.episodes import Episodes
from memory_actors.api.handles.short_term import ShortTermMemory
from memory_actors.api.handles.user_context import UserContext
from memory_actors.api.handles.working import WorkingMemory

SEED = 7
WITH_TESTS_OF_THEIR_OWN = {"kills", "model"}
OF_THE_USER = {"formats", "surroundings"}
NOT_ONE_CALL = {"open", "close", "restore_backup", "import_events"}  # for a store, not in one
HANDLES = {
    "": UserMemory,
    "context.": UserContext,
    "documents.": Documents,
    "entities.": EntityGraph,
    "episodes.": Episodes,
    "short_term.": ShortTermMemory,
    "system.": MemorySystem,
    "working.": WorkingMemory,
}


NAMES = [
    pytest.param(name, marks=[pytest.mark.user] if name in OF_THE_USER else [])
    for name in sorted(set(ROWS) - WITH_TESTS_OF_THEIR_OWN)
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", NAMES)
def test_a_row_of_the_matrix_holds(name: str) -> None:
    (row,) = run([name], "quick", SEED)
    if row.skipped:
        pytest.skip(row.skipped)

    assert row.failures == []
    assert row.tried == row.survived > 0


def public_calls(cls: type) -> set[str]:
    def is_call(member: Any) -> bool:
        return inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member)

    return {name for name, _ in inspect.getmembers(cls, is_call) if not name.startswith("_")}


def test_every_public_call_is_among_those_that_are_cancelled() -> None:
    """A call that is added to the API is wanted in bench/faults/commands.py."""
    wanted = {prefix + name for prefix, cls in HANDLES.items() for name in public_calls(cls)}
    there = {name.split(" ")[0] for name in COMMANDS}
    there |= {f"system.{name}" for name in there}

    assert wanted - there - {f"system.{name}" for name in NOT_ONE_CALL} == set()
