"""Summaries: how they replace memories, come from another store, and are undone."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, TypeVar

import msgspec

from eventlog.core.records import to_us
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import JsonObject, Memory, Receipt
from memory_actors.base.validation import check_name, content_bytes, own_metadata, plain
from memory_actors.kinds.compacting import (
    CompactedKind,
    Compressed,
    Summary,
    SummaryData,
    SummaryPut,
    passages_of,
)
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.rows import Row
from memory_actors.users.handles.handle import Handle
from memory_actors.users.handles.writing import Written

D = TypeVar("D", bound=SummaryData)


class Summarized(Handle):
    """The handle of a kind whose old memories summaries can replace."""

    kind: ClassVar[CompactedKind]

    async def _compress(self, summary: Compressed, originals: Sequence[Row]) -> Written:
        """Put a summary in the place of memories; no events if one of them has changed meanwhile.

        It is embedded first: memories do not make room for what cannot be found yet.

        :raises QuotaExceededError: there would be more bytes than before, and no room for them.
        :raises EmbedderError: it could not be embedded; nothing was done.
        """
        passages = _passages(summary)
        await self._scope.embeddings.embed(passages, background=True)
        command = self.kind.COMPRESS(
            now_us=self._scope.now_us(),
            summary=summary,
            originals=tuple((row.memory_id, row.version) for row in originals),
        )
        return await self._write(command, passages)

    async def _undo_compaction(self, memory_id: str, originals: Sequence[str]) -> list[Receipt]:
        """Take a summary away and bring its originals back; return a receipt for each that came.

        :raises QuotaExceededError: there is no room for all of them; nothing was done.
        :raises NotFoundError: there is no such summary, or an original is in the log no more.
        """
        command = self.kind.UNDO(
            now_us=self._scope.now_us(), memory_id=memory_id, memory_ids=tuple(originals)
        )
        return await self._restored(command)

    async def _put_summary(self, memory: Memory) -> Receipt:
        """Add a summary as another store has it; its originals stay where they are."""
        now_us, summary = self._scope.now_us(), self._checked_summary(memory)
        own_ids = (memory.memory_id,)
        command = self.kind.ADD_SUMMARY(now_us=now_us, summary=summary, own_ids=own_ids)
        written = await self._write(command, _passages(summary))
        return self._receipt(memory.memory_id, "add", written, whose=self._whose(summary))

    @abstractmethod
    def _checked_summary(self, memory: Memory) -> SummaryPut:
        """Return a summary as an export has it, ready to be added.

        :raises InvalidInputError: it does not say what it was made of.
        """


def summary_text(content: str) -> dict[str, object]:
    """Return the fields that follow from the text of a summary."""
    size_bytes = content_bytes(content)
    content = plain(content)
    return {
        "content": content,
        "size_bytes": size_bytes,
        "bytes_after": size_bytes,
        "digest": text_digest(content),
        "passages": passages_of(content),
    }


def checked_summary(memory: Memory, said: type[D]) -> tuple[D, JsonObject]:
    """Return the exported data of a summary, and the fields of the `SummaryPut` of it.

    :raises InvalidInputError: it does not say what it was made of.
    """
    try:
        data = msgspec.convert(memory.data, said)
        start_us, end_us = to_us(data.time_range_start), to_us(data.time_range_end)
    except (TypeError, msgspec.ValidationError) as error:
        raise InvalidInputError(f"a summary says what it was made of in `data`: {error}") from error
    ids = tuple(check_name(one, "original's id") for one in data.compressed_from_ids)
    if not 0 < data.original_count == len(ids):
        raise InvalidInputError("a summary names its originals, as many as it says it has")
    return data, {
        "memory_id": check_name(memory.memory_id, "memory_id"),
        "occurred_at_us": end_us,
        "compressed_from_ids": ids,
        "original_count": data.original_count,
        "time_range_start_us": start_us,
        "time_range_end_us": end_us,
        "compression_method": check_name(data.compression_method, "compression_method"),
        "session_ids": tuple(check_name(one, "session_id") for one in data.session_ids),
        "bytes_before": data.bytes_before,
        "metadata": own_metadata(memory.metadata, shown=True),
        **summary_text(memory.content),
    }


def _passages(summary: Summary) -> list[str]:
    return [summary.content[part.start : part.end] for part in summary.passages]
