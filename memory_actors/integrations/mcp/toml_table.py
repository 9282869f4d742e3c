"""One table of a TOML file put in or taken out, and every other byte of the file left as it is.

The table goes behind all others, behind a line feed. `tomllib` reads the result: if anything else
has changed, as where the tables are written inline, the file is refused and left.
"""

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_actors.base.errors import InvalidInputError

_LINES: Final = r"(?:[^\[#\r\n][^\n]*\n?)*"  # up to a blank line, a comment or the next table


def parsed(text: str) -> dict[str, Any]:
    """Return the tables of a text.

    :raises InvalidInputError: it is damaged.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise InvalidInputError(str(error)) from error


def with_table(text: str | None, path: Sequence[str], data: Mapping[str, Any]) -> str:
    """Return a text with a table at the end, where it replaces one of its name.

    Only in a new file, whose text is None, no line feed comes before the table.

    :raises InvalidInputError: the text is damaged, or has its tables inline.
    """
    had, header = text or "", f"[{'.'.join(path)}]"
    line_feed = "\r\n" if "\r\n" in had else "\n"
    lines = [header, *(f"{name} = {_said(one)}" for name, one in data.items()), ""]
    others = without_table(had, path)
    is_first = text is None or (not others and had.startswith(header))
    made = others + line_feed * (not is_first) + line_feed.join(lines)
    return _checked(made, had, path, data)


def without_table(text: str, path: Sequence[str]) -> str:
    """Return a text without a table, and without the line feed before it.

    :raises InvalidInputError: the text is damaged, or has its tables inline.
    """
    names = r"[ \t]*\.[ \t]*".join(rf"[\"']?{re.escape(name)}[\"']?" for name in path)
    header = rf"(?:\r?\n|\A)^[ \t]*\[[ \t]*{names}(?:\.[^\]\n]*)?[ \t]*\][^\n]*(?:\n|\Z){_LINES}"
    return _checked(re.sub(header, "", text, flags=re.MULTILINE), text, path, None)


def _said(value: object) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _checked(made: str, text: str, path: Sequence[str], data: Mapping[str, Any] | None) -> str:
    """Return a text if it says what another one does, but for one table."""
    outer, name = path
    was, now = parsed(text), parsed(made)
    for tables in (was, now):
        if not isinstance(tables.setdefault(outer, {}), dict):
            raise InvalidInputError(f"{outer!r} is no table")
    was[outer].pop(name, None)
    if (now[outer].pop(name, None), now) != (data, was):
        raise InvalidInputError(f"[{'.'.join(path)}] cannot be told apart: change it by hand")
    return made
