"""Removes secrets before they leave a hook: those of `redaction.py`, and values of `.env` files."""

import os
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Final, TypeVar

from eventlog.files.datafile import opened
from memory_actors.base.redaction import Masking, Redaction, Redactor

T = TypeVar("T")
ASSIGNED: Final = re.compile(
    r"^\s*(?:export\s+)?([A-Za-z_][\w.]{0,63})\s*=\s*(.*?)\s*$", re.MULTILINE
)
SENSITIVE: Final = re.compile(
    r"key|token|secret|passw|pwd|credential|auth|dsn|private", re.IGNORECASE
)
VALUE_LENGTH_MIN, SENSITIVE_LENGTH_MIN = 8, 4
TEXT_CHARACTERS_MAX: Final = 20_000
ENV_FILES_MAX: Final = 100
ENV_BYTES_MAX: Final = 1 << 20
DIRECTORIES_MAX: Final = 1_000
"""The limit for the directories in which such files are looked for, the upper ones first."""
OTHERS: Final = ("node_modules", "site-packages")


class Cleaner:
    """Masks what is secret in the texts of one project, without a key of any store."""

    def __init__(self, root: str | Path):
        own = partial(_of_env, _env_values(Path(root)))
        self._redactor = Redactor(Redaction(own=(own,)))

    def clean(self, text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
        """Return the beginning of a text without what must not be kept."""
        if len(text) > 2 * characters_max:  # a secret that is cut here is not known as one
            text = text[: 2 * characters_max].rsplit(None, 1)[0]
        return Masking(self._redactor).text(text)[:characters_max]

    def masked(self, value: T) -> T:
        """Return JSON or a struct with all its texts masked."""
        masked: T = Masking(self._redactor).value(value)
        return masked


def _of_env(values: Mapping[str, str], text: str) -> Iterator[tuple[int, int, str]]:
    for value, name in values.items():
        if value in text:
            # A short one may be a part of other words.
            bound = r"(?<!\w){}(?!\w)" if len(value) < VALUE_LENGTH_MIN else "{}"
            for match in re.finditer(bound.format(re.escape(value)), text):
                yield *match.span(), f"secret:{name}"


def _env_values(root: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for path in islice(_env_files(root), ENV_FILES_MAX):
        try:
            with opened(path) as file:
                text = file.read(ENV_BYTES_MAX).decode("utf-8", "replace")
        except OSError:
            continue  # no file, or not ours to read
        for name, written in ASSIGNED.findall(text):
            quoted = re.match(r"""(["'])(.*?)\1""", written)
            value = quoted[2] if quoted else written.split(" #")[0].strip()
            least = SENSITIVE_LENGTH_MIN if SENSITIVE.search(name) else VALUE_LENGTH_MIN
            if len(value) >= least:
                found.setdefault(value, name)
    return found


def _env_files(root: Path) -> Iterator[Path]:
    waiting = deque([root])
    for _ in range(DIRECTORIES_MAX):
        if not waiting:
            return
        try:
            with os.scandir(waiting.popleft()) as entries:
                there = sorted(
                    (one.name, one.is_dir(follow_symlinks=False), one) for one in entries
                )
        except OSError:
            continue  # no directory, or not ours to read
        for name, is_directory, entry in there:
            if name.startswith(".env") and not is_directory:
                yield Path(entry)
            elif is_directory and not name.startswith(".") and name not in OTHERS:
                waiting.append(Path(entry))
