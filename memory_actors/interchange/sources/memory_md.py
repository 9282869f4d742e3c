"""MEMORY.md: notes of an agent in Markdown, one file or a directory of them.

Each item of a list and each paragraph becomes a fact, with its file and the headings it stands
under. A file that is named by a day (`memory/2026-05-01.md`) says what was true on that day. The
fields of a front matter go with the facts of its file. To keep the file itself, for every prompt,
use `memory-actors context sync`.
"""

import re
from pathlib import Path
from typing import Final

from memory_actors.interchange.noting import is_time
from memory_actors.interchange.sources.markdown import facts, front_matter, markdown_files
from memory_actors.interchange.sources.port import Records, SourceReading

DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
TIMES: Final = ("date", "created", "created_at")


def read(path: Path, reading: SourceReading) -> Records:
    """Yield the facts of each file, in order of their names."""
    for name, text in markdown_files(path, reading):
        fields, body = front_matter(text, reading)
        times = [*(fields.get(one) for one in TIMES), *DAY.findall(Path(name).stem)]
        when = next((one for one in times if is_time(one)), None)
        # A file of fields alone says something, too.
        said = body if body.strip() else "\n".join(f"{one}: {fields[one]}" for one in fields)
        yield from facts(said, f"{path}, {name}", {**fields, "file": name}, when)
