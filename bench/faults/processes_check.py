"""Checks of a store when its processes have gone, by the notes of each of them.

- Of an acknowledged call there is one event for each of its texts, with the id that was answered:
  none is lost, and none is there twice. An unanswered call has no event, or all of them once.
- What was deleted stays deleted, once; a fact says what the last change made of it.
- Working memory may lose what was acknowledged in the last moments before its owner was killed.
- No call has failed, but by a typed timeout while an owner was stopped longer than clients wait.
- No process has more files open than when it came.
"""

import asyncio
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.faults.processes_child import USERS, opened
from memory_actors.sharing.address import FILE, SOCKET

RELAXED_S = 0.05
LATE_S = 0.25  # between the owner's answer and the line of a client, on a busy machine
TEXT = re.compile(r"<\w+>")
LISTED = 100_000
TIMEOUT = "DeadlineExceededError"

Call = dict[str, Any]


class Found:
    """The content of a store and its log."""

    def __init__(self) -> None:
        self.events: dict[str, list[str | None]] = defaultdict(list)
        """The ids of the memories whose events have a text, by text."""
        self.deleted: Counter[str] = Counter()
        self.held: dict[str, str] = {}
        """Facts by id."""
        self.harm: list[str] = []

    @classmethod
    async def of(cls, store: Path) -> "Found":
        """Read a store that nobody else has open."""
        found = cls()
        async with opened(store) as memory:
            async for entry in memory.events():
                for text in TEXT.findall(_said(entry.data)):
                    found.events[text].append(entry.data.get("memory_id"))
                if entry.event == "long_term.deleted":
                    found.deleted[entry.data["memory_id"]] += 1
            for number in range(USERS):
                facts = await memory.user(f"user {number}").list_memories(
                    ["long_term"], limit=LISTED
                )
                found.held |= {fact.memory_id: fact.content for fact in facts}
            if not (report := await memory.verify()).ok:
                found.harm.append(f"damaged: {report.findings[:2]}")
            if diverged := await memory.check_replay():
                found.harm.append(f"diverged: {diverged}")
        return found


def _said(data: Any) -> str:
    """Return the first text of an event: a document has it as its key, too."""
    return next(iter(TEXT.findall(json.dumps(data, default=str))), "")


class Notes:
    """The notes of all processes."""

    def __init__(self, paths: Sequence[Path]):
        lines = [line for path in paths for line in _lines(path)]
        self.done = [line for line in lines if line["what"] == "done"]
        self.errors = [line for line in lines if line["what"] == "error"]
        self.files = [line for line in lines if line["what"] == "files"]
        answered = {_key(line) for line in self.done}
        self.unsure = [
            line for line in lines if line["what"] == "try" and _key(line) not in answered
        ]

    @property
    def writes(self) -> list[Call]:
        """The calls that were acknowledged and changed something."""
        return [call for call in self.done if call["name"] != "retrieve"]


def _key(call: Call) -> tuple[Any, ...]:
    return call["name"], tuple(call["texts"]), call["about"], call["user"]


def _lines(path: Path) -> Iterator[Call]:
    if not path.exists():  # the process was killed before it wrote anything
        return
    for line in path.read_bytes().splitlines(keepends=True):
        if line.endswith(b"\n"):  # else the process was killed while it wrote
            yield json.loads(line)


def harm(
    store: Path, notes: Notes, kills: Sequence[float], *, timeouts: bool
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, and an example of it; `kills` are the moments of kills."""
    found = asyncio.run(Found.of(store))
    yield from (("damage", one) for one in found.harm)
    for call in notes.writes:
        yield from _acknowledged(call, found, kills)
    for call in notes.unsure:
        yield from _unsure(call, found)
    yield from _states(notes, found)
    for error in notes.errors:
        if not (timeouts and error["error"] == TIMEOUT):
            yield "error", str(error)
    for files in notes.files:
        if more := Counter(files["now"]) - Counter(files["before"]):
            yield "leaked descriptors", f"{dict(more)} {files['kind']}"


def leftovers(store: Path) -> list[str]:
    """Return the files that owners left behind: only room for the next one's file is allowed."""
    found = [name for name in (SOCKET, FILE) if (store / name).exists()]
    room = store / f"{FILE}.new"
    return [*found, room.name] if room.exists() and room.read_bytes().strip() else found


def _acknowledged(call: Call, found: Found, kills: Sequence[float]) -> Iterator[tuple[str, str]]:
    if call["name"] == "delete" and found.deleted[call["about"]] != 1:
        yield "lost", f"deleted {found.deleted[call['about']]} times: {call}"
    wanted = [call["about"]] if call["about"] else call["ids"]
    for text, memory_id in zip(call["texts"], wanted, strict=False):
        ids = found.events[text]
        if not ids and not (call["name"] == "working.set" and _just_before(call, kills)):
            yield "lost", str(call)
        elif len(ids) > 1:
            yield "twice", f"{ids} for {call}"
        elif ids and ids[0] != memory_id:
            yield "another answer", f"{ids} for {call}"


def _just_before(call: Call, kills: Sequence[float]) -> bool:
    return any(kill - RELAXED_S - LATE_S < call["at"] < kill + LATE_S for kill in kills)


def _unsure(call: Call, found: Found) -> Iterator[tuple[str, str]]:
    if call["name"] == "delete" and found.deleted[call["about"]] > 1:
        yield "twice", str(call)
    there = {len(found.events[text]) for text in call["texts"]}
    if len(there) > 1:
        yield "half", str(call)
    elif there and max(there) > 1:
        yield "twice", str(call)


def _states(notes: Notes, found: Found) -> Iterator[tuple[str, str]]:
    unsure = {call["about"] for call in notes.unsure}
    should: dict[str, str | None] = {}
    for call in notes.writes:  # of each process in order, and each changes only its own facts
        if call["name"] in ("add", "add_many"):
            should |= dict(zip(call["ids"], call["texts"], strict=True))
        elif call["name"] == "update":
            should[call["about"]] = call["texts"][0]
        elif call["name"] == "delete":
            should[call["about"]] = None
    for memory_id, text in should.items():
        held = found.held.get(memory_id)
        is_right = held is None if text is None else text in (held or "")
        if not is_right and memory_id not in unsure:
            yield "wrong", f"{memory_id} holds {held!r} and should {text!r}"
