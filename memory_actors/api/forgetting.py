"""`user.forget(...)`: a fact, out of a user's memory and out of the log.

Four steps, in an order that makes a crash harmless: forgetting again does the rest.

1. Tombstones refuse whatever says the fact from now on.
2. The log is searched for every memory that ever said it.
3. Each of them goes, or loses the part (`kinds/forgetting.py`), by events of its kind.
4. The words are rewritten in the log, where `[forgotten]` takes their place; snapshots, index files
   and vectors that were derived from them go. The user's actor is put away meanwhile.

The rest of an event keeps its place, ids and times, so replays of earlier moments show that
something was there. Digests of texts that went are replaced by digests under the tombstones' key.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, NamedTuple

import anyio.to_thread
import msgspec

from eventlog import Dropped, Recorded, RedactingStore, require
from eventlog.core.records import AnyRecorded, Checkpoint
from memory_actors.base.errors import NotFoundError
from memory_actors.base.validation import NAME_BYTES_MAX
from memory_actors.compaction.replacing import checkpoint_name
from memory_actors.kinds import structured, working
from memory_actors.kinds.entity.state import EntityRow, observation_at
from memory_actors.kinds.forgetting import Forget, said_by
from memory_actors.kinds.passages import text_digest
from memory_actors.kinds.provenance import SourcePurged
from memory_actors.kinds.review import MemoryHeld, pending_row
from memory_actors.kinds.tombstones import (
    MARK,
    PutTombstones,
    Tombstone,
    clauses,
    has_words,
    keyed,
    plainly,
    texts_in,
)
from memory_actors.kinds.user_state import UserState, kind_of
from memory_actors.search.embedding.embeddings import Embeddings
from memory_actors.search.indexes.files import remove_indexes
from memory_actors.upkeep.store import event_registry
from memory_actors.users.handles.scope import Scope
from memory_actors.users.holds import holds_of, refuse_held
from memory_actors.users.purges import batches, carried_out

KEY_BYTES = 32
PAGE_EVENTS = 512  # searched in a thread: some 10 ms
NAMES = frozenset({"name", "source", "target"})  # each another one: memories are found by them
REASONS = frozenset({"evidence", "reason"})  # they quote the memories that they name
_KEYS = event_registry().keys


class Fact(NamedTuple):
    """A fact to forget."""

    texts: tuple[str, ...]
    chosen: frozenset[str] = frozenset()
    """The memory that was named; of a summary, its originals too."""


def _saying(fact: Fact) -> Callable[[str], bool]:
    """Return whether a text, or a sentence or clause of it, says a fact."""
    said = {plainly(one) for one in fact.texts}
    return lambda text: any(plainly(part) in said for part in clauses(text))


# --- what is meant, and who says it


async def meant(scope: Scope, what: str) -> Fact:
    """Return the fact that a memory says, or that is given in words."""
    past = await scope.events_about(what) if len(what.encode()) <= NAME_BYTES_MAX else []
    kind = kind_of(past[0]) if past else None
    if kind is None:
        return Fact((what,))
    try:
        row, events, _ = kind.last(what, past)
    except NotFoundError:
        if not isinstance(past[0].data, MemoryHeld):  # retention dropped its words
            return Fact((), frozenset({what}))
        row, said = pending_row(kind, past[0])
        events = [*said.values()]
    by_version = {one.version: one for one in events}
    if isinstance(row, EntityRow):  # "is tall" is another fact about somebody else
        told = [observation_at(one.label, by_version) for one in row.observations]
        texts = [one for one in told if row.name.casefold() in one.casefold()]
    elif kind in (structured.KIND, working.KIND):  # a word says nothing alone, without its key
        told = [*texts_in(said_by(kind, row, by_version), words=True)]
        texts = [one for one in told if " " in one.strip()]
    else:
        texts = [said_by(kind, row, by_version)]
    words = tuple(one for one in texts if not one.startswith(MARK))
    made_of = getattr(events[0].data, "compressed_from_ids", ())
    return Fact(words, frozenset({what, *made_of}))


async def with_codes(
    embeddings: Embeddings, texts: Sequence[str], stones: Sequence[Tombstone], similar: float
) -> tuple[Tombstone, ...]:
    """Return tombstones with the embeddings of their texts.

    :raises EmbedderError: a text could not be embedded.
    """
    codes = await embeddings.codes({text_digest(text): text for text in texts})
    by_digest = {keyed(text, one.key): codes[text_digest(text)] for one in stones for text in texts}
    return tuple(
        msgspec.structs.replace(one, similar=similar, code=by_digest[one.digest]) for one in stones
    )


async def named(scope: Scope, fact: Fact) -> set[str]:
    """Return every memory that an event says the fact of, and summaries of those; alive or not."""
    about, is_said = {*fact.chosen}, _saying(fact)

    def look(page: Sequence[Recorded[object]]) -> None:
        for event in (one.data for one in page if not isinstance(one.data, Dropped)):
            originals = getattr(event, "compressed_from_ids", ())
            said = texts_in(msgspec.to_builtins(event, builtin_types=(bytes,)))
            if not about.isdisjoint(originals) or any(map(is_said, said)):
                about.update(_KEYS(event))

    await _searched(scope, look)
    return about


async def _searched(scope: Scope, look: Callable[[Sequence[Recorded[object]]], None]) -> None:
    log = scope.services.log
    await log.flush()
    version = (await log.head(scope.stream)).erased_version
    while page := await log.read_stream(scope.stream, version, PAGE_EVENTS, dropped="mark"):
        await anyio.to_thread.run_sync(look, page)
        version = page[-1].version


# --- the work


async def forget(
    scope: Scope, fact: Fact, stones: tuple[Tombstone, ...], *, everywhere: bool, dry_run: bool
) -> tuple[list[SourcePurged], int]:
    """Refuse a fact, and take it out; return what each batch came to, and the events rewritten."""
    sought = fact if everywhere else Fact((), fact.chosen)  # the memory, and summaries of it
    async with scope.writable() as live:
        before = live.state
        if not dry_run and stones:
            await scope.ask(live, PutTombstones(now_us=scope.now_us(), tombstones=stones))
        about = await named(scope, sought)
        commands = (
            Forget(now_us=scope.now_us(), memory_ids=batch, tombstones=stones, chosen=fact.chosen)
            for batch in batches(live.state, about)
        )
        done = await carried_out(scope, live, commands, dry_run=dry_run)
        path, state = live.indexes.path, live.state
    if dry_run:
        return done, 0
    living = await anyio.to_thread.run_sync(_digests, state)
    gone = await anyio.to_thread.run_sync(_digests, before) - living
    words = _Words(sought, stones, done, living, gone)
    return done, await _rewritten(scope, words, path)


async def forget_gone(scope: Scope, is_meant: Callable[[AnyRecorded], bool]) -> int:
    """Take memories that some events are about, and that are gone, out of the log."""
    gone = set[str]()

    def look(page: Sequence[Recorded[object]]) -> None:
        for one in page:
            if not isinstance(one.data, Dropped) and is_meant(one):
                gone.update(_KEYS(one.data))

    async with scope.services.turn("forget", scope.stream):
        await _searched(scope, look)
        async with scope.writable() as live:
            path, state = live.indexes.path, live.state
        living = {one for one in gone if state.find(one) is not None}
        if gone <= living:
            return 0
        fact = Fact((), frozenset(gone - living))
        words = _Words(fact, (), (), await anyio.to_thread.run_sync(_digests, state), set())
        return await _rewritten(scope, words, path)


async def _rewritten(scope: Scope, words: "_Words", path: Path | None) -> int:
    """Take words out of the log and what is derived from it; return how many events had them."""
    store = require(scope.services.log, RedactingStore)
    async with scope.services.runtime.alone(scope.stream):
        refuse_held(await holds_of(scope.services.log, scope.stream))  # placed meanwhile
        # so that the next compaction archives again what a crash would leave out of the archive
        await scope.services.log.save_checkpoint(Checkpoint(checkpoint_name(scope.stream), 0))
        rewritten = await store.redact(scope.stream, words.rewritten)
        await scope.embeddings.erase(words.digests)
        if path is not None:
            await anyio.to_thread.run_sync(remove_indexes, path)
    return rewritten


def _digests(state: UserState) -> set[bytes]:
    names = ("digest", "same", "value_digest")
    return state.digests() | {getattr(one.row, n, b"") for one in state.rows() for n in names}


class _Words:
    """Takes the words of a fact out of the events of a user, in their order."""

    def __init__(
        self,
        fact: Fact,
        stones: Sequence[Tombstone],
        done: Sequence[SourcePurged],
        living: AbstractSet[bytes],
        gone: set[bytes],
    ):
        self._is_said = _saying(fact)
        self._key = stones[0].key if stones else secrets.token_bytes(KEY_BYTES)
        self._gone = fact.chosen.union(one for each in done for _, one in each.gone)
        self._kept = {one for each in done for _, one in each.kept}
        self._living = living
        self.digests = gone
        """Digests of texts that went: a later event may name one."""

    def rewritten(self, event: Any) -> object:
        """Return an event, as plain data, without the words; one about a kept memory as it is."""
        if event.get("memory_id") in self._kept:
            return event
        return self._node(event, own=False, words=False)

    def _node(self, node: Mapping[str, object], *, own: bool, words: bool) -> dict[str, object]:
        own = own or node.get("memory_id") in self._gone
        names_gone = own or any(isinstance(one, str) and one in self._gone for one in node.values())
        found: dict[str, object] = {}
        for name, value in node.items():
            is_words = words or (
                has_words(name, value) and not ("came" in node and name == "action")
            )
            if (own and name == "value") or (names_gone and name in REASONS):
                found[name] = MARK
            elif own and name == "metadata":
                found[name] = {}
            else:
                found[name] = self._of(value, own=own, words=is_words, is_name=name in NAMES)
        if own or any(isinstance(node[name], str) and node[name] != found[name] for name in node):
            self.digests.update({one for one in node.values() if isinstance(one, bytes)})
            self.digests -= self._living
        return {name: self._of(value, own=own, words=False) for name, value in found.items()}

    def _of(self, value: object, *, own: bool, words: bool, is_name: bool = False) -> object:
        if isinstance(value, str):
            if not words or not (own or self._is_said(value)):
                return value
            self.digests |= {text_digest(value)} - self._living
            return f"{MARK} {keyed(value, self._key).hex()}" if is_name else MARK
        if isinstance(value, bytes) and value in self.digests:
            size = len(value)
            return hashlib.blake2b(value, key=self._key, digest_size=size).digest()
        if isinstance(value, dict):
            return self._node(value, own=own, words=words)
        if isinstance(value, list):
            return [self._of(one, own=own, words=words) for one in value]
        return value
