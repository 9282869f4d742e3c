"""Memories to files: our own JSON lines, and the files of other programs.

Our lines are those of living memories, kind by kind, each oldest first. Imported into an empty
store, they give the same memories, and their export the same lines. Not carried over: when the log
got a memory; what is gone, the history included; the time a session has left; the tier.

Other programs have a writer here, and a place in `TARGETS`. Data that the program has no place for
is left out, and the report says why.
"""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import IO, Final

import msgspec

from memory_actors.base.records import Memory, MemoryType
from memory_actors.base.validation import check_choice
from memory_actors.interchange.files import replacing
from memory_actors.interchange.noting import ImportNote
from memory_actors.interchange.records import ForgottenLine, Progress, line_of
from memory_actors.kinds.entity.graph import name_key
from memory_actors.sharing.system import UserMemory

PROGRESS_MEMORIES: Final = 200


class TargetWriter(ABC):
    """Writes memories to one file."""

    def __init__(self, file: IO[bytes]):
        self._file = file

    @abstractmethod
    def write(self, memory: Memory, user_id: str) -> str | None:
        """Take a memory, in the order of an export; return why it has no place there, if so."""

    def end(self) -> None:  # noqa: B027 - most have nothing left
        """Write what is left; nothing comes after it."""

    def _line(self, said: Mapping[str, object]) -> None:
        self._file.write(msgspec.json.encode(said) + b"\n")


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an export to another program."""

    file: str
    memories: int
    left_out: int
    """Memories that have no place there: `notes` say why."""
    notes: tuple[ImportNote, ...] = ()


async def export_jsonl(
    user: UserMemory, path: str | Path, *, progress: Progress | None = None
) -> int:
    """Write a user's memories to a file, whole or not at all; return how many there are.

    :raises InvalidInputError: the file cannot be written.
    """
    return (await _export(user, LinesWriter, path, progress)).memories


async def export_to(
    user: UserMemory, program: str, path: str | Path, *, progress: Progress | None = None
) -> ExportReport:
    """Write a user's memories as another program has them, whole or not at all.

    `program` is one of `TARGETS`; `progress` hears memories. Data that the program has no place for
    is left out, and the report says why.

    :raises InvalidInputError: there is no such program, or the file cannot be written.
    """
    target = TARGETS[check_choice(program, tuple(TARGETS), "program")]
    return await _export(user, target, path, progress)


async def _export(
    user: UserMemory, target: type[TargetWriter], path: str | Path, progress: Progress | None
) -> ExportReport:
    kinds, done, left_out = (await user.usage()).kinds, 0, Counter[str]()
    relationships = [use.used for use in kinds["entity"].quotas if use.quota == "relationships"]
    total = sum(kind.count for kind in kinds.values()) + sum(relationships)  # it may change
    with replacing(Path(path)) as file:
        writer = target(file)
        async for memory in user.export():
            why = writer.write(memory, user.user_id)
            left_out.update([why] if why is not None else [])
            done += 1
            if progress is not None and done % PROGRESS_MEMORIES == 0:
                progress(done, total)
        if target is LinesWriter:
            file.writelines([ForgottenLine(one).line() for one in await user.forgotten()])
        writer.end()
    if progress is not None:
        progress(done, done)
    return ExportReport(
        file=str(path),
        memories=done - left_out.total(),
        left_out=left_out.total(),
        notes=tuple(ImportNote(f"left out: {why}", number) for why, number in left_out.items()),
    )


async def export_lines(user: UserMemory) -> AsyncIterator[bytes]:
    """Yield each of a user's memories as a line, with its line feed; then what was forgotten."""
    async for memory in user.export():
        yield line_of(memory)
    for fact in await user.forgotten():
        yield ForgottenLine(fact).line()


# --- our own lines


class LinesWriter(TargetWriter):
    """Writes a line for each memory."""

    def write(self, memory: Memory, user_id: str) -> str | None:  # noqa: ARG002 - a file has one user
        """Write any memory."""
        self._file.write(line_of(memory))
        return None


def _metadata_for_others(memory: Memory) -> dict[str, object]:
    said: dict[str, object] = {"memory_type": str(memory.memory_type)}
    if memory.origins:
        said |= {"sources": [one.source for one in memory.origins if one.source]}
        said |= {"trust": memory.trust.value}
    own = {"key": memory.key} if memory.key is not None else {}
    return {**own, **memory.metadata, **said}


# --- mem0: JSON as its `get_all` returns it, {"results": [...]}; each kind by its words.
#
# mem0 has no import: `add(one["memory"], user_id=..., metadata=..., infer=False)` takes each.


class Mem0Writer(TargetWriter):
    """Writes one JSON object."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self._between = b'{"results": [\n'

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Write any memory."""
        when = memory.occurred_at.isoformat()
        said = {
            "id": memory.memory_id,
            "memory": memory.content,
            "user_id": user_id,
            "run_id": memory.session_id,
            "role": memory.role,
            "created_at": when,
            "updated_at": when,
            "metadata": _metadata_for_others(memory),
        }
        known = {name: value for name, value in said.items() if value is not None}
        self._file.write(self._between + msgspec.json.encode(known))
        self._between = b",\n"
        return None

    def end(self) -> None:
        """Close the list."""
        self._file.write((b"" if self._between == b",\n" else self._between) + b"\n]}\n")


# --- The reference MCP memory server: its file of JSON lines. It has entities and relations alone.
#
# It knows no time, so a relationship that is over has no place in it. Nor may two entities have one
# name there: of those that share one, all but the first have their type in their name.

NO_GRAPH: Final = "the server has entities and relations alone"
OVER: Final = "a relationship that is over: the server knows no time"


class GraphWriter(TargetWriter):
    """Writes one line for each entity and relation."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self._names: dict[str, str] = {}
        """The names that entities have there, by their ids: an export has them before relations."""
        self._taken: set[str] = set()

    def write(self, memory: Memory, user_id: str) -> str | None:  # noqa: ARG002 - a file has one user
        """Write an entity or a relationship that holds."""
        if memory.memory_type != MemoryType.ENTITY:
            return NO_GRAPH
        data = memory.data
        if "relation" not in data:
            # A name that no other entity has, kept for what relates it.
            name = str(memory.data["name"])
            if name_key(name) in self._taken:
                name = f"{name} ({memory.data['type']})"
            self._taken.add(name_key(name))
            self._names[memory.memory_id] = name
            self._line(
                {
                    "type": "entity",
                    "name": name,
                    "entityType": data["type"],
                    "observations": list(data["observations"]),
                }
            )
            return None
        if data.get("valid_to") is not None:
            return OVER
        source, target = (
            self._names.get(data[f"{end}_id"], data[end]) for end in ("source", "target")
        )
        ends = {"from": source, "to": target}
        self._line({"type": "relation", **ends, "relationType": data["relation"]})
        return None


# --- Chroma: JSON lines, each of which `collection.add(**json.loads(line))` takes.
#
# Lines, because a collection takes a few thousand records at a time; and no directory, because that
# would take the package, and embeddings of the model that the collection is to have: the collection
# makes them. Metadata there is flat: what is a list or an object goes as JSON.

RECORDS_A_LINE: Final = 1_000  # Chroma takes some 5,000; and so a line fits in memory
CHARACTERS_A_LINE_MAX: Final = 8 << 20


class ChromaWriter(TargetWriter):
    """Writes batches."""

    def __init__(self, file: IO[bytes]):
        super().__init__(file)
        self._begin()

    def _begin(self) -> None:
        self._batch: dict[str, list[object]] = {"ids": [], "documents": [], "metadatas": []}
        self._characters = 0

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Write any memory."""
        own = {"user_id": user_id, "session_id": memory.session_id, "role": memory.role}
        when = {"occurred_at": memory.occurred_at.isoformat()}
        fields = {**_metadata_for_others(memory), **own, **when}
        flat = {
            name: one if isinstance(one, str | int | float) else msgspec.json.encode(one).decode()
            for name, one in fields.items()
            if one is not None
        }
        row = (memory.memory_id, memory.content, flat)
        for column, value in zip(self._batch.values(), row, strict=True):
            column.append(value)
        self._characters += len(memory.content)
        is_full = len(self._batch["ids"]) >= RECORDS_A_LINE
        if is_full or self._characters >= CHARACTERS_A_LINE_MAX:
            self.end()
        return None

    def end(self) -> None:
        """Write the batch that was begun."""
        if self._batch["ids"]:
            self._line(self._batch)
            self._begin()


TARGETS: Final[Mapping[str, type[TargetWriter]]] = {
    "mem0": Mem0Writer,
    "mcp-memory": GraphWriter,
    "chroma": ChromaWriter,
}
"""The programs that memories go to, and the writer of each."""
