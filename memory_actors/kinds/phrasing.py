"""The text that is embedded for a memory, with its speaker; and the digest of a text."""

import hashlib
import re
import unicodedata
from typing import Final

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
