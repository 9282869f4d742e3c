"""MEMORY.md and Basic Memory: Markdown files, with front matter, that are read block by block.

`markdown-it-py` finds the blocks, and so what is code. `PyYAML` reads the front matter. Its values
stay texts as they are written: a title such as `2026-05-01`, `007` or `no` is a title.
"""

import codecs
import io
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Any, Final, NamedTuple, TypeAlias

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from memory_actors.base.errors import InvalidInputError
from memory_actors.interchange.files import open_file
from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources import port
from memory_actors.kinds.context.markdown import BYTE_ORDER_MARK, entry_text
from memory_actors.kinds.entity.graph import name_key

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


# --- MEMORY.md


DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
TIMES: Final = ("date", "created", "created_at")


def read_memory_md(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the facts of an agent's notes, file by file, in order of their names.

    Each item of a list and each paragraph is a fact, with its file and the headings above it. A
    file that is named by a day (`memory/2026-05-01.md`) says what was true on that day. The fields
    of a front matter go with the facts of its file.
    """
    for name, text in markdown_files(path, reading):
        fields, body = front_matter(text, reading)
        times = [*(fields.get(one) for one in TIMES), *DAY.findall(Path(name).stem)]
        when = next((one for one in times if is_time(one)), None)
        # A file of fields alone says something, too.
        said = body if body.strip() else "\n".join(f"{one}: {fields[one]}" for one in fields)
        yield from facts(said, f"{path}, {name}", {**fields, "file": name}, when)


# --- Basic Memory


OBSERVATION: Final = re.compile(r"\[(?![ xX\-]\])([^\[\]()]+)\][ \t]+\S")
BRACKETS: Final = re.compile(r"[\[\]\n]")
LINK: Final = re.compile(r"(!?)\[\[([^\[\]\n]+)\]\]")
PICTURE: Final = re.compile(r".*\.(?!md\b)\w{2,5}", re.DOTALL)
"""The name of a file that is embedded, and is no note."""
LINKS_TO: Final = "links_to"
RELATES_TO: Final = "relates_to"
MISSING: Final = "a note is linked to that is not there: it was added as an entity"
NOTE_TIMES: Final = ("created", "date", "created_at")
Known: TypeAlias = dict[str, tuple[str, list[Any]]]
"""The names of the entities that links name, and their keys, by what a link may say."""


def read_basic_memory(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield notes as entities, then their relations, then their other facts.

        - [category] an observation #tag (context)
        - relation [[Another note]] (context)

    A link in the running text is a relation `links_to`. A note that is linked to and missing
    becomes an entity without observations, which is told. If notes share a title, all but the first
    get their file in their name.
    """
    known: Known = {}
    for place, title, note in _notes(path, reading):
        key = _key(title, note)
        file = PurePosixPath(note["file"])
        for name in (title, note["permalink"], file.stem, file.with_suffix("")):
            known.setdefault(str(name).casefold(), (title, key))
        port.check_names(known, str(path))
        yield _entity(place, title, note)
    for place, title, note in _notes(path, port.SourceReading()):
        yield from _relations(place, title, note, known, reading)
        yield from _others(place, title, note)


def _notes(path: Path, reading: port.SourceReading) -> Iterator[tuple[str, str, port.Fields]]:
    titles: set[str] = set()
    for name, text in markdown_files(path, reading):
        fields, body = front_matter(text, reading)
        title = str(fields.get("title") or PurePosixPath(name).stem)
        title = f"{title} ({name})" if name_key(title) in titles else title
        titles.add(name_key(title))
        note = {"file": name, "fields": fields, "body": body}
        yield f"{path}, {name}", title, note | {"permalink": fields.get("permalink") or name}


def _key(title: str, note: port.Raw) -> list[object]:
    return port.entity_key("note", title, note["fields"].get("type"))


def _entity(place: str, title: str, note: port.Raw) -> port.SourceRecord:
    fields = note["fields"]
    said = [one.text for one in passages(note["body"]) if _observes(one)]
    own = {name: value for name, value in fields.items() if name not in ("title", "type")}
    return port.of_graph(
        place,
        {"title": title, "file": note["file"], **fields},
        _key(title, note),
        port.entity(title, fields.get("type"), list(dict.fromkeys(said))),
        timestamp=_when(fields),
        metadata=port.present(**{**own, "file": note["file"]}),
    )


def _relations(
    place: str, title: str, note: port.Raw, known: Known, reading: port.SourceReading
) -> port.Records:
    for relation, link in dict.fromkeys(_links(note["body"], known)):
        if link.casefold() not in known:
            missing = {"fields": {}, "body": "", "file": note["file"]}
            known[link.casefold()] = link, _key(link, missing)
            port.check_names(known, place)
            reading.note(MISSING)
            yield _entity(place, link, missing)
        target, target_key = known[link.casefold()]
        data = port.relationship(title, relation, target)
        yield port.of_graph(
            f"{place}, {link!r:.60}",
            {"title": title, **data},
            ["relation", title, relation, target],
            data,
            ends=(_key(title, note), target_key),
        )


def _observes(passage: MarkdownBlock) -> bool:
    return passage.is_item and bool(OBSERVATION.match(passage.text))


def _relates(passage: MarkdownBlock) -> tuple[str, str] | None:
    relation, _, rest = passage.prose.partition("[[")
    link, closed, context = rest.partition("]]")
    if not (passage.is_item and closed and link) or BRACKETS.search(relation + link):
        return None
    text = context.strip(" \t")
    in_brackets = len(text) > 1 and text[0] == "(" and text[-1] == ")" and "\n" not in text
    is_embed = relation.endswith("!")
    return (relation, link) if (in_brackets or not text) and not is_embed else None


def _links(body: str, known: Known) -> Iterator[tuple[str, str]]:
    for passage in passages(body):
        related = _relates(passage)
        if related:
            relation, link = related
            links = [(relation.strip().strip("\"'") or RELATES_TO, link)]
        else:
            found = LINK.findall(passage.prose)
            links = [
                (LINKS_TO, link) for embeds, link in found
                if not (embeds and PICTURE.fullmatch(_named(link, known)))
            ]  # fmt: skip
        yield from ((relation, name) for relation, link in links if (name := _named(link, known)))


def _named(link: str, known: Known) -> str:
    """Return the note that a link names: before a bar, and before an anchor in the note."""
    name = link.partition("|")[0].strip(" \\")
    if name.casefold() in known or name.endswith("#"):
        return name
    return name.partition("#")[0].strip().removesuffix(".md")


def _others(place: str, title: str, note: port.Raw) -> port.Records:
    metadata = {"note": title, "file": note["file"]}
    yield from facts(
        note["body"],
        place,
        metadata,
        _when(note["fields"]),
        but=lambda passage: _observes(passage) or bool(_relates(passage)) or passage.text == title,
    )


def _when(fields: port.Raw) -> object:
    return next((fields[name] for name in NOTE_TIMES if is_time(fields.get(name))), None)
