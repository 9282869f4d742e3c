"""Memories to the files of other programs: a module each, and what writes them."""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from memory_actors.base.validation import check_choice
from memory_actors.interchange.files import replacing
from memory_actors.interchange.jsonl import BATCH_LINES, count
from memory_actors.interchange.noting import ImportNote
from memory_actors.interchange.records import Progress
from memory_actors.interchange.targets import chroma, mcp_memory, mem0, parquet
from memory_actors.interchange.targets.target import ExportTarget
from memory_actors.sharing.system import UserMemory

TARGETS: Final[Mapping[str, ExportTarget]] = {
    module.TARGET.name: module.TARGET for module in (mem0, mcp_memory, chroma, parquet)
}
"""Every target by its name."""


class ExportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of an export to another program."""

    file: str
    memories: int
    left_out: int
    """Memories that have no place there: `notes` say why."""
    notes: tuple[ImportNote, ...] = ()


async def export_to(
    user: UserMemory, program: str, path: str | Path, *, progress: Progress | None = None
) -> ExportReport:
    """Write a user's memories as another program has them, whole or not at all.

    `program` is one of `TARGETS`; `progress` hears memories. What it has no place for is left out,
    and the report says why.

    :raises InvalidInputError: there is no such program, or the file cannot be written.
    :raises MissingExtraError: it takes a package that is not installed.
    """
    target = TARGETS[check_choice(program, tuple(TARGETS), "program")]
    total, done, left_out = await count(user), 0, Counter[str]()
    with replacing(Path(path)) as file:
        writer = target.begin(file)
        async for memory in user.export():
            why = writer.write(memory, user.user_id)
            left_out.update([why] if why is not None else [])
            done += 1
            if progress is not None and done % BATCH_LINES == 0:
                progress(done, total)
        writer.end()
    if progress is not None:
        progress(done, done)
    return ExportReport(
        file=str(path),
        memories=done - left_out.total(),
        left_out=left_out.total(),
        notes=tuple(ImportNote(f"left out: {why}", number) for why, number in left_out.items()),
    )
