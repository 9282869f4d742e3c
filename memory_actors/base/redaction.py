"""Redaction: sensitive text is masked or refused before anything is made of it.

    Settings(redact="secrets")
    Settings(redact=("secrets", "email"))
    Settings(redact=Redaction(detectors=("secrets", "personal"), action={"card": "refuse"}))

A mask such as `[secret:aws-key:bdfhjkmnpq]` has the label of what was found, and a digest under a
key: the same text has the same mask, and nobody without the key can guess it from the mask.
"""

import hashlib
import hmac
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final, Literal, TypeAlias

import msgspec

from memory_actors.base.detectors import GROUPS, PRIVATE, lowered_each, numbers_in
from memory_actors.base.errors import InvalidInputError, SensitiveTextError
from memory_actors.base.validation import JSON_DEPTH_MAX, check_choice

Action: TypeAlias = Literal["mask", "refuse"]
Found: TypeAlias = tuple[int, int, str]
"""Start, end and label of a sensitive part of a text."""
Own: TypeAlias = Callable[[str], Iterable[Found]]
"""A detector of the caller's."""

NAMES: Final[Mapping[str, frozenset[str]]] = {
    **{name: frozenset(one.label for one in found) for name, found in GROUPS.items()},
    **{one.name: frozenset({one.label}) for found in GROUPS.values() for one in found},
}
"""The labels that each name of a group or a detector stands for."""
LABEL: Final = re.compile(r"[\w.-]{1,64}(?::[\w.-]{1,64})?")
DIGEST_CHARACTERS: Final = 10
"""40 bits: among 5,000 secrets of a user, two have the same mask with a chance of 1 in 90,000."""
LETTERS: Final = str.maketrans("0123456789abcdef", "bcdfghjklmnpqrst")
"""A digest without digits is no telephone number."""
NUMBER_MIN: Final = 1_000_000
"""Smaller numbers in JSON are no telephone and no card."""
DEPTH_MAX: Final = JSON_DEPTH_MAX + 8
"""JSON may be nested so deep, in a few structs; what is deeper is refused later."""


class Redaction(msgspec.Struct, frozen=True, kw_only=True):
    """The detectors of a store, and the action for each."""

    detectors: tuple[str, ...] = ("secrets",)
    """Names of groups ("secrets", "personal") or detectors ("aws-key", "email", …)."""
    action: Action | Mapping[str, Action] = "mask"
    """Replace what is found by a mask, or refuse the write; by name, where they differ: others
    are masked."""
    own: tuple[Own, ...] = ()
    """Your functions: each returns the (start, end, label) of every sensitive part of a text. A
    label is one or two words of letters, digits, `_`, `.` and `-`, with a `:` between."""


Redact: TypeAlias = str | Sequence[str] | Redaction
"""A name, several names separated by commas or as a sequence, or a `Redaction`."""


class Redactor:
    """Finds sensitive text.

    :raises InvalidInputError: no such detector or action.
    """

    def __init__(self, redact: Redact):
        redact = _redaction_of(redact)
        self._own = redact.own
        labels = frozenset[str]().union(*map(labels_of, redact.detectors))
        every = dict.fromkeys(one for found in GROUPS.values() for one in found)
        detectors = [one for one in every if one.label in labels]
        self._hinted = [(hint, one) for one in detectors for hint in one.hints]
        self._numeric = [one for one in detectors if not one.hints]
        actions = {"": redact.action} if isinstance(redact.action, str) else redact.action
        self._actions: dict[str, Action] = {}
        for name, action in actions.items():
            check_choice(action, ("mask", "refuse"), "the action of a redaction")
            is_own = name == "" or (name not in NAMES and redact.own)
            self._actions |= dict.fromkeys([name] if is_own else labels_of(name), action)

    def found(self, text: str) -> list[Found]:
        """Return the sensitive parts of a text in order; those that overlap are one."""
        lowered = lowered_each(text)
        reading = dict.fromkeys([one for hint, one in self._hinted if hint in lowered])
        numbers = numbers_in(text) if self._numeric else []
        if numbers:
            reading |= dict.fromkeys(self._numeric)
        found = [one for own in self._own for one in _checked(own, text)]
        for detector in reading:
            spans = detector.spans(text, lowered, numbers)
            found += ((*span, detector.label) for span in spans)
        merged: list[Found] = []
        for start, end, label in sorted(found, key=itemgetter(0)):
            if merged and start < merged[-1][1]:
                first, last, other = merged.pop()
                start, end = first, max(last, end)
                label = label if self.refuses(label) else other
            merged.append((start, end, label))
        return merged

    def refuses(self, label: str) -> bool:
        """Return whether a text with this label is refused."""
        return self._actions.get(label, self._actions.get("")) == "refuse"


class Masking:
    """Masks the values of one call, and counts what it masks by label.

    `digest` is that of a mask, given the text that it replaces; None: masks have none. Fields of
    the names in `left` keep what they say. With `refuses`, a label may refuse the call; otherwise
    it is masked.
    """

    def __init__(
        self,
        redactor: Redactor,
        digest: Callable[[str], str] | None = None,
        *,
        left: Collection[str] = (),
        refuses: bool = False,
    ):
        self._redactor = redactor
        self._digest = digest
        self._left = left
        self._refuses = refuses
        self.counts = Counter[str]()

    def text(self, text: str, named: str | None = None) -> str:
        """Return a text with masks; `named` is the name of the field whose value it is.

        :raises SensitiveTextError: a label that was found is refused.
        """
        before = "" if named is None else f'{named}="'
        read = text if named is None else f'{before}{text}"'
        parts, at = list[str](), 0
        for start, end, label in self._redactor.found(read):
            start, end = max(start - len(before), 0), min(end - len(before), len(text))
            if start < end:
                parts += (text[at:start], self._mask(label, text[start:end]))
                at = end
        return "".join((*parts, text[at:])) if parts else text

    def _mask(self, label: str, said: str) -> str:
        if self._refuses and self._redactor.refuses(label):
            raise SensitiveTextError(label)
        self.counts[label] += 1
        if self._digest is None or label == PRIVATE.label:
            return f"[{label}]"
        return f"[{label}:{self._digest(said)}]"

    def field(self, name: str, value: object, key: object = None, depth: int = 0) -> object:
        """Return the value of an argument or a field, beside one that names a `key`."""
        if name in self._left:
            return value
        if isinstance(key, str) and name in ("value", "content"):
            return self._json(value, key, depth)
        return self.value(value, None, depth)

    def value(self, value: object, named: str | None = None, depth: int = 0) -> Any:
        """Return a value with all its texts masked: the same object where nothing was found.

        It may be JSON, a struct, or a collection of such; anything else is returned as it is.
        """
        if depth > DEPTH_MAX or value is None or isinstance(value, int | float | bytes):
            return value
        if isinstance(value, str):
            return self.text(value, named)
        if isinstance(value, msgspec.Struct):
            return self._struct(value, depth)
        if isinstance(value, Mapping):
            keys = [self.value(key) for key in value]
            values = [self._json(one, str(key), depth + 1) for key, one in value.items()]
            same = _same(keys, value) and _same(values, value.values())
            return value if same else dict(zip(keys, values, strict=True))
        if isinstance(value, Sequence | set | frozenset):
            items = [self._json(one, named, depth + 1) for one in value]
            if _same(items, value):
                return value
            return type(value)(items) if isinstance(value, set | frozenset) else items
        return value

    def _json(self, value: object, named: str | None, depth: int) -> object:
        """Return a value of JSON, in which a number may be that of a telephone or a card."""
        if isinstance(value, int) and not isinstance(value, bool) and value >= NUMBER_MIN:
            masked = self.text(said := str(value), named)
            return value if masked is said else masked
        return self.value(value, named, depth)

    def _struct(self, struct: msgspec.Struct, depth: int) -> msgspec.Struct:
        key = getattr(struct, "key", None)
        was = {name: getattr(struct, name) for name in struct.__struct_fields__}
        now = {name: self.field(name, one, key, depth + 1) for name, one in was.items()}
        changed = {name: one for name, one in now.items() if one is not was[name]}
        return msgspec.structs.replace(struct, **changed) if changed else struct


def _same(now: Iterable[object], was: Iterable[object]) -> bool:
    return all(a is b for a, b in zip(now, was, strict=True))


def _redaction_of(redact: Redact) -> Redaction:
    if isinstance(redact, str):
        redact = [one.strip() for one in redact.split(",")]
    if isinstance(redact, Sequence):
        redact = Redaction(detectors=tuple(redact))
    if (
        isinstance(redact, Redaction)
        and isinstance(redact.detectors, Sequence)
        and isinstance(redact.action, str | Mapping)
        and isinstance(redact.own, Sequence)
        and all(map(callable, redact.own))
    ):
        return redact
    raise InvalidInputError(
        f"redact takes names of detectors or a Redaction of names and functions, not {redact!r:.60}"
    )


def labels_of(name: object) -> frozenset[str]:
    """Return the labels that a name of a group or a detector stands for.

    :raises InvalidInputError: it is no such name.
    """
    if not isinstance(name, str) or name not in NAMES:
        raise InvalidInputError(
            f"redact names {name!r:.80}, which is no detector: use {', '.join(NAMES)}"
        )
    return NAMES[name]


def keyed_digest(key: bytes, user_id: str, said: str) -> str:
    """Return the digest of a mask: the same for each spelling of a number with blanks or signs."""
    plain = re.sub(r"[\s()/-]", "", said).casefold()
    whole = hmac.new(
        key, f"{len(user_id)}:{user_id}{plain}".encode(errors="surrogatepass"), hashlib.sha256
    )
    return whole.hexdigest()[:DIGEST_CHARACTERS].translate(LETTERS)


def _checked(own: Own, text: str) -> Iterator[Found]:
    """Yield what a function of the caller's finds.

    :raises InvalidInputError: it fails, or returns something else: then nothing is stored.
    """
    name = getattr(own, "__qualname__", type(own).__name__)
    try:
        for start, end, label in own(text):
            if not (0 <= start <= end <= len(text) and LABEL.fullmatch(label)):
                raise ValueError("not (start, end, label) of a part of the text")
            if start < end:
                yield start, end, label
    except Exception as error:  # it is the caller's, and may raise anything
        raise InvalidInputError(
            f"the detector {name} of `Redaction.own` failed with {type(error).__name__}: it must "
            "return (start, end, label) of each part; nothing was stored"
        ) from None
