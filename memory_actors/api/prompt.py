"""The prompt that was asked for, made of memories: nothing twice, and within a budget of tokens.

Of a text that is too long for its budget the part is taken that the query is about, as whole
sentences where they fit.
"""

from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import TYPE_CHECKING

import msgspec

from memory_actors.base.records import Memory, MemoryType
from memory_actors.base.reports import Context, ContextPart
from memory_actors.base.tokens import TokenCounter
from memory_actors.base.validation import (
    QUERY_BYTES_MAX,
    TOP_K_MAX,
    check_count,
    check_top_k,
    text_bytes,
)
from memory_actors.compaction.summarizers.sentences import MARKER, clip, count_words, sentences
from memory_actors.kinds.phrasing import spoken
from memory_actors.search.choosing import Folding
from memory_actors.search.indexes.words import words

if TYPE_CHECKING:
    from memory_actors.api.user import UserMemory

CONTEXT_MESSAGES = 3  # what was said last: an agent has more of it itself
CONTEXT_MEMORIES = 5
MEMORIES_MAX = 100  # within a budget of tokens, unless somebody says how many
MEMORY_TOKENS = 16  # of one in a prompt, at least, with its time and its quotes
ITEM_SHARE = 2  # an item takes at most a half of a budget, unless somebody says how much


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The request for a prompt. See `UserContext`."""

    query: str
    session_id: str | None
    limit: int | None
    token_budget: int | None
    max_item_tokens: int | None


async def prompt(user: "UserMemory", counter: TokenCounter, ask: Ask) -> Context:
    """Return what `user.context(query)` says."""
    text_bytes(ask.query, "query", QUERY_BYTES_MAX)
    budget, item_tokens = ask.token_budget, ask.max_item_tokens
    if budget is not None:
        check_count(budget, "token_budget")
    if item_tokens is not None:
        check_count(item_tokens, "max_item_tokens", least=1)
    elif budget is not None:
        item_tokens = budget // ITEM_SHARE
    folding = Folding()
    folding.leave_out(ask.query)
    messages = await user.short_term.messages(ask.session_id, last=2 * CONTEXT_MESSAGES)
    said = [one for one in reversed(messages) if folding.is_new(one)][:CONTEXT_MESSAGES]
    limit = _limit(ask)
    asked = min(limit + len(messages) + 1, TOP_K_MAX)  # some of what is found was just said
    hits = await user.retrieve(ask.query, memory_types=[MemoryType.LONG_TERM], top_k=asked)
    found = [hit for hit in hits if folding.is_new(hit)]
    memories = [hit for hit in found if hit.source != "compressed"][:limit]
    summaries = [hit for hit in found if hit.source == "compressed"]
    wanted = [*_in_turn(said, memories), *summaries]
    parts = {one.memory_id: _part(one, ask.query, counter, item_tokens) for one in wanted}
    chosen = _fitting([part for part in parts.values() if part.text], counter, budget)
    ordered = (parts[one.memory_id] for one in (*reversed(said), *memories, *summaries))
    return Context(tuple(part for part in ordered if part.memory_id in chosen))


def _limit(ask: Ask) -> int:
    if ask.limit is not None:
        return check_top_k(ask.limit)
    if ask.token_budget is None:
        return CONTEXT_MEMORIES
    return min(MEMORIES_MAX, max(CONTEXT_MEMORIES, ask.token_budget // MEMORY_TOKENS))


def _in_turn(said: Sequence[Memory], memories: Sequence[Memory]) -> list[Memory]:
    """Return the newest message, the best memory, the next message and so on."""
    pairs = chain.from_iterable(zip_longest(said, memories))
    return [one for one in pairs if one is not None]


def _part(memory: Memory, query: str, counter: TokenCounter, tokens_max: int | None) -> ContextPart:
    said, role, text = memory.memory_type == MemoryType.SHORT_TERM, memory.role, memory.content
    if tokens_max is not None:
        by = 0 if role is None else counter.count(f"{role}:")
        text = excerpt(text, query, counter, tokens_max - by)
    return ContextPart(
        source="message" if said else memory.source,
        memory_id=memory.memory_id,
        text=spoken(text, role) if text else "",
        occurred_at=memory.occurred_at,
        score=getattr(memory, "score", None),
        origins=memory.origins,
        trust=memory.trust,
    )


def _fitting(
    parts: Sequence[ContextPart], counter: TokenCounter, budget: int | None
) -> dict[str, ContextPart]:
    """Return the first parts that fit a budget together, by id; one too long leaves its room.

    Each is counted alone, and all of them once in the end: counts of parts do not quite add up.
    """
    chosen = {part.memory_id: part for part in parts}
    if budget is None or not parts:
        return chosen
    frame = counter.count(Context((msgspec.structs.replace(parts[0], text=""),)).text)
    left, chosen = budget - frame, {}
    for part in parts:
        tokens = counter.count(part.line)
        if tokens <= left:
            chosen[part.memory_id] = part
            left -= tokens
    while chosen and counter.count(Context(tuple(chosen.values())).text) > budget:
        chosen.popitem()
    return chosen


PIECE_WORDS_MAX = 40  # a longer sentence is taken in pieces: transcripts know no full stops


def excerpt(text: str, query: str, counter: TokenCounter, tokens_max: int) -> str:
    """Return a text of at most so many tokens, cut around the sentence with most of the query.

    `…` stands where something is left out. "" if not even a word fits.
    """
    if counter.count(text) <= tokens_max:
        return text
    pieces = list(_pieces(text))
    asked = set(words(query))
    best = max(range(len(pieces)), key=lambda n: (len(asked & set(words(pieces[n]))), -n))
    first, end = best, best + 1
    if counter.count(_between(pieces, first, end)) > tokens_max:
        return _clipped(pieces[best], counter, tokens_max)
    grown = True
    while grown:  # a sentence behind it, one before it, and so on
        grown = False
        for new_first, new_end in ((first, end + 1), (first - 1, end + grown)):
            if new_first < 0 or new_end > len(pieces):
                continue
            if counter.count(_between(pieces, new_first, new_end)) <= tokens_max:
                first, end, grown = new_first, new_end, True
    return _between(pieces, first, end)


def _pieces(text: str) -> Iterator[str]:
    for sentence in sentences(text):
        rest = sentence
        while count_words(rest) > PIECE_WORDS_MAX:
            head = clip(rest, PIECE_WORDS_MAX, len(rest.encode())).removesuffix(MARKER)
            if not head:
                break
            yield head
            rest = rest[len(head) :].strip()
        if rest:
            yield rest


def _between(pieces: list[str], first: int, end: int) -> str:
    before = [MARKER] if first else []
    behind = [MARKER] if end < len(pieces) else []
    return " ".join([*before, *pieces[first:end], *behind])


def _clipped(piece: str, counter: TokenCounter, tokens_max: int) -> str:
    for count in range(count_words(piece), 0, -1):
        head = clip(piece, count, len(piece.encode()))
        if head and counter.count(head) <= tokens_max:
            return head
    return ""
