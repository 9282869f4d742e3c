"""What a large text leaves behind: enough to prove what it was, and to know what it was about."""

import hashlib
from typing import Final

from eventlog.core.records import Returned

LARGE_SIZE_MIN: Final = 1024
"""Below that a marker would not be much smaller than what it stands for."""
SNIPPET_CHARACTERS: Final = 80
_FRAME_SIZE: Final = 64
"""What a marker counts for besides its snippet: the digest as hexadecimal."""


class Marker(Returned, frozen=True, kw_only=True):
    """Stands where a large text was."""

    sha256: str
    """Hex, of the text as UTF-8: it proves what the text was, to one who has it."""
    snippet: str
    """The first 80 characters."""
    text_size: int
    """What the item counted for."""

    @property
    def size(self) -> int:
        """What the marker itself counts for: at most 384."""
        return _FRAME_SIZE + len(self.snippet.encode(errors="surrogatepass"))


def marker(text: str, size: int) -> Marker:
    """Return the marker of a text that counted for `size`."""
    return Marker(
        sha256=sha256(text),
        snippet=text[:SNIPPET_CHARACTERS],
        text_size=size,
    )


def sha256(text: str) -> str:
    """Return the SHA-256 of a text as hexadecimal."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()
