"""`user.context`: the document MEMORY.md, other documents, and what goes into a prompt."""

from collections.abc import Awaitable, Callable
from functools import partial

import anyio.to_thread

from eventlog.records import to_datetime
from memory_actors.context_records import DEFAULT_DOCUMENT, ContextReceipt, DocumentInfo
from memory_actors.errors import InvalidInputError
from memory_actors.handles.context_document import ContextDocument
from memory_actors.kinds.context import commands
from memory_actors.kinds.context.commands import Insert
from memory_actors.kinds.context.markdown import parse
from memory_actors.kinds.context.state import Context, Document, in_order, text
from memory_actors.records import Context as Prompt
from memory_actors.tokens import TokenCounter
from memory_actors.validation import check_name, plain
from memory_actors.writers.context import ContextWriter
from memory_actors.writers.scope import Scope

AskPrompt = Callable[[str, str | None, int], Awaitable[Prompt]]


class UserContext(ContextDocument):
    """The default document, the way to the others and, called, what to paste into a prompt."""

    def __init__(self, scope: Scope, writer: ContextWriter, ask_prompt: AskPrompt):
        super().__init__(scope, writer, DEFAULT_DOCUMENT)
        self._ask_prompt = ask_prompt

    async def __call__(self, query: str, session_id: str | None = None, limit: int = 5) -> Prompt:
        """Return what to paste into a prompt: the last messages, what is remembered, summaries.

        The last 3 messages of the session (the handle's, if none is named), oldest first; the
        `limit` best long-term memories; up to 2 summaries. `.text` is the prompt.
        """
        return await self._ask_prompt(query, session_id, limit)

    def document(self, name: str) -> ContextDocument:
        """Return a handle on the document of this name. No I/O.

        :raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.
        """
        return ContextDocument(self._scope, self._writer, check_name(name, "document"))

    async def documents(self) -> list[DocumentInfo]:
        """Return what documents there are, by name."""
        async with self._scope.live() as live:
            state = live.state.context
        counter = self._writer.budget.counter
        return await anyio.to_thread.run_sync(partial(_infos, state, counter))

    async def create(self, name: str, text: str = "") -> ContextReceipt:
        """Make a new document of a Markdown text.

        :raises InvalidInputError: there is one of that name.
        :raises ContextLimitError: the text is too large.
        """
        check_name(name, "document")
        if not isinstance(text, str):
            raise InvalidInputError(f"text must be a string, not {type(text).__name__}")
        inserts: list[Insert] = []
        for one in parse(plain(text)):
            after = inserts[-1].entry_id if inserts else None
            inserts.append(Insert(self.new_entry_id(), one.raw, one.heading, after))
        command = self._writer.changing(name, inserts, create=True)
        ids = [one.entry_id for one in inserts]
        return await self._writer.change(name, "create", command, ids)

    async def rename(self, old: str, new: str) -> ContextReceipt:
        """Give a document another name; its archive goes with it.

        :raises NotFoundError: there is none of the old name.
        :raises InvalidInputError: there is one of the new name.
        """
        command = commands.RenameDocument(
            now_us=self._scope.now_us(),
            document=check_name(old, "document"),
            to=check_name(new, "document"),
        )
        return await self._writer.change(new, "rename", command, ())

    async def delete(self, name: str) -> ContextReceipt:
        """Delete a document with its archive. `restore` brings back what of it is named.

        :raises NotFoundError: there is none of that name.
        """
        check_name(name, "document")
        command = commands.DeleteDocument(now_us=self._scope.now_us(), document=name)
        return await self._writer.change(name, "delete", command, ())


def _infos(state: Context, counter: TokenCounter) -> list[DocumentInfo]:
    return [_info(name, state.documents[name], counter) for name in sorted(state.documents)]


def _info(name: str, document: Document, counter: TokenCounter) -> DocumentInfo:
    rows = in_order(document.blocks.values())
    said = text(rows)
    return DocumentInfo(
        name=name,
        tokens=counter.count(said),
        size_bytes=len(said.encode()),
        updated_at=to_datetime(document.updated_at_us),
        entries=sum(row.heading is None for row in rows),
        archived=len(document.archived),
    )
