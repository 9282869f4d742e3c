"""The state of context documents as plain rows: what a snapshot holds."""

import msgspec
from immutables import Map

from memory_actors.kinds.context.state import Context, Document, Row, Synced, in_order


class DumpedDocument(msgspec.Struct, frozen=True, array_like=True):
    """One document, its rows in order."""

    name: str
    created_at_us: int
    updated_at_us: int
    rows: list[Row]
    synced: Synced | None


class Dump(msgspec.Struct, frozen=True):
    """The documents by name."""

    documents: list[DumpedDocument] = []


def dump(state: Context) -> Dump:
    """Return the state as plain rows."""
    return Dump([_dumped(name, state.documents[name]) for name in sorted(state.documents)])


def _dumped(name: str, document: Document) -> DumpedDocument:
    rows = in_order([*document.blocks.values(), *document.archived.values()])
    return DumpedDocument(
        name, document.created_at_us, document.updated_at_us, rows, document.synced
    )


def load(dumped: Dump) -> Context:
    """Return the state back."""
    rows = [row for one in dumped.documents for row in one.rows]
    return Context(
        Map({one.name: _loaded(one) for one in dumped.documents}),
        Map({row.memory_id: row.document for row in rows}),
        sum(row.heading is None for row in rows),
        sum(row.size_bytes for row in rows),
        sum(row.stored_bytes for row in rows),
        sum(row.size_bytes for row in rows if not row.archived),
    )


def _loaded(one: DumpedDocument) -> Document:
    return Document(
        one.created_at_us,
        one.updated_at_us,
        Map({row.memory_id: row for row in one.rows if not row.archived}),
        Map({row.memory_id: row for row in one.rows if row.archived}),
        one.synced,
    )
