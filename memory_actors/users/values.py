"""The values of a user's documents, as long as there is room for them in memory.

Documents lie in the log; a query by field needs all of a collection. Values that were read stay
here, decoded, up to a bound: the first query reads the log, the next ones do not.
"""

from collections.abc import Sequence
from typing import Any

from eventlog import EventStore
from memory_actors.kinds.structured import DocumentRow, value_of

CACHED_JSON_BYTES_MAX = 4 << 20  # of JSON; decoded it takes about six times as much
DECODED_FACTOR = 6
PAGE = 512  # documents read at a time: the loop gets its turn in between


class Values:
    """Document values by the version of their event, which never changes."""

    def __init__(self, log: EventStore, stream: str):
        self._log = log
        self._stream = stream
        self._held: dict[int, tuple[Any, int]] = {}
        self._json_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Memory held, roughly."""
        return DECODED_FACTOR * self._json_bytes

    async def of(self, rows: Sequence[DocumentRow]) -> list[Any]:
        """Return the values of documents, in their order. Not to be changed."""
        held = self._held
        values = {row.version: held[row.version][0] for row in rows if row.version in held}
        missing = [row for row in rows if row.version not in values]
        for start in range(0, len(missing), PAGE):
            page = missing[start : start + PAGE]
            read = await self._log.read_versions(self._stream, [row.version for row in page])
            events = {recorded.version: recorded for recorded in read}
            for row in page:
                values[row.version] = value_of(row, events)
                self._keep(row, values[row.version])
        return [values[row.version] for row in rows]

    def forget(self, version: int) -> None:
        """Let go of a value that is no longer current."""
        _, size_bytes = self._held.pop(version, (None, 0))
        self._json_bytes -= size_bytes

    def _keep(self, row: DocumentRow, value: object) -> None:
        """Keep a value if there is room: throwing others out for it would help no later query."""
        if row.version in self._held:
            return
        if self._json_bytes + row.size_bytes <= CACHED_JSON_BYTES_MAX:
            self._held[row.version] = (value, row.size_bytes)
            self._json_bytes += row.size_bytes
