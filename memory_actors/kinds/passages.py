"""The texts that a memory is found by: with their speaker, in parts if they are long.

A text longer than the model's input is cut at lines, sentences or words. The cuts follow from the
text alone, and nothing of them is stored.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

USER: Final = "user"
REPLYING: Final = frozenset({"assistant", "system", "tool"})
CHAT_ROLES: Final = REPLYING | {USER}
"""Parts in a chat with an assistant. Any other role is the name of a person."""
DIGEST_BYTES = 16  # chance collisions are out of the question, and a base of digests stays small
RECIPE = "spoken/3"
"""Names what an embedder gets of a text: `spoken`, then `composed`, as that has been since 3.
Vectors of another recipe are not found, so they are made anew."""

_FOREIGN_DIGIT = re.compile(r"(?![0-9])\d")
# Quotation marks, hyphens and minus; then what nobody sees: soft hyphen, zero-width space and
# joiner, marks of direction, word joiner, variation selectors, byte order mark. The zero-width
# non-joiner stays: it parts words in Persian.
_UNUSUAL = re.compile(
    "[\u02bc\u2018\u2019\u201c\u201d\u2010\u2011\u2212"
    "\u00ad\u200b\u200d-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufe00-\ufe0f\ufeff\U000e0100-\U000e01ef]"
)
_USUAL = dict.fromkeys("\u02bc\u2018\u2019", "'") | dict.fromkeys("\u201c\u201d", '"')
_USUAL |= dict.fromkeys("\u2010\u2011\u2212", "-")

PASSAGE_BYTES_MAX: Final = 800
"""Some 200 tokens of English. Bytes, for a Chinese character is a token and has three of them."""
LONG_BYTES: Final = 1_200
"""A text of up to so many bytes is one passage: a model that reads 256 tokens reads all of it."""
PASSAGE_BITS: Final = 10
EVENT_PASSAGES_MAX: Final = 1 << PASSAGE_BITS
"""Of one event: texts that are found on their own."""
PASSAGES_MAX: Final = 64
"""Of one text: the first 50 KB of it. The rest is stored, and found by the beginning."""
HEADING_MAX: Final = 200


# --- texts


def spoken(content: str, role: str | None) -> str:
    """Return a content with its speaker in front, unless it says so already.

    A question mostly names whom it is about. On the development conversations turn recall@10 is
    0.334 with the bare words, and 0.493 with the speaker.
    """
    if role is None:
        return content
    named = f"{role.casefold()}:"
    if content[: len(named)].casefold().startswith(named):  # casefolding makes no text shorter
        return content
    return f"{role}: {content}"


def normalised(text: str) -> str:
    """Return the normalised form of a text: `composed`, white space as one blank.

    Idempotent; of a text of usual length in 1 us.
    """
    return " ".join(composed(text).split())


def composed(text: str) -> str:
    """Return a text in one spelling: Unicode form NFKC, digits of all scripts as 0 to 9.

    Quotation marks and hyphens are those of ASCII, and characters that nobody sees go. Duplicates,
    names, words, queries and embeddings all compare this form. Idempotent.
    """
    if text.isascii():
        return text
    shown = unicodedata.normalize("NFKC", text)
    spelt = _UNUSUAL.sub(lambda found: _USUAL.get(found[0], ""), shown)
    shown = unicodedata.normalize("NFKC", spelt)
    return _FOREIGN_DIGIT.sub(lambda digit: str(unicodedata.decimal(digit[0])), shown)


def name_text(name: str, entity_type: str) -> str:
    """Return the indexed text of an entity: its name and its type."""
    return f"{name} ({entity_type})" if entity_type else name


def observation_text(name: str, observation: str) -> str:
    """Return an observation with the entity it is about in front, unless it says so already."""
    return spoken(observation, name)


def fact_text(source: str, relation: str, target: str, fact: str | None) -> str:
    """Return the text of a relationship: its fact, or else the names and the relation in a row."""
    return f"{source} {relation.replace('_', ' ')} {target}" if fact is None else fact


def text_digest(text: str) -> bytes:
    """Return the digest of a text, 16 bytes of SHA-256.

    A vector is found under that of its text; `ContextDocument.change` knows by it what was read.
    """
    return hashlib.sha256(text.encode()).digest()[:DIGEST_BYTES]


# --- labels


class Passage(NamedTuple):
    """A text that is found on its own, and leads to its row."""

    label: int
    digest: bytes
    """Of the text: its vector is found under it."""
    place: int = 0
    """In its chain: passages stand there by place, then by label. It outlives a rewording."""


def label(version: int, index: int = 0) -> int:
    """Return the label of an event's passage: no two passages of a stream share one."""
    return version << PASSAGE_BITS | index


def version_of(passage_label: int) -> int:
    """Return the version of the event that has a passage's text."""
    return passage_label >> PASSAGE_BITS


def index_of(passage_label: int) -> int:
    """Return the number of a passage within its event."""
    return passage_label & (EVENT_PASSAGES_MAX - 1)


# --- the parts of a long text


def spans(text: str, start: int = 0) -> Iterator[tuple[int, int]]:
    """Yield where each passage of a text begins and ends, from `start` on; blank ones are left out.

    A passage ends after a line, a sentence or a word in its second half.
    """
    size = max(1, PASSAGE_BYTES_MAX * len(text) // max(1, len(text.encode())))
    while start < len(text):
        end = _end(text, start, size)
        if text[start:end].strip():
            yield start, end
        start = end


def _end(text: str, start: int, size: int) -> int:
    if len(text) - start <= size:
        return len(text)
    for mark in ("\n", ". ", "。", " "):
        at = text.rfind(mark, start + size // 2, start + size)
        if at >= 0:
            return at + len(mark)
    return start + size


def passages(content: str, role: str | None) -> list[str]:
    """Return the texts that a memory is found by, each with its speaker in front.

    That is one, the whole text, unless it is longer than `LONG_BYTES`.
    """
    if len(content) <= LONG_BYTES // 4 or len(content.encode()) <= LONG_BYTES:
        return [spoken(content, role)]
    cut = islice(spans(content), PASSAGES_MAX)
    return [spoken(content[start:end], role) for start, end in cut]


def digests(content: str, role: str | None) -> tuple[bytes, ...]:
    """Return the digests of the passages of a long text; none for a text that is one passage."""
    if len(content) <= LONG_BYTES // 4:  # as most are
        return ()
    found = passages(content, role)
    return tuple(map(text_digest, found)) if len(found) > 1 else ()


def shown(content: str, number: int) -> str:
    """Return one passage of a text, below the Markdown heading that it belongs to."""
    start, end = next(islice(spans(content), number, None), (0, len(content)))
    passage = content[start:end].strip()
    lines = content[:start].splitlines() if not passage.startswith("#") else []
    heading = next((line for line in reversed(lines) if line.startswith("#")), None)
    return passage if heading is None else f"{heading[:HEADING_MAX]}\n{passage}"
