"""JSON files of any length, value by value, in bounded memory.

The elements of an array are handed over one by one, and so are those of the arrays that an object
has as its members. Only one of them is in memory at a time, of `ITEM_CHARACTERS_MAX` at most, and
so many parts that its objects stay below some 200 MB.

A bad character costs nothing but itself: U+FFFD takes the place of bytes that are no UTF-8 and of
halves of surrogate pairs, and control characters may stand in texts.
"""

import codecs
import io
import json
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import IO, Final

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.json_text import without_halves
from memory_actors.base.validation import JSON_INT_MAX
from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources.port import SourceReading

ITEM_CHARACTERS_MAX: Final = 32 << 20  # a conversation of years; its images are elsewhere
ITEM_PARTS_MAX: Final = 1_000_000
CHUNK_BYTES: Final = 64 << 10
INT_DIGITS_MAX: Final = 20  # an integer of 64 bits has fewer, and so many can be read at once
_MARGIN: Final = 16  # an error so near the end of a chunk may be only the end of the chunk


def json_items(
    file: IO[bytes], name: str, lists: Collection[str] = ()
) -> Iterator[tuple[str, object]]:
    """Yield values with the name of the member that they are of, "" at the top.

    A file that is one string, with JSON in it, is read as that JSON. One without a value has one of
    the `lists`, if any are given: an empty export.

    :raises InvalidInputError: it is not JSON, too much at once, or has nothing.
    """
    text = _Text(file, name)
    is_empty, names = True, {""}
    match text.peek():
        case "[":
            for _ in _separated(text, "[]"):
                is_empty = False
                yield "", text.value()
        case "{":
            names.clear()
            for _ in _separated(text, "{}"):
                names.add(member := _name(text))
                # Each element of an array, or the one value that is none.
                for _ in _separated(text, "[]") if text.peek() == "[" else (None,):
                    is_empty = False
                    yield member, text.value()
        case '"':
            is_empty = False
            inner = io.BytesIO(str(text.value()).encode(errors="replace"))
            yield from json_items(inner, name, lists)
        case _:
            is_empty = False
            yield "", text.value()
    text.end()
    if is_empty and lists and names.isdisjoint(lists):
        known = ", ".join(one or "a list" for one in lists)
        raise InvalidInputError(f"{name} has nothing in it, not even an empty one of {known}")


def json_values(path: Path, lists: Collection[str]) -> Iterator[tuple[int, str, object]]:
    """Yield the values of a file as `json_items` does, each behind its number."""
    with open_file(path) as file:
        for number, (member, value) in enumerate(json_items(file, str(path), lists), start=1):
            yield number, member, value


def json_lines(path: Path, reading: SourceReading) -> Iterator[tuple[str, object]]:
    """Yield the value of each line that is not blank, and its place. One that is no JSON is told.

    :raises InvalidInputError: one is too much at once.
    """
    with open_file(path) as file:
        number = 0
        while line := file.readline(ITEM_CHARACTERS_MAX + 1):
            number += 1
            text, place = line.decode("utf-8-sig", "replace"), f"{path}, line {number}"
            if not text.strip():
                continue
            JsonLimits(place).take(text)
            try:
                yield place, json.loads(without_halves(text), parse_int=_integer, strict=False)
            except (ValueError, RecursionError) as error:
                reading.leave_out(place, f"no JSON: {str(error)[:100]}")


class JsonLimits:
    """The limits of JSON that is in memory at a time."""

    def __init__(self, place: str):
        self._place = place
        self._characters = self._parts = 0

    def take(self, text: str) -> None:
        """Take in a text, or raise `InvalidInputError`."""
        self._characters += len(text)
        self._parts += sum(map(text.count, ",[{"))  # values of its own are no more than these
        if self._characters > ITEM_CHARACTERS_MAX or self._parts > ITEM_PARTS_MAX:
            raise InvalidInputError(
                f"{self._place} is larger than {ITEM_CHARACTERS_MAX >> 20} MB, or has over "
                f"{ITEM_PARTS_MAX:,} parts. Nothing was added: is this the right file?"
            )


def _separated(text: "_Text", brackets: str) -> Iterator[None]:
    """Stop before each item between brackets; whoever asks reads it."""
    text.take(brackets[0])
    more = text.peek() != brackets[1]
    while more:
        yield
        more = text.peek() == ","
        if more:
            text.take(",")
    text.take(brackets[1])


def _name(text: "_Text") -> str:
    if text.peek() != '"':
        raise text.wrong("a name is missing")
    name = str(text.value())
    text.take(":")
    return name


def _integer(digits: str) -> float:
    """Return a number as JSON has it: one of more than 64 bits is a float, as in most programs."""
    number = int(digits) if len(digits) <= INT_DIGITS_MAX else float(digits)
    return number if -JSON_INT_MAX <= number < JSON_INT_MAX else float(number)


class _Text:
    def __init__(self, file: IO[bytes], name: str):
        self._file, self._name = file, name
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")("replace")
        self._json = json.JSONDecoder(parse_int=_integer, strict=False)
        self._text, self._at, self._before = "", 0, 0

    def peek(self) -> str:
        while True:
            rest = self._text[self._at : self._at + 1]
            if rest and rest not in " \t\r\n":
                return rest
            if rest:
                stripped = self._text[self._at :].lstrip(" \t\r\n")
                self._at = len(self._text) - len(stripped)
            elif not self._more():
                return ""

    def take(self, character: str) -> None:
        if self.peek() != character:
            raise self.wrong(f"{character!r} is missing")
        self._at += 1

    def end(self) -> None:
        if self.peek():
            raise self.wrong("there is more behind its end")

    def value(self) -> object:
        self.peek()
        while True:
            try:
                value, end = self._json.raw_decode(self._text, self._at)
            except json.JSONDecodeError as error:
                place = self._before + error.pos
                unfinished = error.msg.startswith("Unterminated")
                if not (unfinished or self._is_near_end(error.pos)) or not self._more():
                    raise self.wrong(error.msg, place) from error
            except RecursionError as error:
                raise self.wrong("nested too deeply") from error
            else:
                size = end - self._at
                if not self._is_near_end(end) or not self._more():  # a number may go on
                    said = self._text[self._at : self._at + size]
                    whole = without_halves(said)
                    self._at += size
                    return value if whole is said else self._json.decode(whole)

    def _is_near_end(self, at: int) -> bool:
        return at >= len(self._text) - _MARGIN

    def _more(self) -> bool:
        """Read on; what was looked at before goes. Return False at the end."""
        self._before += self._at
        self._text, self._at = self._text[self._at :], 0
        JsonLimits(f"a value in {self._name}").take(self._text)
        room = ITEM_CHARACTERS_MAX - len(self._text) + 1
        data = self._file.read(max(CHUNK_BYTES, min(len(self._text), room)))
        self._text += self._decoder.decode(data, final=not data)
        return bool(data)

    def wrong(self, why: str, place: int | None = None) -> InvalidInputError:
        at = self._before + self._at if place is None else place
        return InvalidInputError(
            f"{self._name} cannot be read as JSON: {why.lower()}, at character {at + 1:,}. Nothing "
            "was added: give the whole file, as it was exported"
        )
