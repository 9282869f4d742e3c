"""`user.context`: the document MEMORY.md, other documents, and what goes into a prompt.

A prompt says nothing twice, and keeps within a budget of tokens. If a text exceeds its budget, the
prompt contains the part that the query is about, in whole sentences where they fit.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, islice, zip_longest
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import anyio.to_thread
from msgspec.structs import replace

from eventlog.core.records import to_datetime, to_us
from memory_actors.base import validation
from memory_actors.base.context_documents import DEFAULT_DOCUMENT, ContextReceipt, DocumentInfo
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import Hit, Memory, MemoryType, least
from memory_actors.base.reports import QUOTED, Context, ContextPart
from memory_actors.base.reports import Context as Prompt
from memory_actors.base.tokens import TokenCounter, most
from memory_actors.base.validation import check_name, check_names, check_text, content_bytes
from memory_actors.compaction.summarizers.sentences import MARKER, clip, count_words, sentences
from memory_actors.kinds.context import commands
from memory_actors.kinds.context.alignment import align
from memory_actors.kinds.context.state import ContextState, archive, blocks, text
from memory_actors.kinds.passages import spoken
from memory_actors.kinds.provenance import together
from memory_actors.kinds.rows import derived
from memory_actors.search.choosing import Folding
from memory_actors.search.indexes.words import words
from memory_actors.search.query import asked_until_us, asks_of_past
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


if TYPE_CHECKING:
    from memory_actors.api.user import UserMemory

CONTEXT_MESSAGES = 6  # what was said last: three exchanges
CONTEXT_MEMORIES = 5
MEMORY_TOKENS = 32  # of one in a prompt, at least, with its time and its quotes
ITEM_SHARE = 2  # an item takes at most a half of a budget, unless somebody says how much
FILLED = 0.9  # of a budget: if whole texts fill less, a part of one fills the rest
ORDER: Final = ("document", "message", "memory", "compressed")


class Ask(NamedTuple):
    """The request for a prompt. See `UserContext`."""

    query: str
    session_id: str | None
    limit: int | None
    token_budget: int | None
    max_item_tokens: int | None
    document: ContextPart | None
    now_us: int


class _Said(NamedTuple):
    """A text that may be part of a prompt, and its speaker."""

    part: ContextPart
    role: str | None = None


async def prompt(user: "UserMemory", counter: TokenCounter, ask: Ask) -> Context:
    """Return what `user.context(query)` says."""
    validation.text_bytes(ask.query, "query", validation.QUERY_BYTES_MAX)
    if ask.token_budget is not None:
        validation.check_count(ask.token_budget, "token_budget")
    if ask.max_item_tokens is not None:
        validation.check_count(ask.max_item_tokens, "max_item_tokens", least=1)
    folding = Folding()
    folding.leave_out(ask.query)
    messages = await user.short_term.messages(ask.session_id, last=2 * CONTEXT_MESSAGES)
    newest = islice(filter(folding.is_new, reversed(messages)), CONTEXT_MESSAGES)
    said = [_Said(_part(one, "message"), one.role) for one in newest]
    found = await _remembered(user, ask, folding, len(messages))
    wanted = [] if ask.document is None else [_Said(ask.document)]
    wanted += [one for one in chain.from_iterable(zip_longest(said, found)) if one is not None]
    places = {one.part.memory_id: place for place, one in enumerate((*reversed(said), *found))}
    chosen = _fitting(wanted, counter, ask)
    chosen.sort(key=lambda part: (ORDER.index(part.source), places.get(part.memory_id, 0)))
    counted = tuple(replace(part, tokens=most(counter, f"{part.line}\n")) for part in chosen)
    return Context(counted, tokens=most(counter, Context(counted).text))


async def _remembered(user: "UserMemory", ask: Ask, folding: Folding, messages: int) -> list[_Said]:
    """Return the best memories and summaries; those that are over only where the past is asked."""
    limit = CONTEXT_MEMORIES
    if ask.limit is not None:
        limit = validation.check_top_k(ask.limit)
    elif ask.token_budget is not None:
        limit = min(validation.TOP_K_MAX, max(limit, ask.token_budget // MEMORY_TOKENS))
    asked = min(limit + messages + 1, validation.TOP_K_MAX)  # some of what is found was just said
    while True:
        hits = await user.retrieve(ask.query, memory_types=[MemoryType.LONG_TERM], top_k=asked)
        current = _held(ask, hits)
        if len(current) >= limit or len(hits) < asked or asked == validation.TOP_K_MAX:
            break
        asked = min(4 * asked, validation.TOP_K_MAX)
    best = sorted(filter(folding.is_new, current), key=attrgetter("score"), reverse=True)[:limit]
    return [_Said(_part(hit, hit.source), hit.role) for hit in best]


def _held(ask: Ask, hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits that hold, or held at the earlier time that a query asks about."""
    over_us = {hit.memory_id: to_us(hit.held_until) for hit in hits if hit.held_until is not None}
    if not over_us or asks_of_past(ask.query):
        return list(hits)
    times_us = [to_us(hit.occurred_at) for hit in hits if hit.memory_id in over_us]
    until_us = asked_until_us(ask.query, ask.now_us, times_us)
    if until_us is None:
        return [hit for hit in hits if hit.memory_id not in over_us]
    return [hit for hit in hits if over_us.get(hit.memory_id, until_us) >= until_us]


def _part(memory: Memory, source: str) -> ContextPart:
    text = memory.passage if isinstance(memory, Hit) else memory.content
    return derived(ContextPart, memory, source=source, text=text)


def _fitting(wanted: Sequence[_Said], counter: TokenCounter, ask: Ask) -> list[ContextPart]:
    """Return the first parts that fit a budget together; one too long leaves its room to others.

    Each is counted alone, and all of them together in the end: counts do not quite add up.
    """
    budget, item_tokens = ask.token_budget, ask.max_item_tokens
    if budget is None:
        return [part for one in wanted if (part := _worded(one, ask, counter, item_tokens))]
    tokens = partial(most, counter)
    if item_tokens is None:
        item_tokens = budget // ITEM_SHARE
    chosen, waiting = list[ContextPart](), wanted
    for _ in range(2):  # the second time with the room that counting alone has overrated
        left = budget - tokens(_text(chosen))
        again = []
        for one in waiting:
            part = _worded(one, ask, counter, item_tokens)
            if part is not None and (size := tokens(f"{part.line}\n")) <= left:
                chosen.append(part)
                left -= size
            else:
                again.append(one)
        waiting = again
    left = budget - tokens(_text(chosen))
    for one in waiting if left > (1 - FILLED) * budget else ():
        frame = tokens(f"{replace(one.part, text='').line}\n")
        part = _worded(one, ask, counter, min(left - frame, item_tokens))
        if part is not None and tokens(f"{part.line}\n") <= left:
            chosen.append(part)
            break
    while chosen and tokens(_text(chosen)) > budget:
        chosen.pop()
    return chosen


def _text(parts: Sequence[ContextPart]) -> str:
    """Return the text of a prompt; of none, what is around its parts."""
    return Context((*parts,)).text or QUOTED


def _worded(
    one: _Said, ask: Ask, counter: TokenCounter, tokens_max: int | None
) -> ContextPart | None:
    """Return a part with its speaker, cut to a number of tokens; or None if no word fits."""
    text = one.part.text
    if tokens_max is not None:
        by = 0 if one.role is None else most(counter, f"{one.role}:")
        text = excerpt(text, ask.query, counter, tokens_max - by)
    return replace(one.part, text=spoken(text, one.role)) if text else None


PIECE_WORDS_MAX = 40  # a longer sentence is taken in pieces: transcripts know no full stops


def excerpt(text: str, query: str, counter: TokenCounter, tokens_max: int) -> str:
    """Return a text of at most so many tokens, cut around the sentence with most of the query.

    `…` marks what is left out. "" if not even a word fits.
    """
    if most(counter, text) <= tokens_max:
        return text
    spans = list(_pieces(text))
    pieces, asked = [text[start:end] for start, end in spans], set(words(query))
    best = max(range(len(pieces)), key=lambda n: (len(asked & set(words(pieces[n]))), -n))
    sizes = [most(counter, f"{piece} ") for piece in pieces]
    left = tokens_max - sizes[best] - 2 * most(counter, f" {MARKER}")
    first, end, grown = best, best + 1, True
    while grown:  # a sentence behind it, one before it, and so on
        grown = False
        for place in (end, first - 1):
            if 0 <= place < len(pieces) and sizes[place] <= left:
                first, end, left, grown = (
                    min(first, place),
                    max(end, place + 1),
                    left - sizes[place],
                    True,
                )
    while True:
        before, behind = f"{MARKER} " * (first > 0), f" {MARKER}" * (end < len(pieces))
        cut = f"{before}{text[spans[first][0] : spans[end - 1][1]]}{behind}"
        if most(counter, cut) <= tokens_max:
            return cut
        if end - first == 1:
            return _clipped(pieces[best], counter, tokens_max)
        first, end = (first, end - 1) if end - 1 > best else (first + 1, end)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    """Yield where each sentence begins and ends; of a long one, each of its pieces."""
    at = 0
    for sentence in sentences(text):
        rest = sentence
        while rest:
            head = clip(rest, PIECE_WORDS_MAX, len(rest.encode())).removesuffix(MARKER) or rest
            start = text.index(head, at)
            at = start + len(head)
            yield start, at
            rest = rest[len(head) :].strip()


def _clipped(piece: str, counter: TokenCounter, tokens_max: int) -> str:
    for count in range(count_words(piece), 0, -1):
        head = clip(piece, count, len(piece.encode()))
        if head and most(counter, head) <= tokens_max:
            return head
    return ""
