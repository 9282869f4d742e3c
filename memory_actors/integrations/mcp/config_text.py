"""One member of a JSON or TOML file put in or taken out; every other byte of the file stays.

A configuration belongs to another program and to its user. JSON is therefore edited at one place.
To find it, comments and trailing commas (VS Code's dialect, where `comments` are allowed) are
replaced by as many blanks: the rest is plain JSON with every place unchanged.

    changed = with_member("{}", ("servers", "memory"), {"command": "memory-actors"})
    without_member(changed, ("servers", "memory"))     # "{}"

A member goes right behind the brace of its object, with the blanks of the next member before it.
Removing it later restores the previous bytes. An object that was made for its member has it on a
line of its own, which no other empty object would: it goes with that member. A TOML table goes
behind all others; if that changes anything else, as where tables are inline, the file is refused.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from memory_actors.base.errors import InvalidInputError
from memory_actors.base.records import JsonObject

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


class ObjectText(NamedTuple):
    """An object, and its places in the text."""

    start: int
    end: int
    members: dict[str, Member]


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_JSON: Final = json.JSONDecoder(parse_constant=_no_constant)


class _ConfigText:
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

    def object(self, start: int, what: str) -> ObjectText:
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
        return ObjectText(start, at + 1, members)

    def skip(self, at: int) -> int:
        found = _BLANK.match(self.text, at)
        assert found is not None
        return found.end()


def _blanked(found: re.Match[str]) -> str:
    return found[0] if found[0][0] == '"' else re.sub(r"[^\n]", " ", found[0])


def parsed(text: str, *, comments: bool = False) -> object:
    """Return the value of a text, or raise `InvalidInputError`."""
    return _ConfigText(text, comments).data


def with_member(
    text: str | None, path: Sequence[str], data: object, *, comments: bool = False
) -> str:
    """Return a text with a member in an object in the root, where one of its key gets a new value.

    A missing object is created.

    :raises InvalidInputError: the text is damaged, or one of the two is no object.
    """
    outer, key = path
    if text is None or not text.strip():
        return (text or "") + json.dumps({outer: {key: data}}, indent=2, ensure_ascii=False)
    read = _ConfigText(text, comments)
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


def _put(text: str, into: ObjectText, key: str, data: object) -> str:
    """Put a member behind the brace of an object, before the others and the blanks before them."""
    at = into.start + 1
    found = _BLANK.match(text, at)
    blank = found[0] if found and into.members else ""
    indent = blank.rpartition("\n")[2] if "\n" in blank else _indent_at(text, into.start)
    comma = "," if into.members else ""
    return f"{text[:at]}{blank}{json.dumps(key)}: {_value(data, text, indent)}{comma}{text[at:]}"


def _value(data: object, text: str, indent: str) -> str:
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
    read = _ConfigText(text, comments)
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


def _made_for(text: str, it: ObjectText, member: Member) -> bool:
    """Say whether an object has one member alone, on a line of its own."""
    begin, end = text[it.start + 1 : member.start], text[member.end : it.end - 1]
    alone = len(it.members) == 1 and not begin.strip() and not end.strip(" \t\r\n,")
    return alone and "\n" in begin


def _cut(text: str, out_of: ObjectText, member: Member) -> str:
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


# --- TOML


_LINES: Final = r"(?:[^\[#\r\n][^\n]*\n?)*"  # up to a blank line, a comment or the next table


def _tables(text: str) -> JsonObject:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInputError(str(error)) from error


def _with_table(text: str | None, path: Sequence[str], data: Mapping[str, object]) -> str:
    """Return a text with a table at the end, after a line feed unless the file is new (None)."""
    had, header = text or "", f"[{'.'.join(path)}]"
    line_feed = "\r\n" if "\r\n" in had else "\n"
    said = (f"{name} = {json.dumps(one, ensure_ascii=False)}" for name, one in data.items())
    table = line_feed.join([header, *said, ""]).replace("\x7f", "\\u007f")
    others = _without_table(had, path)
    is_first = text is None or (not others and had.startswith(header))
    return _checked(others + line_feed * (not is_first) + table, had, path, data)


def _without_table(text: str, path: Sequence[str]) -> str:
    names = r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in path)
    header = rf"(?:\r?\n|\A)^[ \t]*\[[ \t]*{names}(?:\.[^\]\n]*)?[ \t]*\][^\n]*(?:\n|\Z){_LINES}"
    return _checked(re.sub(header, "", text, flags=re.MULTILINE), text, path, None)


def _checked(made: str, text: str, path: Sequence[str], data: Mapping[str, object] | None) -> str:
    """Return a text if it says what another one does, but for one table."""
    outer, name = path
    was, now = _tables(text), _tables(made)
    for tables in (was, now):
        if not isinstance(tables.setdefault(outer, {}), dict):
            raise InvalidInputError(f"{outer!r} is no table")
    was[outer].pop(name, None)
    if (now[outer].pop(name, None), now) != (data, was):
        raise InvalidInputError(f"[{'.'.join(path)}] cannot be told apart: change it by hand")
    return made


class Syntax(NamedTuple):
    """Reads and edits the texts of one syntax; a text of None is that of a new file."""

    parsed: Callable[[str], object]
    with_member: Callable[[str | None, Sequence[str], Any], str]
    without_member: Callable[[str, Sequence[str]], str]


def syntax_of(path: Path, *, comments: bool) -> Syntax:
    """Return the syntax of a file, by its name: TOML, or JSON with or without comments."""
    if path.suffix == ".toml":
        return Syntax(_tables, _with_table, _without_table)
    return Syntax(
        partial(parsed, comments=comments),
        partial(with_member, comments=comments),
        partial(without_member, comments=comments),
    )
