"""Removes private text before it reaches the log: marked blocks, `.env` values, keys and tokens.

The detectors of `detect-secrets` find keys and tokens. A mark with the kind of the secret takes its
place.
"""

import re
from functools import cache
from pathlib import Path
from typing import Any, Final

from eventlog.files.datafile import opened
from memory_actors.base.errors import MissingExtraError

PRIVATE: Final = re.compile(
    r"(?:<private>|\A(?:(?!<private>).)*?(?=</private>)).*?(?:</private>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
"""Matches a marked block, also one whose beginning or end was cut off."""
ASSIGNED: Final = re.compile(r"^\s*(?:export\s+)?([A-Za-z_][\w.]*)\s*=\s*(.*?)\s*$", re.MULTILINE)
PRIVATE_KEY: Final = re.compile(
    r"(?:-----BEGIN [A-Z ]*PRIVATE KEY-----|\A(?:(?!-----BEGIN).)*?(?=-----END [A-Z ]*PRIVATE KEY))"
    r".*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
SENSITIVE: Final = re.compile(
    r"key|token|secret|passw|pwd|credential|auth|dsn|private", re.IGNORECASE
)
"""Matches names of variables whose values are secret however short they are."""
VALUE_LENGTH_MIN, SENSITIVE_LENGTH_MIN = 8, 4
TEXT_CHARACTERS_MAX: Final = 20_000
"""The limit for a text; longer ones are pasted files."""
ENV_FILES_MAX: Final = 20
ENV_BYTES_MAX: Final = 1 << 20
NOT_SECRET: Final = ("IPPublicDetector",)
"""Detectors of what is no key."""


class Cleaner:
    """Takes out what is private, in the texts of one project."""

    def __init__(self, root: str | Path):
        self._values = _env_values(Path(root))

    def clean(self, text: str, characters_max: int = TEXT_CHARACTERS_MAX) -> str:
        """Return the beginning of a text without what must not be kept."""
        if len(text) > 2 * characters_max:  # a secret that is cut here is not known as one
            text = text[: 2 * characters_max].rsplit(None, 1)[0]
        text = PRIVATE.sub("[private]", text)
        text = PRIVATE_KEY.sub("[secret: private key]", text)
        for value, name in self._values:
            if len(value) >= VALUE_LENGTH_MIN:
                text = text.replace(value, f"[secret: {name}]")
            elif value in text:  # a short one may be a part of other words
                text = re.sub(rf"(?<!\w){re.escape(value)}(?!\w)", f"[secret: {name}]", text)
        return "\n".join(map(_without_keys, text.split("\n")))[:characters_max]


def _env_values(root: Path) -> list[tuple[str, str]]:
    """Return the values of a project's `.env` files with their names, the longest first."""
    found: dict[str, str] = {}
    try:
        files = sorted(root.glob(".env*"))[:ENV_FILES_MAX]
    except OSError:
        return []
    for path in files:
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
    return sorted(found.items(), key=lambda item: -len(item[0]))


def _without_keys(line: str) -> str:
    for detector in detectors():
        for secret in detector.analyze_string(line):
            if secret and len(secret) >= SENSITIVE_LENGTH_MIN:
                line = line.replace(secret, f"[secret: {detector.secret_type}]")
    return line


@cache
def detectors() -> tuple[Any, ...]:
    """Return the detectors of keys and tokens that go by their form, and not by their entropy.

    :raises MissingExtraError: `detect-secrets` is not installed.
    """
    try:
        from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
        from detect_secrets.plugins.base import RegexBasedDetector
        from detect_secrets.plugins.keyword import KeywordDetector
    except ImportError as error:
        raise MissingExtraError(
            "capturing needs detect-secrets: pip install 'memory-actors[agents]'"
        ) from error
    found: Any = get_mapping_from_secret_type_to_class().values()
    return tuple(
        kind()
        for kind in found
        if issubclass(kind, (RegexBasedDetector, KeywordDetector))
        and kind.__name__ not in NOT_SECRET
    )
