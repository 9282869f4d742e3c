"""Markdown files as sources have them: their front matter, and what they say block by block.

`markdown-it-py` finds the blocks, and so what is code. `PyYAML` reads the front matter. Its values
stay texts as they are written: a title such as `2026-05-01`, `007` or `no` is a title.
"""

import codecs
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Final, NamedTuple

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import open_file
from memory_actors.interchange.sources import port
from memory_actors.kinds.context.markdown import BYTE_ORDER_MARK, entry_text

FILE_BYTES_MAX: Final = 16 << 20
LINES_MAX: Final = 50_000  # each takes some 4 KB while the file is read
ENDINGS: Final = (".md", ".markdown")
FRONT: Final = re.compile(
    r"---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE
)
FRONT_CHARACTERS_MAX: Final = 64 << 10  # PyYAML reads some 100 KB a second
FIELD: Final = re.compile(r"^([\w.-]+):(.*(?:\n(?![\w.-]+:).*)*)", re.MULTILINE)
NO_YAML: Final = "a front matter is no YAML: its lines `name: text` were taken over as they are"
ALIASES_MAX: Final = 10  # each may repeat what has others in it
MARKDOWN: Final = MarkdownIt("commonmark").disable(["reference", "inline"])
SPECIAL: Final = re.compile(  # bounded, so that texts of backticks alone take no time
    r"(?<!`)(?P<ticks>`+)(?!`)(?:(?!\n[ \t]*\n).){1,2000}?(?<!`)(?P=ticks)(?!`)|\\[\\`\[<]"
    r"|<(?P<tag>code|pre|kbd|samp|script|style)\b(?:(?!<(?P=tag)\b).)*?</(?P=tag)>"
    r"|(?P<comment><!--(?:(?!<!--).)*?-->)",
    re.DOTALL | re.IGNORECASE,
)
"""Code in a line or in HTML, an escaped character, or a comment."""
RULE: Final = re.compile(r"[ \t]*-{1,3}[ \t]*")
"""A line below a text that makes it a heading, and is meant as a rule: `---`."""


def markdown_files(path: Path, reading: port.SourceReading) -> Iterator[tuple[str, str]]:
    """Yield each Markdown file below a path, by its name there, and its text."""
    if not path.is_dir():
        yield from _if_text(path, path.name, reading)
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
                yield from _if_text(one, one.relative_to(path).as_posix(), reading)
            elif not name.startswith("."):
                reading.note(f"a file {one.suffix[:20]!r} is no Markdown: it was not read")
    if not found:
        raise InvalidInputError(f"the directory {path} has no Markdown files (.md)")


def _if_text(path: Path, name: str, reading: port.SourceReading) -> Iterator[tuple[str, str]]:
    with open_file(path) as file:
        data = file.read(FILE_BYTES_MAX + 1)
    if len(data) > FILE_BYTES_MAX:
        raise InvalidInputError(f"{path} is over {FILE_BYTES_MAX >> 20} MB: split it")
    text = data.decode(errors="replace").removeprefix(BYTE_ORDER_MARK)
    if len(text.encode()) != len(data.removeprefix(codecs.BOM_UTF8)):
        reading.note("a file is not UTF-8 throughout: U+FFFD takes the place of the other bytes")
    if text.count("\n") > LINES_MAX:
        raise InvalidInputError(f"{path} has over {LINES_MAX:,} lines: split it")
    if "\0" in text:
        reading.leave_out(str(path), "it is no text in UTF-8")
    else:
        yield name, text


def front_matter(text: str, reading: port.SourceReading) -> tuple[port.Fields, str]:
    """Return the fields that a text begins with, and the rest of it."""
    found = FRONT.match(text)
    if found is None:
        return {}, text
    try:
        if len(found[1]) > FRONT_CHARACTERS_MAX:
            raise yaml.YAMLError("too long")
        fields = yaml.load(found[1], _Texts) or {}  # noqa: S506 - it makes nothing but texts
    except (yaml.YAMLError, ValueError, RecursionError):
        reading.note(NO_YAML)
        fields = {name: value.strip() for name, value in FIELD.findall(found[1])}
    if not isinstance(fields, dict):
        return {}, text
    return {str(name): value for name, value in fields.items()}, text[found.end() :]


class _Texts(yaml.BaseLoader):
    """Makes texts, and lists and dicts of them, of bounded size."""

    aliases = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        self.aliases += self.check_event(yaml.AliasEvent)
        if self.aliases > ALIASES_MAX:
            raise yaml.YAMLError("too many aliases")
        return super().compose_node(parent, index)


class MarkdownBlock(NamedTuple):
    """The text of a block, the headings above it, and whether it is an item of a list."""

    text: str
    headings: tuple[str, ...]
    is_item: bool
    prose: str
    """The text with blanks for its code."""


def passages(text: str) -> Iterator[MarkdownBlock]:
    """Yield what each block says, and each heading that has nothing below it."""
    lines = re.sub(r"\r\n?", "\n", text).split("\n")
    headings = dict[int, str]()
    is_bare = False  # nothing is below the last heading so far
    for block, inside in _blocks(MARKDOWN.parse("\n".join(lines))):
        is_heading = block.type == "heading_open"
        said, prose = _said(lines, inside[1] if is_heading else block, inside)
        if is_heading and not RULE.fullmatch(lines[(block.map or [0, 0])[1] - 1]):
            depth = int(block.tag[1:])
            if is_bare and depth <= max(headings):
                yield _bare(headings)
            headings = {level: title for level, title in headings.items() if level < depth}
            title = _without_comments(inside[1].content).strip()
            headings |= {depth: title} if title else {}
            is_bare = bool(title)
        elif said:
            is_bare = False
            is_item = block.type == "list_item_open"
            yield MarkdownBlock(said, tuple(headings.values()), is_item, prose)
    if is_bare:
        yield _bare(headings)


def _bare(headings: Mapping[int, str]) -> MarkdownBlock:
    *above, title = headings.values()
    return MarkdownBlock(title, tuple(above), is_item=False, prose=title)


def _blocks(tokens: Sequence[Token]) -> Iterator[tuple[Token, list[Token]]]:
    """Yield each block at the top, and each item of a list there, with all tokens of it."""
    level, inside = 0, list[Token]()
    for token in tokens:
        if token.level == 0 and token.type.partition("_")[0] in ("bullet", "ordered"):
            level = int(token.nesting == 1)
            continue
        if token.level == level and token.nesting >= 0:
            inside = []
        inside.append(token)
        if token.level == level and token.nesting <= 0 and token.type != "hr":
            yield inside[0], inside


def _said(lines: Sequence[str], block: Token, inside: Sequence[Token]) -> tuple[str, str]:
    first, end = block.map or (0, 0)
    coded = {
        number
        for token in inside
        if token.type in ("fence", "code_block")
        for number in range(*(token.map or (0, 0)))
    }
    text, prose = list[str](), list[str]()
    for is_code, run in groupby(range(first, end), coded.__contains__):
        said = "\n".join(lines[number] for number in run)
        text.append(said if is_code else _without_comments(said))
        prose.append("" if is_code else _replaced(said, lambda _found: " "))
    said, meant = "\n".join(text), "\n".join(prose)
    if block.type == "list_item_open":
        said, meant = entry_text(said), entry_text(meant)
    return said.strip(), meant.strip()


def _without_comments(text: str) -> str:
    if "<!--" not in text:
        return text
    return _replaced(text, lambda found: "" if found["comment"] else found[0])


def _replaced(text: str, by: Callable[[re.Match[str]], str]) -> str:
    """Return a text with what is `SPECIAL` replaced: `re.sub` keeps an object for each match."""
    written, at = io.StringIO(), 0
    for found in SPECIAL.finditer(text):
        written.write(text[at : found.start()])
        written.write(by(found))
        at = found.end()
    written.write(text[at:])
    return written.getvalue()


def facts(
    text: str,
    place: str,
    metadata: port.Raw,
    when: object = None,
    *,
    but: Callable[[MarkdownBlock], bool] = lambda _passage: False,
) -> port.Records:
    """Yield each passage of a text as a fact, but for some, with the headings it stands under."""
    for number, passage in enumerate(passages(text), start=1):
        own = port.present(section=" > ".join(passage.headings), **metadata)
        if not but(passage):
            yield port.SourceRecord(
                place=f"{place}, block {number}",
                raw={"text": passage.text, **own},
                fields=port.present(content=passage.text, timestamp=when, metadata=own),
            )
