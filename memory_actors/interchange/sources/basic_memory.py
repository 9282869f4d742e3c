"""Basic Memory: a directory of notes, each a Markdown file with front matter.

    - [category] an observation #tag (context)
    - relation [[Another note]] (context)

A note becomes an entity by its title, of its `type`, with its observations; what it says besides
becomes facts. A link in the running text is a relation `links_to`. A note that is linked to, and
not there, becomes an entity without observations, which is told. If notes share a title, all but
the first get their file in their name: each stays an entity of its own.
"""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, Final, TypeAlias

from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources import markdown, port
from memory_actors.kinds.entity.graph import name_key

OBSERVATION: Final = re.compile(r"\[(?![ xX\-]\])([^\[\]()]+)\][ \t]+\S")
SPECIAL: Final = re.compile(r"[\[\]\n]")
LINK: Final = re.compile(r"(!?)\[\[([^\[\]\n]+)\]\]")
PICTURE: Final = re.compile(r".*\.(?!md\b)\w{2,5}", re.DOTALL)
"""The name of a file that is embedded, and is no note."""
LINKS_TO: Final = "links_to"
RELATES_TO: Final = "relates_to"
MISSING: Final = "a note is linked to that is not there: it was added as an entity"
TIMES: Final = ("created", "date", "created_at")
Known: TypeAlias = dict[str, tuple[str, list[Any]]]
"""The names of the entities that links name, and their keys, by what a link may say."""


def read(path: Path, reading: port.SourceReading) -> port.Records:
    """Yield the notes as entities, then what relates them, then what they say besides."""
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
    for name, text in markdown.markdown_files(path, reading):
        fields, body = markdown.front_matter(text, reading)
        title = str(fields.get("title") or PurePosixPath(name).stem)
        title = f"{title} ({name})" if name_key(title) in titles else title
        titles.add(name_key(title))
        note = {"file": name, "fields": fields, "body": body}
        yield f"{path}, {name}", title, note | {"permalink": fields.get("permalink") or name}


def _key(title: str, note: port.Raw) -> list[object]:
    return port.entity_key("note", title, note["fields"].get("type"))


def _entity(place: str, title: str, note: port.Raw) -> port.SourceRecord:
    fields = note["fields"]
    said = [one.text for one in markdown.passages(note["body"]) if _observes(one)]
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


def _observes(passage: markdown.MarkdownBlock) -> bool:
    return passage.is_item and bool(OBSERVATION.match(passage.text))


def _relates(passage: markdown.MarkdownBlock) -> tuple[str, str] | None:
    relation, _, rest = passage.prose.partition("[[")
    link, closed, context = rest.partition("]]")
    if not (passage.is_item and closed and link) or SPECIAL.search(relation + link):
        return None
    text = context.strip(" \t")
    in_brackets = len(text) > 1 and text[0] == "(" and text[-1] == ")" and "\n" not in text
    is_embed = relation.endswith("!")
    return (relation, link) if (in_brackets or not text) and not is_embed else None


def _links(body: str, known: Known) -> Iterator[tuple[str, str]]:
    for passage in markdown.passages(body):
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
    yield from markdown.facts(
        note["body"],
        place,
        metadata,
        _when(note["fields"]),
        but=lambda passage: _observes(passage) or bool(_relates(passage)) or passage.text == title,
    )


def _when(fields: port.Raw) -> object:
    return next((fields[name] for name in TIMES if is_time(fields.get(name))), None)
