"""Helpers for exports of chats: a conversation is a session, each message a memory.

The words of the user and of the model are taken over. Those of tools are not: nobody vouches for
them, and they are long. Both speak as `user` and `assistant`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from memory_actors.interchange.sources.archives import files_in
from memory_actors.interchange.sources.found import SourceReading, SourceRecord, as_object, present
from memory_actors.interchange.sources.json_items import json_items

FILES: Final = re.compile(r"conversations(?:[-_]\d+)?\.json")
"""Large exports have several."""


def conversations(
    path: Path, reading: SourceReading, others: Callable[[str], bool] = lambda _name: False
) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield each conversation of an export with its place and the name of its file."""

    def wanted(name: str) -> bool:
        return bool(FILES.fullmatch(name)) or others(name)

    for name, file in files_in(path, wanted):
        for number, (_, value) in enumerate(json_items(file, f"{path}, {name}"), start=1):
            place = f"{path}, {name}, {number}"
            record = as_object(value, place, reading)
            if record is not None:
                yield place, name, record


def message(
    place: str, raw: dict[str, Any], *, role: str, text: str, conversation: Any, title: Any,
    own_id: Any, said_at: Any, program: str,
) -> SourceRecord:  # fmt: skip
    """Return one message as a record."""
    return SourceRecord(
        place=place,
        raw=raw,
        key=None if own_id is None else [conversation, own_id],
        fields=present(
            content=text,
            timestamp=said_at,
            session=conversation,
            role=role,
            metadata=present(**{"title": title, f"{program}_id": own_id}),
        ),
    )
