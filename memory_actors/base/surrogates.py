"""Halves of surrogate pairs in JSON: programs that cut texts by UTF-16 units leave them."""

import re
from typing import Final

_ESCAPES: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"  # half of one
    r"|\\."
)
_HALF_LENGTH: Final = len(r"\ud83d")


def without_halves(json_text: str) -> str:
    """Return a JSON text in which U+FFFD takes the place of each half of a surrogate pair."""
    if "\\ud" not in json_text and "\\uD" not in json_text:
        return json_text
    return _ESCAPES.sub(
        lambda found: r"\ufffd" if len(found[0]) == _HALF_LENGTH else found[0], json_text
    )
