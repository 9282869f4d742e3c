"""Import from and export to files of JSON lines. The format of a line is in `records`.

Importing. Lines are read and added in batches, so memory does not grow with the file. At the first
bad line what came before it is added, and the import ends with an error that names file and line.
An id that the user has used before adds nothing, so an import that was cut off, by an error or a
crash, is simply run again.

Exporting. One line for each living memory: first long-term memory, oldest first, then short-term
messages in the order they came, then working memory in the order it was last set. Imported into an
empty store, an export gives the same memories, and their export the same lines. Not carried over
are when the log got a memory, and the time a session has left: an hour from its import.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import IO, Final, NamedTuple

import anyio.to_thread
import msgspec

from memory_actors.errors import InvalidInputError, QuotaExceededError
from memory_actors.handles.user import UserMemory
from memory_actors.interchange.files import open_file, replacing
from memory_actors.interchange.records import (
    Entry,
    ImportReport,
    LineReader,
    Progress,
    line_of,
)
from memory_actors.records import Memory, MemoryType, Receipt

BATCH_LINES: Final = 200  # embedded together, one commit: 0.7 s of the default model
LINE_BYTES_MAX: Final = 4 << 20  # a content of 256 KiB with every character escaped, and metadata
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class _Batch(NamedTuple):
    entries: list[Entry]
    end_bytes: int
    """How far into the file its last line reaches."""


# --- import


async def import_jsonl(
    user: UserMemory, path: str | Path, *, progress: Progress | None = None
) -> ImportReport:
    """Add the memories of a file to a user's; `progress` hears bytes.

    :raises InvalidInputError: a bad file or line, by name and number; what came before is kept.
    :raises QuotaExceededError: no room for the line it names; what came before is kept.
    """
    receipts = _Tally()
    with open_file(Path(path)) as file:
        total_bytes = file.seek(0, 2) if file.seekable() else 0
        if total_bytes:
            file.seek(0)
        batches = _batches(_entries(file, str(path)))
        while batch := await anyio.to_thread.run_sync(next, batches, None):
            for kind, entries in groupby(batch.entries, key=lambda entry: entry.kind):
                receipts.count(await _add(user, kind, list(entries)))
            if progress is not None:
                progress(batch.end_bytes, total_bytes)
    return receipts.report([user.user_id])


def _entries(file: IO[bytes], name: str) -> Iterator[tuple[Entry, int]]:
    """Yield each line as an entry, and how far the file has been read."""
    reader, done_bytes, number = LineReader(), 0, 0
    while data := file.readline(LINE_BYTES_MAX + 1):
        number, done_bytes = number + 1, done_bytes + len(data)
        place = f"{name}, line {number}"
        if len(data) > LINE_BYTES_MAX:
            raise InvalidInputError(
                f"{place} is longer than {LINE_BYTES_MAX:,} bytes: is this a file of JSON lines?"
            )
        if number == 1:
            data = data.removeprefix(_BYTE_ORDER_MARK)
        if data.strip():
            yield reader.read(data, place), done_bytes


def _batches(entries: Iterator[tuple[Entry, int]]) -> Iterator[_Batch]:
    """Yield entries in batches; before a bad line is raised, what came before it."""
    batch = _Batch([], 0)
    try:
        for entry, end_bytes in entries:
            batch.entries.append(entry)
            batch = _Batch(batch.entries, end_bytes)
            if len(batch.entries) == BATCH_LINES:
                yield batch
                batch = _Batch([], end_bytes)
    except InvalidInputError:
        if batch.entries:
            yield batch
        raise
    if batch.entries:
        yield batch


async def _add(user: UserMemory, kind: MemoryType, entries: Sequence[Entry]) -> list[Receipt]:
    if kind is MemoryType.LONG_TERM:
        return await _add_long_term(user, entries)
    add = _set_working if kind is MemoryType.WORKING else _add_message
    receipts = []
    for entry in entries:
        try:
            receipts.append(await add(user, entry))
        except (InvalidInputError, QuotaExceededError) as error:
            error.args = (f"{entry.place}: {error}",)
            raise
    return receipts


async def _add_long_term(user: UserMemory, entries: Sequence[Entry]) -> list[Receipt]:
    """Add a batch; if it is refused, line by line, up to the one that is at fault."""
    try:
        return await user.add_many([entry.item for entry in entries])
    except (InvalidInputError, QuotaExceededError) as error:
        if len(entries) == 1:
            error.args = (f"{entries[0].place}: {error}",)
            raise
    receipts = []
    for entry in entries:
        receipts += await _add_long_term(user, [entry])
    return receipts


async def _add_message(user: UserMemory, entry: Entry) -> Receipt:
    item = entry.item
    return await user.short_term.add_message(
        item.content,
        role=item.role,
        session_id=item.session_id,
        metadata=item.metadata,
        occurred_at=item.occurred_at,
        memory_id=item.memory_id,
    )


async def _set_working(user: UserMemory, entry: Entry) -> Receipt:
    """Set a key; one that is there already keeps the id it has."""
    item, value = entry.item, entry.value
    key = entry.key or str(item.memory_id)
    return await user.working.set(
        key,
        item.content if value is msgspec.UNSET else value,
        metadata=item.metadata,
        memory_id=item.memory_id,
    )


class _Tally:
    """Counts receipts."""

    def __init__(self) -> None:
        self.added = self.unchanged = self.unindexed = 0

    def count(self, receipts: Sequence[Receipt]) -> None:
        for receipt in receipts:
            same = receipt.operation == "unchanged"
            self.unchanged += same
            self.added += not same
            self.unindexed += not same and not receipt.indexed

    def report(self, users: list[str]) -> ImportReport:
        return ImportReport(
            users=users, added=self.added, unchanged=self.unchanged, unindexed=self.unindexed
        )


# --- export


async def export_jsonl(
    user: UserMemory, path: str | Path, *, progress: Progress | None = None
) -> int:
    """Write a user's memories to a file, whole or not at all; return how many there are.

    :raises InvalidInputError: the file cannot be written.
    """
    usage = await user.usage()
    total, done = sum(kind.count for kind in usage.kinds.values()), 0
    with replacing(Path(path)) as file:
        async for line in export_lines(user):
            file.write(line)
            done += 1
            if progress is not None and done % BATCH_LINES == 0:
                progress(done, total)
    if progress is not None:
        progress(done, done)
    return done


async def export_lines(user: UserMemory) -> AsyncIterator[bytes]:
    """Yield each of a user's memories as a line, with its line feed."""
    rest: list[Memory] = []  # bounded by the quotas of working memory and of living sessions
    async for memory in user.export():
        if memory.memory_type == MemoryType.LONG_TERM:
            yield line_of(memory)
        else:
            rest.append(memory)
    for memory in _in_order_of_arrival(rest, MemoryType.SHORT_TERM):
        yield line_of(memory)
    values = await user.working.items()
    for memory in _in_order_of_arrival(rest, MemoryType.WORKING):
        yield line_of(memory, values.get(memory.key or "", memory.content))


def _in_order_of_arrival(memories: Sequence[Memory], kind: MemoryType) -> list[Memory]:
    chosen = (memory for memory in memories if memory.memory_type == kind)
    return sorted(chosen, key=lambda memory: memory.created_at)
