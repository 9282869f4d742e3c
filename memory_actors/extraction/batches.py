"""The messages that an extractor has not read yet, in the batches in which it is shown them.

Messages are those of short-term memory, and the turns in long-term memory: what has a role. A fact
has none, so what an extractor has said is never extracted again.

An extractor may obey an untrusted message without a sign of it. Therefore a batch has one session
and one trust, its facts have the origins of all its messages, and known facts that are shown beside
it are at least as trusted.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from memory_actors.base.client_call import ASKED, CALL
from memory_actors.base.errors import NotFoundError
from memory_actors.base.filters import parsed
from memory_actors.base.origins import wanted
from memory_actors.base.paths import ESCAPE
from memory_actors.base.records import Hit, Memory, Trust, least
from memory_actors.extraction.protocol import Conversation, KnownFact, Spoken
from memory_actors.kinds import long_term, short_term
from memory_actors.kinds.kind import Found
from memory_actors.kinds.provenance import EXTRACTIONS, Extracted, Provenance
from memory_actors.kinds.rows import is_summary
from memory_actors.kinds.user_state import UserState
from memory_actors.search import retrieval
from memory_actors.search.query import Query
from memory_actors.search.reading import memories
from memory_actors.users.handles.scope import Scope
from memory_actors.users.live_user import UserView

MESSAGES_MAX: Final = 20
"""Of a batch: some minutes of a conversation, of which a model forgets nothing yet."""
BATCH_BYTES_MAX: Final = 16_000
"""The limit for a batch of several messages: some 4,000 tokens."""
BEFORE: Final = 4
NEAR: Final = 32  # memories that facts are picked from: turns of conversations may lie between
FACTS_NEAR_MAX, FACTS_MAX = 5, 24  # to one message; to all of a batch
QUERY_CHARACTERS_MAX: Final = 1_000


class MessageBatch(NamedTuple):
    """Rows of messages that are read together."""

    messages: Sequence[Found]
    before: Sequence[Found]
    trust: Trust

    @property
    def message_ids(self) -> tuple[str, ...]:
        """The ids of the messages."""
        return tuple(one.row.memory_id for one in self.messages)

    def halves(self) -> list["MessageBatch"]:
        """Split the batch into two."""
        middle = len(self.messages) // 2
        first, second = self.messages[:middle], self.messages[middle:]
        before = [*self.before, *first][-BEFORE:]
        return [self._replace(messages=first), self._replace(messages=second, before=before)]


class MessageShown(NamedTuple):
    """A conversation, and what is known of its parts besides."""

    conversation: Conversation
    digests: dict[str, bytes]
    """Digests of the texts of facts that may be changed, by id."""


async def read_before(scope: Scope) -> set[str]:
    """Return the ids of all messages that were read before this call.

    A call that is asked again, because its answer was lost, reads what it read the first time: its
    commands are answered from the log.
    """
    asked, found = ASKED.get(), set[str]()
    for recorded in await scope.events_about(EXTRACTIONS):
        again = asked is not None and asked.has(recorded.meta.get(CALL))
        if isinstance(recorded.data, Extracted) and not again:
            found.update(recorded.data.message_ids)
    return found


def new_batches(
    state: UserState,
    read: Collection[str],
    session_id: str | None,
    only: Collection[str] | None = None,
) -> list[MessageBatch]:
    """Return the messages that are new, of a session or of all: the oldest first of each.

    `only` names the ones that may be among them; None: all may.

    :raises NotFoundError: one that is named is not there, and was not read before it went.
    """
    turns = [
        Found(long_term.KIND, row)
        for row in long_term.KIND.rows(state.long_term)
        if session_id in (None, row.session_id) and row.role is not None and not is_summary(row)
    ]
    remembered = {_said(one.row) for one in turns}  # `turn` adds to both kinds: it is read once
    messages = turns + [
        Found(short_term.KIND, row)
        for row in short_term.KIND.rows(state.short_term)
        if session_id in (None, row.session_id) and _said(row) not in remembered
    ]
    messages.sort(key=lambda one: one.row.began)
    groups: dict[tuple[str | None, Trust], list[Found]] = {}
    for one in messages:
        trust = least(state.provenance.of(one.row.memory_id))
        groups.setdefault((one.row.session_id, trust), []).append(one)
    there = {one.row.memory_id for one in messages}
    for memory_id in only or ():
        if memory_id not in there and memory_id not in read:
            raise NotFoundError(
                f"no message {memory_id!r} to read: it was pushed out, expired or deleted, or it "
                "is a fact; add fewer messages before they are read"
            )
    wanted = there.intersection(there if only is None else only).difference(read)
    return [
        batch for (_, trust), group in groups.items() for batch in _batches(group, wanted, trust)
    ]


def _said(row: Any) -> tuple[object, ...]:
    return row.session_id, row.role, row.occurred_at_us, row.size_bytes


def _batches(
    group: Sequence[Found], wanted: Collection[str], trust: Trust
) -> Iterator[MessageBatch]:
    batch: list[Found] = []
    first = size = 0
    for place, one in enumerate(group):
        if one.row.memory_id not in wanted:
            continue
        full = len(batch) == MESSAGES_MAX or size + one.row.size_bytes > BATCH_BYTES_MAX
        if batch and full:
            yield MessageBatch(batch, group[max(0, first - BEFORE) : first], trust)
            batch, size = [], 0
        first = first if batch else place
        batch.append(one)
        size += one.row.size_bytes
    if batch:
        yield MessageBatch(batch, group[max(0, first - BEFORE) : first], trust)


# --- what the extractor is shown


async def shown(
    scope: Scope, live: UserView, batch: MessageBatch, within: Mapping[str, object]
) -> MessageShown:
    """Return the texts of a batch, and the facts near to them that have some metadata.

    :raises EmbedderError: a message could not be embedded.
    """
    state = live.state
    said = await _read(scope, batch.messages, state.provenance)
    before = await _read(scope, batch.before, state.provenance)
    near: dict[str, Hit] = {}
    for one in said:
        query = Query(
            text=one.content[:QUERY_CHARACTERS_MAX],
            kinds=[long_term.KIND],
            top_k=NEAR,
            now_us=scope.now_us(),
            filters=parsed({f"{ESCAPE}{name}": {"eq": value} for name, value in within.items()}),
            exclude_ids=frozenset([one.memory_id]),
            compressed=False,
            of_origin=wanted(None, batch.trust),
        )
        hits = await retrieval.retrieve(scope.services.log, live, query)
        ids = [hit.memory_id for hit in hits]
        await scope.recalled(live, one.content[:QUERY_CHARACTERS_MAX], ids)
        known = [
            hit
            for hit in hits
            if hit.role is None and hit.source == "memory" and hit.superseded_by is None
        ]
        near |= {hit.memory_id: hit for hit in known[:FACTS_NEAR_MAX]}
    facts = list(near.values())[:FACTS_MAX]
    conversation = Conversation(
        messages=tuple(map(_spoken, said)),
        before=tuple(map(_spoken, before)),
        facts=tuple(
            KnownFact(memory_id=one.memory_id, text=one.content, occurred_at=one.occurred_at)
            for one in facts
        ),
    )
    rows = {one.memory_id: long_term.KIND.find(state.long_term, one.memory_id) for one in facts}
    digests = {
        one.memory_id: row.digest
        for one in facts
        if one.trust == batch.trust and (row := rows[one.memory_id]) is not None
    }
    return MessageShown(conversation, digests)


async def _read(scope: Scope, found: Sequence[Found], provenance: Provenance) -> list[Memory]:
    return await memories(scope.services.log, scope.stream, found, provenance)


def _spoken(one: Memory) -> Spoken:
    return Spoken(
        memory_id=one.memory_id,
        text=one.content,
        role=one.role,
        said_at=one.occurred_at,
        session_id=one.session_id,
    )
