"""Tombstones: digests of what a user had forgotten, so that it does not come back by another way.

A digest is keyed, by a random key in the same stream, which is erased with the user. Texts that
differ in case, spelling, white space or final punctuation have the same digest. A text also says a
fact if one of its sentences does, or one of two clauses that "and" joins. A tombstone may also have
the embedding of the text, and the least cosine at which another text is similar.
"""

import hashlib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import mul
from typing import ClassVar

import msgspec
from immutables import Map

from eventlog import EventRegistry, Recorded
from memory_actors.base.errors import EmbeddingNeededError, ForgottenError
from memory_actors.base.quota import Limits
from memory_actors.base.records import Right
from memory_actors.kinds.commands import Command
from memory_actors.kinds.effects import Decision, Event, says
from memory_actors.kinds.kind import Decide, Part
from memory_actors.kinds.passages import DIGEST_BYTES, normalised

MARK = "[forgotten]"
"""It stands in the log for a text that was taken out. No text with these words can be added."""
TOMBSTONES = "tombstones"
"""The key under which the log finds every event of this part."""
TEXTS = frozenset({
    "content", "value", "goal", "action", "observation", "outcome", "error", "result", "text",
    "fact", "raw", "heading", "section", "title", "snippet", "metadata", "name", "source", "target",
})  # fmt: skip
"""The fields of events that have words of users."""

WHY = "it was forgotten"
_NOT_SAID_ANEW = frozenset({"entries", "evicted"})  # words of others that leave

registry = EventRegistry()

# --- what says the same

_SENTENCES = re.compile(r"((?<=[.!?;])\s+|\n\s*)")
_AND = re.compile(r",? and ")  # where white space is one blank: else a long run of it takes long
_SUBJECT = re.compile(r"(?:[^\W\d_a-z][\w'-]*\s+)+(?=[a-z])|(?:he|she|we|they|you)\s+")
_DETERMINERS = frozenset({
    "a", "an", "the", "my", "your", "his", "her", "its", "our", "their", "this", "that", "these",
    "those", "some", "any", "no", "every", "each",
})  # fmt: skip
_ENDS = " \t.!?;,\u2026"
_MARKS = " \t-*+#>"  # of a line of Markdown


def plainly(text: str) -> str:
    """Return the form of a text that texts with the same words share."""
    return normalised(text).casefold().strip(_ENDS).lstrip(_MARKS)


def keyed(text: str, key: bytes) -> bytes:
    """Return the digest of what a text says, under a key."""
    return hashlib.blake2b(plainly(text).encode(), key=key, digest_size=DIGEST_BYTES).digest()


def _subject(sentence: str) -> str:
    """Return the name or the pronoun that a sentence begins with, and a blank; "" if unsure."""
    found = _SUBJECT.match(sentence)
    is_name = found and not _DETERMINERS.intersection(found[0].casefold().split())
    return found[0] if found and is_name else ""


def clauses(text: str) -> Iterator[str]:
    """Yield a text, its sentences, and the clauses that "and" joins, with their subject."""
    yield text
    for sentence in (" ".join(one.split()).lstrip(_MARKS) for one in _SENTENCES.split(text)[::2]):
        yield sentence
        subject, parts = _subject(sentence), _AND.split(sentence)
        for part in parts if len(parts) > 1 else ():
            yield part
            yield subject + part


def trimmed(text: str, is_said: Callable[[str], bool]) -> str | None:
    """Return a text without the sentences and clauses of which `is_said` is true; "" if all are.

    Return None if one cannot be taken out because the rest would be no sentence.
    """
    if is_said(text):
        return ""
    left, whole = "", [*_SENTENCES.split(text), ""]
    for sentence, blank in zip(whole[::2], whole[1::2], strict=True):
        one = "" if is_said(sentence) else _without_clauses(sentence, is_said)
        if one is None:
            return None
        left += one + blank if one == sentence or one else ""
    return left if left == text else left.strip()


def _without_clauses(sentence: str, is_said: Callable[[str], bool]) -> str | None:
    plain = " ".join(sentence.split())
    subject, parts = _subject(plain.lstrip(_MARKS)), _AND.split(plain)
    left = [one for one in parts if not (is_said(one) or is_said(subject + one))]
    if len(left) == len(parts) or len(parts) == 1:
        return sentence
    if not left:
        return ""
    first, end = left[0], plain[len(plain.rstrip(_ENDS)) :]
    if first is not parts[0] and first[0].islower():
        if not subject:
            return None
        left[0] = subject + first
    return " and ".join(left).rstrip(_ENDS) + end


def cosine(a: bytes, b: bytes) -> float:
    """Return the cosine of two codes: embeddings as signed bytes."""
    one, other = memoryview(a).cast("b").tolist(), memoryview(b).cast("b").tolist()
    lengths = sum(map(mul, one, one)) * sum(map(mul, other, other))
    return sum(map(mul, one, other)) / math.sqrt(lengths) if lengths else 0.0


# --- events


class Tombstone(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something that was forgotten."""

    digest: bytes
    """`keyed` of what it said."""
    key: bytes
    at_us: int
    """The time at which it was forgotten."""
    reason: str = ""
    similar: float = 0.0
    """Texts of at least this cosine to `code` say the same; 0: only the digest counts."""
    code: bytes = b""


_TAKEN_OUT = Tombstone(digest=b"", key=b"", at_us=0)


@registry.event("tombstone.put", keys=lambda _event: (TOMBSTONES,))
class TombstonesPut(msgspec.Struct, frozen=True, kw_only=True):
    """Texts are refused from now on."""

    tombstones: tuple[Tombstone, ...]


@registry.event("tombstone.lifted", keys=lambda _event: (TOMBSTONES,))
class TombstonesLifted(msgspec.Struct, frozen=True, kw_only=True):
    """Texts that were forgotten may come again."""

    digests: tuple[bytes, ...]


# --- state


class Tombstones(msgspec.Struct, frozen=True):
    """The tombstones of a user by digest."""

    by_digest: Map[bytes, Tombstone] = Map()
    keys: tuple[bytes, ...] = ()
    """Their keys: one, or more if some came from another store."""
    similar: tuple[Tombstone, ...] = ()
    """Those with a code."""

    def of(self, text: str) -> Tombstone | None:
        """Return the tombstone of exactly what a text says."""
        found = (self.by_digest.get(keyed(text, key)) for key in self.keys)
        return next(filter(None, found), None)

    def said_in(self, text: str) -> Tombstone | None:
        """Return the tombstone of a text, or of a sentence or clause in it."""
        return next(filter(None, map(self.of, dict.fromkeys(clauses(text)))), None)

    def like(self, code: bytes) -> Tombstone | None:
        """Return the tombstone to which an embedding is similar enough."""
        close = (one for one in self.similar if len(one.code) == len(code))
        return next((one for one in close if cosine(one.code, code) >= one.similar), None)


def state_of(stones: Iterable[Tombstone]) -> Tombstones:
    """Return the state of tombstones, each of which has another digest."""
    ordered = sorted(stones, key=lambda one: one.digest)
    similar = tuple(one for one in ordered if one.code)
    keys = tuple(sorted({one.key for one in ordered}))
    return Tombstones(Map({one.digest: one for one in ordered}), keys, similar)


def tombstones_of(
    texts: Iterable[str], state: Tombstones, key: bytes, at_us: int, reason: str = ""
) -> tuple[Tombstone, ...]:
    """Return tombstones of texts, under the user's key or, for the first ones, a new `key`."""
    key = next(iter(state.keys), key)
    digests = dict.fromkeys(keyed(text, key) for text in texts if plainly(text))
    return tuple(Tombstone(digest=one, key=key, at_us=at_us, reason=reason) for one in digests)


# --- commands


class PutTombstones(Command, frozen=True, kw_only=True):
    """Refuse texts from now on. `tombstones_of` makes what it takes."""

    needs: ClassVar[Right] = Right.MANAGE
    frees: ClassVar[bool] = True
    has_words: ClassVar[bool] = False
    tombstones: tuple[Tombstone, ...]


class LiftTombstones(Command, frozen=True, kw_only=True):
    """Let texts come again."""

    needs: ClassVar[Right] = Right.MANAGE
    digests: tuple[bytes, ...]


# --- decide


def put(command: PutTombstones, state: Tombstones, _limits: Limits) -> Decision:
    """Return the event of tombstones that are new, or similar to more than before."""
    known = state.by_digest
    new = [
        one
        for one in command.tombstones
        if one.digest not in known or (one.code and one.similar != known[one.digest].similar)
    ]
    return [TombstonesPut(tombstones=tuple(new))] if new else []


def lift(command: LiftTombstones, state: Tombstones, _limits: Limits) -> Decision:
    """Return the event by which tombstones go that are there."""
    there = tuple(one for one in command.digests if one in state.by_digest)
    return [TombstonesLifted(digests=there)] if there else []


def refusing(
    event: Event, codes: Mapping[bytes, bytes] | None, state: Tombstones
) -> Tombstone | None:
    """Return the tombstone of something that an event says.

    `codes` are the embeddings of its texts, by digest. Texts without one are not compared: only
    the parts of a long text are embedded.

    :raises EmbeddingNeededError: they are needed, and there are none.
    """
    waits = hasattr(event, "words")
    if not (waits or says(event, getattr(event, "memory_id", ""))):
        return None
    said = {
        name: value
        for name, value in msgspec.to_builtins(event, builtin_types=(bytes,)).items()
        if name not in _NOT_SAID_ANEW
    }
    for text in texts_in(said):
        if text == MARK:
            return _TAKEN_OUT
        if (found := state.said_in(text)) is not None:
            return found
    digests = list(_digests_in(said)) if state.similar else []
    if codes is None and digests:
        raise EmbeddingNeededError("a forgotten text is compared by its embedding: ask again")
    close = (state.like(codes[one]) for one in digests if codes and one in codes)
    return next(filter(None, close), None)


def refuse(events: Iterable[Event], codes: Mapping[bytes, bytes] | None, state: Tombstones) -> None:
    """Refuse events that say something forgotten.

    :raises ForgottenError: one does.
    """
    for event in events:
        if (found := refusing(event, codes, state)) is not None:
            digest = found.digest.hex()
            raise ForgottenError(
                "its words were forgotten: nothing is left of it that could be restored"
                if found is _TAKEN_OUT
                else f"this was forgotten (tombstone {digest}), and does not come back: leave it "
                f"out, or call unforget({digest!r}) first"
            )


def has_words(name: str, value: object) -> bool:
    """Return whether a field has words of users; the `fact` of a pending memory is an event."""
    return name in TEXTS and not (name == "fact" and isinstance(value, Mapping))


def texts_in(value: object, *, words: bool = False) -> Iterator[str]:
    """Yield the words of users in an event, or in a part of one, as plain data."""
    if isinstance(value, str):
        if words:
            yield value
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            yield from texts_in(inner, words=words or has_words(name, inner))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner, words=words)


def _digests_in(value: object) -> Iterator[bytes]:
    if isinstance(value, Mapping):
        if value.get("digest"):
            yield value["digest"]
        for inner in value.values():
            yield from _digests_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _digests_in(inner)


# --- the part


class TombstonesPart(Part[Tombstones]):
    """The tombstones of a user."""

    NAME = "tombstones"
    registry = registry
    Dump = TombstonesPut
    initial = Tombstones()

    def fold(self, state: Tombstones, events: Iterable[Recorded[Event]]) -> Tombstones:
        """Fold events into the state."""
        by_digest = dict(state.by_digest)
        for recorded in events:
            event = recorded.data
            if isinstance(event, TombstonesPut):
                by_digest.update({one.digest: one for one in event.tombstones})
            elif isinstance(event, TombstonesLifted):
                for digest in event.digests:
                    by_digest.pop(digest, None)
        return state_of(by_digest.values())

    def decisions(self) -> Mapping[type[Command], Decide]:
        """Return the decision function for each command type."""
        return {PutTombstones: put, LiftTombstones: lift}

    def dump(self, state: Tombstones) -> TombstonesPut:
        """Return the tombstones in the order of their digests."""
        stones = state.by_digest
        return TombstonesPut(tombstones=tuple(stones[one] for one in sorted(stones)))

    def load(self, dumped: TombstonesPut) -> Tombstones:
        """Return the state back."""
        return state_of(dumped.tombstones)


PART = TombstonesPart()
