"""Basic Memory: a directory of notes, each a Markdown file with front matter.

    - [category] an observation #tag (context)
    - relation [[Another note]] (context)

A note becomes an entity by its title, of its `type`, with its observations; what it says besides
becomes facts. A link in the running text is a relation `links_to`. A note that is linked to, and
not there, becomes an entity without observations, which is told.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Final

from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources.found import (
    Found,
    Reading,
    Source,
    check_names,
    present,
)
from memory_actors.interchange.sources.markdown import (
    Passage,
    facts,
    front_matter,
    markdown_files,
    passages,
)

OBSERVATION: Final = re.compile(r"\[(?![ xX\-]\])([^\[\]()]+)\][ \t]+\S")
RELATION: Final = re.compile(r"([^\[\]\n]*?)[ \t]*\[\[([^\[\]\n]+)\]\][ \t]*(?:\((.*)\))?[ \t]*")
LINK: Final = re.compile(r"\[\[([^\[\]\n]+)\]\]")
LINKS_TO: Final = "links_to"
RELATES_TO: Final = "relates_to"
MISSING: Final = "a note is linked to that is not there: it was added as an entity"
TIMES: Final = ("created", "date", "created_at")


def read(path: Path, reading: Reading) -> Iterator[Found]:
    """Yield the notes as entities, then what relates them, then what they say besides."""
    titles: dict[str, str] = {}
    for place, title, note in _notes(path, reading):
        for name in (title, note["permalink"], PurePosixPath(note["file"]).stem):
            titles.setdefault(str(name).casefold(), title)
        check_names(titles, str(path))
        yield _entity(place, title, note)
    for place, title, note in _notes(path, Reading()):
        yield from _relations(place, title, note, titles, reading)
        yield from _others(place, title, note)


def _notes(path: Path, reading: Reading) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for name, text in markdown_files(path, reading):
        fields, body = front_matter(text)
        title = str(fields.get("title") or PurePosixPath(name).stem)
        note = {"file": name, "fields": fields, "body": body}
        yield f"{path}, {name}", title, note | {"permalink": fields.get("permalink") or name}


def _entity(place: str, title: str, note: Mapping[str, Any]) -> Found:
    fields = note["fields"]
    said = [one.text for one in passages(note["body"]) if _observes(one)]
    own = {name: value for name, value in fields.items() if name not in ("title", "type")}
    return Found(
        place=place,
        raw={"title": title, "file": note["file"], **fields},
        key=["note", title],
        replaces=True,
        fields=present(
            memory_type="entity",
            timestamp=_when(fields),
            data=present(
                name=title, type=fields.get("type"), observations=list(dict.fromkeys(said))
            ),
            metadata=present(**{**own, "file": note["file"]}),
        ),
    )


def _relations(
    place: str, title: str, note: Mapping[str, Any], titles: dict[str, str], reading: Reading
) -> Iterator[Found]:
    for relation, link in dict.fromkeys(_links(note["body"])):
        target = titles.get(link.casefold())
        if target is None:
            target = titles[link.casefold()] = link
            reading.note(MISSING)
            yield _entity(place, link, {"fields": {}, "body": "", "file": note["file"]})
        data = {"relation": relation, "source": title, "target": target}
        yield Found(
            place=f"{place}, {link!r:.60}",
            raw={"title": title, **data},
            key=["relation", title, relation, target],
            replaces=True,
            fields={"memory_type": "entity", "data": data},
        )


def _observes(passage: Passage) -> bool:
    return passage.is_item and bool(OBSERVATION.match(passage.text))


def _relates(passage: Passage) -> re.Match[str] | None:
    return RELATION.fullmatch(passage.text) if passage.is_item else None


def _links(body: str) -> Iterator[tuple[str, str]]:
    """Yield each relation of a note, and whom it names; a link may have words after a bar."""
    for passage in passages(body):
        related = _relates(passage)
        if related:
            yield related[1].strip().strip("\"'") or RELATES_TO, _named(related[2])
            continue
        for link in LINK.findall(passage.text):
            yield LINKS_TO, _named(link)


def _named(link: str) -> str:
    return link.partition("|")[0].strip() or link


def _others(place: str, title: str, note: Mapping[str, Any]) -> Iterator[Found]:
    metadata = {"note": title, "file": note["file"]}
    yield from facts(
        note["body"],
        place,
        metadata,
        _when(note["fields"]),
        but=lambda passage: _observes(passage) or bool(_relates(passage)),
    )


def _when(fields: Mapping[str, Any]) -> Any:
    return next((fields[name] for name in TIMES if is_time(fields.get(name))), None)


SOURCE: Final = Source("basic-memory", "a directory of notes", read)
