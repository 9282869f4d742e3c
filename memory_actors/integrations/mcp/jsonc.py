"""One member of a JSON file put in or taken out, and every other byte of the file left as it is.

A configuration belongs to another program and to its user: comments, order, indentation and
whatever else is in it stay. The text is therefore edited at one place. To find it, comments and
trailing commas (VS Code's dialect, where `comments` are allowed) are replaced by as many blanks:
the rest is plain JSON with every place unchanged, which the standard library reads.

    changed = with_member("{}", ("servers", "memory"), {"command": "memory-actors"})
    without_member(changed, ("servers", "memory"))     # "{}"

A member goes right behind the brace of its object, with the blanks of the next member before it.
Removing it later restores the previous bytes. An object that was made for its member has it on a
line of its own, which no other empty object would: it goes with that member.
"""

import json
import re
from collections.abc import Sequence
from typing import Any, Final, NamedTuple, NoReturn

from memory_actors.base.errors import InvalidInputError

_STRING: Final = r'"(?:\\.|[^"\\\n])*"'
_COMMENT: Final = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_LAST_COMMA: Final = re.compile(rf"{_STRING}|,(?=[ \t\r\n]*[}}\]])")
_BLANK: Final = re.compile(r"[ \t\r\n]*")
_INDENT: Final = re.compile(r"\n([ \t]+)[^\s]")


class Member(NamedTuple):
    """The places of a member of an object in the text."""

    start: int
    """The place of the key."""
    value: int
    """The place of the value."""
    end: int
    """The place behind the value."""
    comma: int | None
    """The place of the comma behind it, if there is one."""


class JsonObject(NamedTuple):
    """An object, and its places in the text."""

    start: int
    end: int
    members: dict[str, Member]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)


class _Text:
    def __init__(self, text: str, comments: bool):
        self.text = _COMMENT.sub(_blanked, text) if comments else text
        self.json = _LAST_COMMA.sub(_blanked, self.text) if comments else text
        try:
            self.data = _JSON.decode(self.json)
        except json.JSONDecodeError as error:
            where = f"line {error.lineno}, column {error.colno}"
            raise InvalidInputError(f"{where}: {error.msg.lower()}") from error
        except (ValueError, RecursionError) as error:
            raise InvalidInputError(str(error)) from error

    def object(self, start: int, what: str) -> JsonObject:
        if self.text[start] != "{":
            raise InvalidInputError(f"{what} is no JSON object")
        members: dict[str, Member] = {}
        at = self.skip(start + 1)
        while self.text[at] != "}":
            key, end = _JSON.raw_decode(self.json, at)
            if key in members:
                raise InvalidInputError(f"{what} has two members of the same name")
            value = self.skip(self.skip(end) + 1)
            _, end = _JSON.raw_decode(self.json, value)
            comma = self.skip(end)
            has_comma = self.text[comma] == ","
            members[key] = Member(at, value, end, comma if has_comma else None)
            at = self.skip(comma + has_comma)
        return JsonObject(start, at + 1, members)

    def skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        assert found is not None
        return found.end()


def _blanked(found: re.Match[str]) -> str:
    return found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])


def parsed(text: str, *, comments: bool = False) -> Any:
    """Return the value of a text.

    :raises InvalidInputError: it is damaged: the message says where.
    """
    return _Text(text, comments).data


def with_member(text: str, path: Sequence[str], data: Any, *, comments: bool = False) -> str:
    """Return a text with a member in an object in the root, where one of its key gets a new value.

    A missing object is created.

    :raises InvalidInputError: the text is damaged, or one of the two is no object.
    """
    outer, key = path
    if not text.strip():
        return text + json.dumps({outer: {key: data}}, indent=2, ensure_ascii=False)
    read = _Text(text, comments)
    root = read.object(read.skip(0), "the file")
    held = root.members.get(outer)
    if held is None:
        return _put(text, root, outer, {key: data})
    into = read.object(held.value, repr(outer))
    known = into.members.get(key)
    if known is None:
        return _put(text, into, key, data)
    value = _value(data, text, _indent_at(text, known.start))
    return f"{text[: known.value]}{value}{text[known.end :]}"


def _put(text: str, into: JsonObject, key: str, data: Any) -> str:
    """Put a member behind the brace of an object, before the others and the blanks before them."""
    at = into.start + 1
    found = _BLANK.match(text, at)
    blank = found[0] if found and into.members else ""
    indent = blank.rpartition("\n")[2] if "\n" in blank else _indent_at(text, into.start)
    comma = "," if into.members else ""
    return f"{text[:at]}{blank}{json.dumps(key)}: {_value(data, text, indent)}{comma}{text[at:]}"


def _value(data: Any, text: str, indent: str) -> str:
    """Return a value as a text has them: with its line feeds and its indentation of one level."""
    found = _INDENT.search(text)
    lines = json.dumps(data, indent=found[1] if found else "  ", ensure_ascii=False).split("\n")
    line_feed = "\r\n" if "\r\n" in text else "\n"
    return f"{line_feed}{indent}".join(lines)


def _indent_at(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def without_member(text: str, path: Sequence[str], *, comments: bool = False) -> str:
    """Return a text without a member of an object in the root.

    An object that was created for the member is removed too, and so is the root.

    :raises InvalidInputError: the text is damaged, or one of the two is no object.
    """
    if not text.strip():
        return text
    read = _Text(text, comments)
    root = read.object(read.skip(0), "the file")
    outer, key = path
    held = root.members.get(outer)
    inner = None if held is None else read.object(held.value, repr(outer))
    found = None if inner is None else inner.members.get(key)
    if held is None or inner is None or found is None:
        return text
    if not _made_for(text, inner, found):
        return _cut(text, inner, found)
    if not _made_for(text, root, held):
        return _cut(text, root, held)
    return f"{text[: root.start]}{text[root.end :]}"


def _made_for(text: str, it: JsonObject, member: Member) -> bool:
    """Say whether an object has one member alone, on a line of its own."""
    begin, end = text[it.start + 1 : member.start], text[member.end : it.end - 1]
    alone = len(it.members) == 1 and not begin.strip() and not end.strip(" \t\r\n,")
    return alone and "\n" in begin


def _cut(text: str, out_of: JsonObject, member: Member) -> str:
    """Take a member out, with the comma that it brought and the blanks before it.

    A comment that ends with its line may stand before it: if nothing else ends it, the blanks stay.
    """
    members = list(out_of.members.values())
    before, end = len(text[: member.start].rstrip()), member.end
    if member.comma is not None:
        end = member.comma + 1
    index = members.index(member)
    begin = members[index - 1].end if index else out_of.start
    comments = "//" in text[max(begin, text.rfind("\n", 0, before)) : before]
    if comments and not text[end:].lstrip(" \t\r").startswith("\n"):
        before = member.start
    if len(members) == 1 or member.comma is not None:  # the next one, or the end, takes its place
        return f"{text[:before]}{text[end:]}"
    last = members[-2]
    assert last.comma is not None
    return f"{text[: last.comma]}{text[last.comma + 1 : before]}{text[end:]}"
