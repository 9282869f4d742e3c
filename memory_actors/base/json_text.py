"""JSON as text: values as a prompt quotes them, and halves of surrogate pairs that others leave."""

import json
import re
from typing import Final

import msgspec

# `<` would begin a tag. The others end a line for `splitlines` and stand in JSON as they are.
_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<\x85\u2028\u2029"}
_ESCAPES: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a whole pair
    r"|\\u[dD][89a-fA-F][0-9a-fA-F]{2}"  # half of one
    r"|\\."
)
_HALF_LENGTH: Final = len(r"\ud83d")


def quoted(value: object) -> str:
    """Return a value as JSON in one line, whatever splits it into lines, without a `<`."""
    return msgspec.json.encode(value).decode().translate(_ESCAPED)


def decoded(json_text: object) -> object:
    """Return the value of a JSON text as others write it, or None if it is none."""
    try:
        return json.loads(without_halves(str(json_text)), strict=False)
    except (ValueError, RecursionError):
        return None


def without_halves(json_text: str) -> str:
    """Return a JSON text in which U+FFFD takes the place of each half of a surrogate pair.

    Programs that cut texts by UTF-16 units leave such halves.
    """
    if "\\ud" not in json_text and "\\uD" not in json_text:
        return json_text
    return _ESCAPES.sub(
        lambda found: r"\ufffd" if len(found[0]) == _HALF_LENGTH else found[0], json_text
    )
