"""`user.context`: the document MEMORY.md, other documents, and what goes into a prompt."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import anyio.to_thread

from eventlog.core.records import to_datetime
from memory_actors.api.prompt import Ask, prompt
from memory_actors.base.context_documents import DEFAULT_DOCUMENT, ContextReceipt, DocumentInfo
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import least
from memory_actors.base.reports import Context as Prompt
from memory_actors.base.reports import ContextPart
from memory_actors.base.tokens import TokenCounter
from memory_actors.base.validation import check_name, check_names, check_text, content_bytes
from memory_actors.kinds.context import commands
from memory_actors.kinds.context.alignment import align
from memory_actors.kinds.context.state import ContextState, archive, blocks, text
from memory_actors.kinds.provenance import together
from memory_actors.users.handles.context_document import ContextDocument
from memory_actors.users.handles.scope import Scope

if TYPE_CHECKING:
    from memory_actors.api.user import UserMemory


class UserContext(ContextDocument):
    """The default document, the way to the others and, called, what to paste into a prompt."""

    def __init__(self, scope: Scope, user: "UserMemory"):
        super().__init__(scope)
        self._user = user

    async def __call__(
        self,
        query: str,
        session_id: str | None = None,
        limit: int | None = None,
        *,
        token_budget: int | None = None,
        max_item_tokens: int | None = None,
        document: str | None = DEFAULT_DOCUMENT,
    ) -> Prompt:
        """Return text for a prompt: MEMORY.md, the last messages, and related memories.

        First the `document` (None: no document); then the last 6 messages of the session (the
        handle's, if none is named) and of no other, oldest first; then, of all sessions, the
        `limit` best long-term memories and summaries (None: 5, or what a budget holds). Duplicates
        and the query itself are left out. Facts that no longer hold are left out, unless the query
        asks about an earlier time: then `until` says until when it was true. `.text` is the prompt.

        `.text` has at most `token_budget` tokens: `Settings.token_counter` counts, an estimate as
        the most that they may be. A text of more than `max_item_tokens` (None: half of the budget)
        is cut at sentences around what the query is about, and so is the last one that has room.
        """
        part = None if document is None else await self._part(document)
        now_us = self._scope.now_us()
        ask = Ask(query, session_id, limit, token_budget, max_item_tokens, part, now_us)
        return await prompt(self._user, self._budget.counter, ask)

    async def _part(self, name: str) -> ContextPart | None:
        """Return a document as part of a prompt; or None if it is missing or empty."""
        state = await self._scope.state()
        rows = blocks(state.context, check_name(name, "document"))
        if not (said := text(rows).strip()):
            return None
        origins = together(state.provenance, (row.memory_id for row in rows))
        return ContextPart(
            source="document",
            memory_id=name,
            text=said,
            occurred_at=to_datetime(state.context.documents[name].updated_at_us),
            origins=origins,
            trust=least(origins),
        )

    def document(self, name: str) -> ContextDocument:
        """Return a handle on the document of this name. No I/O.

        :raises InvalidInputError: a name that is empty, over 512 bytes, or not Unicode.
        """
        return ContextDocument(self._scope, check_name(name, "document"))

    async def documents(self) -> list[DocumentInfo]:
        """Return the list of documents, by name."""
        state = (await self._scope.state()).context
        counter = self._budget.counter
        return await anyio.to_thread.run_sync(partial(_infos, state, counter))

    async def create(self, name: str, text: str = "") -> ContextReceipt:
        """Make a new document of a Markdown text.

        :raises InvalidInputError: there is one of that name.
        :raises ContextLimitError: the text is too large.
        """
        document = self.document(name)
        text = check_text(text, "text")
        if text.strip():
            content_bytes(text)
        await document.check_text(text)
        inserts = await anyio.to_thread.run_sync(align, (), text, self.new_entry_id)
        return await self._change(name, "create", inserts, create=True)

    async def rename(self, old: str, new: str) -> ContextReceipt:
        """Give a document another name; its archive goes with it.

        :raises NotFoundError: there is none of the old name.
        :raises InvalidInputError: there is one of the new name.
        """
        return await self._changed(new, "rename", self._renaming([(old, new)]), ())

    async def rename_all(self, names: Mapping[str, str]) -> None:
        """Give documents other names, from old to new, all or none. See `rename`."""
        if not isinstance(names, Mapping):
            raise InvalidInputError(f"names must be a dict, not {type(names).__name__}")
        await self._write(self._renaming(names.items()))

    async def delete(self, name: str) -> ContextReceipt:
        """Delete a document with its archive. `restore` brings back what of it is named.

        :raises NotFoundError: there is none of that name.
        """
        return await self._changed(name, "delete", self._deleting([name]), ())

    async def delete_all(self, names: Sequence[str]) -> None:
        """Delete documents with their archives, all or none. See `delete`."""
        await self._write(self._deleting(names))

    # --- how

    def _renaming(self, names: Iterable[tuple[str, str]]) -> commands.RenameDocuments:
        pairs = tuple(
            (check_name(old, "document"), check_name(new, "document")) for old, new in names
        )
        return commands.RenameDocuments(now_us=self._scope.now_us(), names=pairs)

    def _deleting(self, names: Sequence[str]) -> commands.DeleteDocuments:
        checked = check_names(names, "names")
        return commands.DeleteDocuments(now_us=self._scope.now_us(), documents=checked)


def _infos(state: ContextState, counter: TokenCounter) -> list[DocumentInfo]:
    infos = []
    for name, document in sorted(state.documents.items()):
        rows = blocks(state, name)
        said = text(rows)
        infos.append(
            DocumentInfo(
                name=name,
                tokens=counter.count(said),
                size_bytes=len(said.encode()),
                updated_at=to_datetime(document.updated_at_us),
                entries=sum(row.heading is None for row in rows),
                archived=len(archive(state, name)),
            )
        )
    return infos
