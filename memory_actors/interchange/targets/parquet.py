"""Parquet: a table with a row for each memory. Takes pyarrow (extra `parquet`).

What is no column of its own, metadata and data, is JSON in a text.
"""

from typing import IO, TYPE_CHECKING, Any, Final

import msgspec

from memory_actors.base.errors import MissingExtraError
from memory_actors.base.records import Memory
from memory_actors.interchange.targets.target import ExportTarget

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_ONCE: Final = 10_000
CHARACTERS_AT_ONCE: Final = 32 << 20
COLUMNS: Final = {
    "memory_id": "string", "user_id": "string", "memory_type": "string", "content": "string",
    "occurred_at": "time", "created_at": "time", "session_id": "string", "role": "string",
    "key": "string", "pinned": "bool_", "trust": "string", "sources": "list",
    "times_seen": "int64", "metadata": "string", "data": "string",
}  # fmt: skip


class ParquetWriter:
    """Writes groups of rows."""

    def __init__(self, file: IO[bytes]):
        self._arrow, parquet = _imported()
        self._schema = _schema(self._arrow)
        self._writer = parquet.ParquetWriter(file, self._schema, compression="zstd")
        self._rows: list[dict[str, Any]] = []
        self._characters = 0

    def write(self, memory: Memory, user_id: str) -> str | None:
        """Write any memory."""
        own = {name: getattr(memory, name, None) for name in COLUMNS}
        data = None if memory.data is None else msgspec.json.encode(memory.data).decode()
        row = own | {
            "user_id": user_id,
            "memory_type": str(memory.memory_type),
            "trust": memory.trust.value,
            "sources": [one.source for one in memory.origins if one.source],
            "metadata": msgspec.json.encode(memory.metadata).decode(),
            "data": data,
        }
        self._rows.append(row)
        self._characters += len(memory.content) + len(data or "")
        if len(self._rows) >= ROWS_AT_ONCE or self._characters >= CHARACTERS_AT_ONCE:
            self._flush()
        return None

    def _flush(self) -> None:
        self._writer.write_table(self._arrow.Table.from_pylist(self._rows, schema=self._schema))
        self._rows, self._characters = [], 0

    def end(self) -> None:
        """Write the rows that are left, and the end of the file."""
        if self._rows:
            self._flush()
        self._writer.close()


def _imported() -> tuple[Any, Any]:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingExtraError(
            "Parquet takes pyarrow, which is not installed: pip install 'memory-actors[parquet]'"
        ) from error
    return pa, parquet


def _schema(arrow: Any) -> "pa.Schema":
    types = {"time": arrow.timestamp("us", tz="UTC"), "list": arrow.list_(arrow.string())}
    columns = (
        (name, types[kind] if kind in types else getattr(arrow, kind)())
        for name, kind in COLUMNS.items()
    )
    return arrow.schema(list(columns))


TARGET: Final = ExportTarget("parquet", "a table for pandas, DuckDB and the like", ParquetWriter)
