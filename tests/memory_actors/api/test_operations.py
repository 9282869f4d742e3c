"""The list of operations: read from the public methods, and true of them."""

import inspect
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bench.faults import example
from bench.faults.commands import COMMANDS
from memory_actors import ReadOnlyError
from memory_actors.api.operations import OPERATIONS

pytestmark = pytest.mark.anyio

REFERENCE = Path(__file__).parents[3] / "docs" / "reference.md"
CALL = re.compile(r"`(?:await )?(?:MemorySystem(?=\.))?([\w.]+)\(([^`]*)\)`")
OF_USERS = sorted(name for name in COMMANDS if not name.startswith(("system.", "private.")))


async def test_an_operation_writes_if_the_past_refuses_it(tmp_path: Path) -> None:
    wrong = []
    async with example.opened(tmp_path / "memory") as memory:
        await example.fill(memory)
        user = memory.user("ada", session_id="s")
        for n, name in enumerate(OF_USERS):
            await COMMANDS[name].prepare(memory, user, n)
            async with memory.replay("ada", session_id="s") as past:
                refused = await is_refused(COMMANDS[name].call(memory, past, n))
            for hold in await user.holds():
                await user.release(hold.hold_id)  # else nothing can be forgotten
            if refused != OPERATIONS[name.split(" ")[0]].writes:
                wrong.append(name)
    assert wrong == []


async def is_refused(called: Any) -> bool:
    try:
        await called
    except ReadOnlyError:
        return True
    return False


def test_every_operation_describes_itself_and_reads_json() -> None:
    """An operation says what it does, and can be read from JSON."""
    for name, operation in OPERATIONS.items():
        assert operation.summary.endswith((".", ":")), name
        assert operation.returns is not inspect.Parameter.empty, name
        assert msgspec.json.Decoder(operation.arguments), name


def in_reference() -> dict[str, set[str]]:
    """Return the operations that the reference lists, each with the names of its parameters."""
    found: dict[str, set[str]] = {}
    text = REFERENCE.read_text("utf-8")
    for title in ("MemorySystem", "UserMemory"):
        owner = "system" if title == "MemorySystem" else ""
        (table,) = re.findall(rf"^## {title}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
        for row in re.findall(r"^\| (.*?) \|", table, re.MULTILINE):
            for called, given in CALL.findall(row):
                owner = called.rpartition(".")[0] or owner
                names = re.findall(r"(?:^|, )\**(\w+)", given)
                found[f"{owner}.{called.rpartition('.')[2]}".strip(".")] = set(names)
            owner = "system" if title == "MemorySystem" else ""
    return found


def test_the_reference_lists_every_operation_with_its_parameters() -> None:
    listed = in_reference()
    for name, operation in OPERATIONS.items():
        assert listed.get(name) == {one.name for one in operation.parameters}, name
