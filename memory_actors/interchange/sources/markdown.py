"""Markdown files as sources have them: their front matter, and what they say block by block.

Of YAML only what notes use is understood: `name: text`, and lists in one line or in several.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources.found import SourceReading, SourceRecord, present
from memory_actors.kinds.context.markdown import BYTE_ORDER_MARK, ITEM, entry_text, parse

FILE_BYTES_MAX: Final = 16 << 20
ENDINGS: Final = (".md", ".markdown")
FRONT: Final = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
FIELD: Final = re.compile(r"([\w.-]+):[ \t]*(.*)")
LIST_ITEM: Final = re.compile(r"[ \t]*-[ \t]+(.*)")
COMMENT: Final = ("<!--", "-->")


def markdown_files(path: Path, reading: SourceReading) -> Iterator[tuple[str, str]]:
    """Yield each Markdown file below a path, by its name there, and its text.

    :raises InvalidInputError: there is none, or it cannot be read.
    """
    if not path.is_dir():
        yield path.name, _text(path)
        return
    found = False
    for directory, names, files in os.walk(path):
        names[:] = sorted(name for name in names if not name.startswith("."))
        for name in sorted(files):
            one = Path(directory, name)
            if one.is_symlink() or not one.is_file():
                continue
            if one.suffix.casefold() in ENDINGS:
                found = True
                yield one.relative_to(path).as_posix(), _text(one)
            elif not name.startswith("."):
                reading.note(f"a file {one.suffix[:20]!r} is no Markdown: it was not read")
    if not found:
        raise InvalidInputError(f"the directory {path} has no Markdown files (.md)")


def _text(path: Path) -> str:
    with open_file(path) as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is over {FILE_BYTES_MAX >> 20} MB: split it")
    try:
        return data.decode().removeprefix(BYTE_ORDER_MARK)
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path} is not UTF-8 text (byte {error.start + 1}). Nothing was added: save it as "
            "UTF-8"
        ) from error


def front_matter(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields that a text begins with, and the rest of it."""
    found = FRONT.match(text)
    if found is None:
        return {}, text
    fields: dict[str, Any] = {}
    name = ""
    for line in found[1].splitlines():
        item, field = LIST_ITEM.fullmatch(line), FIELD.fullmatch(line)
        if item and isinstance(fields.get(name), list):
            fields[name].append(_plain(item[1]))
        elif field:
            name = field[1]
            fields[name] = _value(field[2].strip())
    return fields, text[found.end() :]


def _value(text: str) -> Any:
    if not text:
        return []
    if text[0] == "[" and text[-1] == "]":
        return [_plain(one) for one in text[1:-1].split(",") if one.strip()]
    return _plain(text)


def _plain(text: str) -> str:
    return text.strip().strip("\"'")


class MarkdownBlock(NamedTuple):
    """The text of a block, the headings above it, and whether it is an item of a list."""

    text: str
    headings: tuple[str, ...]
    is_item: bool


def passages(text: str) -> Iterator[MarkdownBlock]:
    """Yield what each block says that is no heading."""
    headings: dict[int, str] = {}
    for block in parse(_without_comments(text)):
        raw = block.raw.lstrip("\r\n")
        if block.heading is not None:
            depth = len(raw) - len(raw.lstrip("#"))
            headings = {level: title for level, title in headings.items() if level < depth}
            headings[depth] = block.heading
        elif said := entry_text(block.raw).strip():
            yield MarkdownBlock(said, tuple(headings.values()), bool(ITEM.match(raw)))


def _without_comments(text: str) -> str:
    """Return a text without its comments, in time that grows with it also if many never end."""
    begins, ends = COMMENT
    kept: list[str] = []
    at = 0
    while (begin := text.find(begins, at)) >= 0:
        end = text.find(ends, begin + len(begins))
        if end < 0:
            break
        kept.append(text[at:begin])
        at = end + len(ends)
    return "".join(kept) + text[at:]


def facts(
    text: str,
    place: str,
    metadata: Mapping[str, Any],
    when: Any = None,
    *,
    but: Callable[[MarkdownBlock], bool] = lambda _passage: False,
) -> Iterator[SourceRecord]:
    """Yield each passage of a text as a fact, but for some, with the headings it stands under."""
    for number, passage in enumerate(passages(text), start=1):
        own = present(section=" > ".join(passage.headings), **metadata)
        if not but(passage):
            yield SourceRecord(
                place=f"{place}, block {number}",
                raw={"text": passage.text, **own},
                fields=present(content=passage.text, timestamp=when, metadata=own),
            )
