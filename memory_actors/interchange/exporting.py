"""Memories to files: our own JSON lines, and the files of other programs.

Our lines are those of living memories, kind by kind, each oldest first. Imported into an empty
store, they give the same memories, and their export the same lines. Not carried over: when the log
got a memory; what is gone, the history included; the time a session has left; the tier.

Other programs have a writer here, and a place in `TARGETS`. Data that the program has no place for
is left out, and the report says why.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec

from memory_actors.base.records import Memory, MemoryType
from memory_actors.base.validation import check_choice
from memory_actors.interchange.files import replacing
from memory_actors.interchange.noting import ImportNote
from memory_actors.interchange.records import ForgottenLine, Progress, line_of
from memory_actors.kinds.entity.graph import name_key
from memory_actors.sharing.system import UserMemory

PROGRESS_MEMORIES: Final = 200

LeaveOut: TypeAlias = Callable[[str], None]
"""Hears why a memory has no place in a file."""
Writer: TypeAlias = Callable[[UserMemory, AsyncIterator[Memory], LeaveOut], AsyncIterator[bytes]]
"""Yields the parts of a file from memories in the order of an export."""


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
    return (await _export(user, our_lines, path, progress)).memories


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
    user: UserMemory, target: Writer, path: str | Path, progress: Progress | None
) -> ExportReport:
    kinds, done, left_out = (await user.usage()).kinds, 0, Counter[str]()
    relationships = [use.used for use in kinds["entity"].quotas if use.quota == "relationships"]
    total = sum(kind.count for kind in kinds.values()) + sum(relationships)  # it may change

    async def exported() -> AsyncIterator[Memory]:
        nonlocal done
        async for memory in user.export():
            yield memory
            done += 1
            if progress is not None and done % PROGRESS_MEMORIES == 0:
                progress(done, total)

    with replacing(Path(path)) as file:
        async for part in target(user, exported(), lambda why: left_out.update([why])):
            file.write(part)
    if progress is not None:
        progress(done, done)
    return ExportReport(
        file=str(path),
        memories=done - left_out.total(),
        left_out=left_out.total(),
        notes=tuple(ImportNote(f"left out: {why}", number) for why, number in left_out.items()),
    )


# --- our own lines


async def export_lines(user: UserMemory) -> AsyncIterator[bytes]:
    """Yield each of a user's memories as a line, with its line feed; then what was forgotten."""
    async for line in our_lines(user, user.export(), lambda _why: None):
        yield line


async def our_lines(
    user: UserMemory, memories: AsyncIterator[Memory], _leave_out: LeaveOut
) -> AsyncIterator[bytes]:
    """Yield a line for each memory, then what was forgotten."""
    async for memory in memories:
        yield line_of(memory)
    for fact in await user.forgotten():
        yield ForgottenLine(fact).line()


def _metadata_for_others(memory: Memory) -> dict[str, object]:
    said: dict[str, object] = {"memory_type": str(memory.memory_type)}
    if memory.origins:
        said |= {"sources": [one.source for one in memory.origins if one.source]}
        said |= {"trust": memory.trust.value}
    own = {"key": memory.key} if memory.key is not None else {}
    return {**own, **memory.metadata, **said}


def _line(said: Mapping[str, object]) -> bytes:
    return msgspec.json.encode(said) + b"\n"


# --- mem0: JSON as its `get_all` returns it, {"results": [...]}; each kind by its words.
#
# mem0 has no import: `add(one["memory"], user_id=..., metadata=..., infer=False)` takes each.


async def _for_mem0(
    user: UserMemory, memories: AsyncIterator[Memory], _leave_out: LeaveOut
) -> AsyncIterator[bytes]:
    between = b'{"results": [\n'
    async for memory in memories:
        when = memory.occurred_at.isoformat()
        said = {
            "id": memory.memory_id,
            "memory": memory.content,
            "user_id": user.user_id,
            "run_id": memory.session_id,
            "role": memory.role,
            "created_at": when,
            "updated_at": when,
            "metadata": _metadata_for_others(memory),
        }
        known = {name: value for name, value in said.items() if value is not None}
        yield between + msgspec.json.encode(known)
        between = b",\n"
    yield (b"" if between == b",\n" else between) + b"\n]}\n"


# --- The reference MCP memory server: its file of JSON lines. It has entities and relations alone.
#
# It knows no time, so a relationship that is over has no place in it. Nor may two entities have one
# name there: of those that share one, all but the first have their type in their name.

NO_GRAPH: Final = "the server has entities and relations alone"
OVER: Final = "a relationship that is over: the server knows no time"


async def _for_graph(
    _user: UserMemory, memories: AsyncIterator[Memory], leave_out: LeaveOut
) -> AsyncIterator[bytes]:
    names: dict[str, str] = {}
    """The names that entities have there, by their ids: an export has them before relations."""
    taken: set[str] = set()
    async for memory in memories:
        data = memory.data
        if memory.memory_type != MemoryType.ENTITY:
            leave_out(NO_GRAPH)
        elif "relation" not in data:
            # A name that no other entity has, kept for what relates it.
            name = str(data["name"])
            if name_key(name) in taken:
                name = f"{name} ({data['type']})"
            taken.add(name_key(name))
            names[memory.memory_id] = name
            known = {"entityType": data["type"], "observations": list(data["observations"])}
            yield _line({"type": "entity", "name": name, **known})
        elif data.get("valid_to") is not None:
            leave_out(OVER)
        else:
            source, target = (
                names.get(data[f"{end}_id"], data[end]) for end in ("source", "target")
            )
            ends = {"from": source, "to": target}
            yield _line({"type": "relation", **ends, "relationType": data["relation"]})


# --- Chroma: JSON lines, each of which `collection.add(**json.loads(line))` takes.
#
# Lines, because a collection takes a few thousand records at a time; and no directory, because that
# would take the package, and embeddings of the model that the collection is to have: the collection
# makes them. Metadata there is flat: what is a list or an object goes as JSON.

RECORDS_A_LINE: Final = 1_000  # Chroma takes some 5,000; and so a line fits in memory
CHARACTERS_A_LINE_MAX: Final = 8 << 20


async def _for_chroma(
    user: UserMemory, memories: AsyncIterator[Memory], _leave_out: LeaveOut
) -> AsyncIterator[bytes]:
    batch: dict[str, list[object]] = {"ids": [], "documents": [], "metadatas": []}
    characters = 0
    async for memory in memories:
        own = {"user_id": user.user_id, "session_id": memory.session_id, "role": memory.role}
        when = {"occurred_at": memory.occurred_at.isoformat()}
        fields = {**_metadata_for_others(memory), **own, **when}
        flat = {
            name: one if isinstance(one, str | int | float) else msgspec.json.encode(one).decode()
            for name, one in fields.items()
            if one is not None
        }
        row = (memory.memory_id, memory.content, flat)
        for column, value in zip(batch.values(), row, strict=True):
            column.append(value)
        characters += len(memory.content)
        if len(batch["ids"]) >= RECORDS_A_LINE or characters >= CHARACTERS_A_LINE_MAX:
            yield _line(batch)
            batch, characters = {name: [] for name in batch}, 0
    if batch["ids"]:
        yield _line(batch)


TARGETS: Final[Mapping[str, Writer]] = {
    "mem0": _for_mem0,
    "mcp-memory": _for_graph,
    "chroma": _for_chroma,
}
