"""One member of a JSON file put in or taken out, and every other byte of the file left as it is.

A configuration belongs to another program and to its user: comments, order, indentation and
whatever else is in it stay. So the text is edited at one place, which a parser that knows positions
finds. It reads JSON, and where `comments` are allowed, comments and trailing commas (VS Code's
dialect).

    changed = with_member("{}", ("servers", "memory"), {"command": "memory-actors"})
    without_member(changed, ("servers", "memory"))     # "{}"

What is taken out later has to leave what was there before, and nobody keeps that. So the text says
it: what goes into an empty object stands right behind its brace, and what an object was made for
stands on a line of its own. An object goes with its last member in the second case only.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from memory_actors.base.errors import InvalidInputError

_BLANK: Final = re.compile(r"[ \t\r\n]*")
_BLANK_OR_COMMENT: Final = re.compile(r"(?:[ \t\r\n]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_INDENT: Final = re.compile(r"\n([ \t]+)[^\s]")


class JsonValue(NamedTuple):
    """A value, and its place in the text."""

    start: int
    end: int
    data: Any
    """The value as JSON; of an object None: see `members`."""
    members: "Sequence[Member] | None" = None
    """Of an object, in order."""

    @property
    def plain(self) -> Any:
        """The value without places."""
        if self.members is None:
            return self.data
        return {one.key: one.value.plain for one in self.members}

    def member(self, key: str) -> "Member | None":
        """Return the member of an object with this key."""
        return next((one for one in self.members or () if one.key == key), None)


class Member(NamedTuple):
    """A member of an object."""

    key: str
    start: int
    """The place of the key."""
    value: JsonValue
    comma: int | None
    """The place of the comma behind it, if there is one."""


def _refuse(text: str, at: int, what: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - (text.rfind("\n", 0, at) + 1) + 1
    raise InvalidInputError(f"line {line}, column {column}: {what}")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


class _Parser:
    """Reads a text once."""

    def __init__(self, text: str, comments: bool):
        self.text = text
        self._blank = _BLANK_OR_COMMENT if comments else _BLANK
        self._comments = comments
        self._scalar = json.JSONDecoder(parse_constant=_no_constant)

    def whole(self) -> JsonValue:
        """Return the value that the text is."""
        value = self.value(self.skip(0))
        end = self.skip(value.end)
        if end != len(self.text):
            _refuse(self.text, end, "nothing may stand behind the end")
        return value

    def skip(self, at: int) -> int:
        found = self._blank.match(self.text, at)
        assert found is not None
        return found.end()

    def value(self, at: int) -> JsonValue:
        if self.text[at : at + 1] == "{":
            return self.object(at)
        if self.text[at : at + 1] == "[":
            return self.array(at)
        try:
            data, end = self._scalar.raw_decode(self.text, at)
        except ValueError:
            _refuse(self.text, at, "a value is missing, or is none of JSON's")
        return JsonValue(at, end, data)

    def object(self, start: int) -> JsonValue:
        members: list[Member] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != "}":
            if self.text[at : at + 1] != '"':
                _refuse(self.text, at, "a key in double quotes is missing")
            key = self.value(at)
            colon = self.skip(key.end)
            if self.text[colon : colon + 1] != ":":
                _refuse(self.text, colon, "a colon is missing")
            value = self.value(self.skip(colon + 1))
            behind, comma = self._behind(value.end, "}")
            members.append(Member(key.data, at, value, comma))
            at = behind
        return JsonValue(start, at + 1, None, members)

    def array(self, start: int) -> JsonValue:
        found: list[Any] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != "]":
            value = self.value(at)
            found.append(value.plain)
            at, _ = self._behind(value.end, "]")
        return JsonValue(start, at + 1, found)

    def _behind(self, end: int, closing: str) -> tuple[int, int | None]:
        """Return where the next item or the end is, and the comma between."""
        at = self.skip(end)
        if self.text[at : at + 1] == closing:
            return at, None
        if self.text[at : at + 1] != ",":
            _refuse(self.text, at, f"a comma or a {closing} is missing")
        after = self.skip(at + 1)
        if self.text[after : after + 1] == closing and not self._comments:
            _refuse(self.text, at, "there is a comma behind the last item")
        return after, at


def parsed(text: str, *, comments: bool = False) -> JsonValue:
    """Return a text as JSON with places.

    :raises InvalidInputError: it is damaged: the message says where.
    """
    try:
        return _Parser(text, comments).whole()
    except RecursionError as error:
        raise InvalidInputError("it is nested too deeply") from error


def with_member(text: str, path: Sequence[str], data: Any, *, comments: bool = False) -> str:
    """Return a text with a member in an object in the root, where one of its key gets a new value.

    That object is made if it is missing.

    :raises InvalidInputError: the text is damaged, or one of the two is no object.
    """
    outer, key = path
    if not text.strip():
        return text + json.dumps({outer: {key: data}}, indent=2, ensure_ascii=False)
    root = _object(parsed(text, comments=comments), "the file")
    held = root.member(outer)
    if held is None:
        return _put(text, root, outer, {key: data}, _depth_of(text))
    into = _object(held.value, repr(outer))
    known = into.member(key)
    if known is None:
        return _put(text, into, key, data, _depth_of(text))
    value = _value(data, _indent_at(text, known.start), _depth_of(text), _line_feed(text))
    return f"{text[: known.value.start]}{value}{text[known.value.end :]}"


def _object(value: JsonValue, what: str) -> JsonValue:
    if value.members is None:
        raise InvalidInputError(f"{what} is no JSON object")
    keys = [one.key for one in value.members]
    if len(set(keys)) < len(keys):
        raise InvalidInputError(f"{what} has two members of the same name")
    return value


def _depth_of(text: str) -> str:
    """Return what one level is indented by."""
    found = _INDENT.search(text)
    return found[1] if found else "  "


def _put(text: str, into: JsonValue, key: str, data: Any, unit: str) -> str:
    """Put a member behind the last one, or right behind the brace."""
    line_feed = _line_feed(text)
    members = into.members or ()
    outer = _indent_at(text, into.start)
    if not members:
        said = _said(key, data, outer, unit, line_feed)
        return f"{text[: into.start + 1]}{said}{text[into.start + 1 :]}"
    last = members[-1]
    begin, end = text[into.start + 1 : members[0].start], text[last.value.end : into.end - 1]
    tail = len(text[: into.end - 1].rstrip())
    comma = "," if last.comma is None else ""
    more = "" if last.comma is None else ","
    if "\n" not in begin and "//" not in end:  # all on one line
        said = f" {_said(key, data, outer, unit, line_feed)}"
    else:
        inner = _indent_at(text, last.start)
        said = f"{line_feed}{inner}{_said(key, data, inner, unit, line_feed)}"
    before = f"{text[: last.value.end]}{comma}{text[last.value.end : tail]}"
    return f"{before}{said}{more}{text[tail:]}"


def _said(key: str, data: Any, indent: str, unit: str, line_feed: str) -> str:
    return f"{json.dumps(key)}: {_value(data, indent, unit, line_feed)}"


def _value(data: Any, indent: str, unit: str, line_feed: str) -> str:
    lines = json.dumps(data, indent=unit, ensure_ascii=False).split("\n")
    return f"{line_feed}{indent}".join(lines)


def _line_feed(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _indent_at(text: str, at: int) -> str:
    """Return the blanks at the beginning of the line of a place."""
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def without_member(text: str, path: Sequence[str], *, comments: bool = False) -> str:
    """Return a text without a member of an object in the root.

    That object goes with it if it was made for it, and so does the root.

    :raises InvalidInputError: the text is damaged, or one of the two is no object.
    """
    if not text.strip():
        return text
    root = _object(parsed(text, comments=comments), "the file")
    outer, key = path
    held = root.member(outer)
    if held is None:
        return text
    inner = _object(held.value, repr(outer))
    found = inner.member(key)
    if found is None:
        return text
    if not _made_for(text, inner, found):
        return _cut(text, inner, found)
    if not _made_for(text, root, held):
        return _cut(text, root, held)
    return f"{text[: root.start]}{text[root.end :]}"


def _made_for(text: str, it: JsonValue, member: Member) -> bool:
    """Say whether an object has one member alone, on a line of its own."""
    begin, end = text[it.start + 1 : member.start], text[member.value.end : it.end - 1]
    alone = len(it.members or ()) == 1 and not begin.strip() and not end.strip(" \t\r\n,")
    return alone and "\n" in begin


def _cut(text: str, out_of: JsonValue, member: Member) -> str:
    """Take a member out, with the comma that it brought and the blanks before it.

    A comment that ends with its line may stand before it: if nothing else ends it, the blanks stay.
    """
    members = out_of.members or ()
    before, end = len(text[: member.start].rstrip()), member.value.end
    if member.comma is not None:
        end = member.comma + 1
    index = members.index(member)
    begin = members[index - 1].value.end if index else out_of.start
    comments = "//" in text[max(begin, text.rfind("\n", 0, before)) : before]
    if comments and not text[end:].lstrip(" \t\r").startswith("\n"):
        before = member.start
    if len(members) == 1 or member.comma is not None:  # the next one, or the end, takes its place
        return f"{text[:before]}{text[end:]}"
    last = members[-2]
    assert last.comma is not None
    return f"{text[: last.comma]}{text[last.comma + 1 : before]}{text[end:]}"
