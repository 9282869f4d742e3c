"""A context document in memory: what sync and the memory tool need of the handle, and no more."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from memory_actors import (
    EditBlock,
    InsertBlock,
    InvalidInputError,
    RemoveBlock,
    StaleDocumentError,
    text_digest,
)
from memory_actors.base.context_documents import BlockChange
from memory_actors.kinds.context.alignment import Placed, align
from memory_actors.kinds.context.markdown import parse, render


class Entry(NamedTuple):
    entry_id: str
    section: str
    raw: str


class Info(NamedTuple):
    name: str
    size_bytes: int


class Receipt(NamedTuple):
    archived: tuple[str, ...]


def placed(text: str) -> list[Placed]:
    """Return a text's blocks with ids."""
    return [Placed(f"b{n}", *block) for n, block in zip(count(), parse(text), strict=False)]


def applied(blocks: Sequence[Placed], changes: Sequence[BlockChange]) -> list[Placed]:
    """Return the blocks behind some changes."""
    after = list(blocks)
    for change in changes:
        at = {block.block_id: n for n, block in enumerate(after)}
        match change:
            case RemoveBlock(entry_id):
                del after[at[entry_id]]
            case EditBlock(entry_id, raw):
                (block,) = parse(raw)
                after[at[entry_id]] = Placed(entry_id, raw, block.heading)
            case InsertBlock(entry_id, raw, heading, previous):
                assert entry_id not in at
                where = 0 if previous is None else at[previous] + 1
                after.insert(where, Placed(entry_id, raw, heading))
    return after


class FakeDocument:
    """A document with the contract of the handle: `expected`, a limit, an archive, a base."""

    def __init__(self, text: str = "", *, name: str = "MEMORY.md"):
        self.name = name
        self.limit = 10_000
        self.live = placed(text)
        self.gone: list[Entry] = []
        self.base: tuple[str, Any] | None = None
        self.appends = 0
        self.before_append: list[Callable[[], None]] = []
        self._ids = count()

    @property
    def text(self) -> str:
        return render(block.raw for block in self.live)

    def set(self, text: str) -> None:
        """Let somebody else write."""
        self.live = applied(self.live, align(self.live, text, self.new_entry_id))

    def archive(self, entry_id: str) -> None:
        section = ""
        for block in self.live:
            section = section if block.heading is None else block.heading
            if block.block_id == entry_id:
                self.gone.append(Entry(entry_id, section, block.raw))
        self.live = [block for block in self.live if block.block_id != entry_id]

    def new_entry_id(self) -> str:
        return f"n{next(self._ids)}"

    async def blocks(self) -> list[Placed]:
        return list(self.live)

    async def archived(self) -> list[Entry]:
        return list(self.gone)

    async def _archive_digest(self) -> bytes:
        return text_digest(repr(self.gone))

    async def synced(self, label: str) -> Any:
        return self.base[1] if self.base and self.base[0] == label else None

    async def check_text(self, text: str, *, auto_archive: bool = False) -> str:
        """Take any: `limit` is in the append."""
        return text

    async def change(
        self,
        changes: Sequence[BlockChange],
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
    ) -> Receipt:
        base = self.base
        try:
            return await self._note_synced(
                (), changes, expected=expected, auto_archive=auto_archive
            )
        finally:
            self.base = base

    async def _note_synced(
        self,
        base: Any,
        changes: Sequence[BlockChange] = (),
        *,
        expected: bytes | None = None,
        auto_archive: bool = False,
        label: str = "",
    ) -> Receipt:
        if self.before_append:
            self.before_append.pop(0)()
        if expected is not None and expected != text_digest(self.text):
            raise StaleDocumentError("the document has changed")
        live = applied(self.live, changes)
        archived = []
        while len(render(block.raw for block in live)) > self.limit:
            entry = next((block for block in live if block.heading is None), None)
            if not auto_archive or entry is None:
                raise InvalidInputError("the document exceeds its hard limit")
            self.live = live
            self.archive(entry.block_id)
            live = self.live
            archived.append(entry.block_id)
        self.live, self.base = live, (label, base)
        self.appends += 1
        return Receipt(tuple(archived))


class FakeContext:
    """A user's documents, as `user.context` has them."""

    def __init__(self) -> None:
        self.held: dict[str, FakeDocument] = {}
        self._ids = count()

    @property
    def context(self) -> "FakeContext":
        return self

    def new_entry_id(self) -> str:
        return f"n{next(self._ids)}"

    def document(self, name: str) -> FakeDocument:
        return self.held.get(name) or FakeDocument(name=name)

    async def documents(self) -> list[Info]:
        return [Info(name, len(one.text.encode())) for name, one in sorted(self.held.items())]

    async def create(self, name: str, text: str = "") -> None:
        if name in self.held:
            raise InvalidInputError("there is one")
        document = FakeDocument(name=name)
        await document.change(align([], text, self.new_entry_id))
        self.held[name] = document

    async def rename_all(self, names: Mapping[str, str]) -> None:
        for old, new in names.items():
            self.held[new] = self.held.pop(old)

    async def delete_all(self, names: Sequence[str]) -> None:
        for name in names:
            del self.held[name]
