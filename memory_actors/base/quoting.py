"""Values as they are quoted in a prompt: each one line of JSON that no text can end."""

from typing import Any, Final

import msgspec

# `<` would begin a tag. The others end a line for `splitlines` and stand in JSON as they are.
_ESCAPED: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<\x85\u2028\u2029"}


def quoted(value: Any) -> str:
    """Return a value as JSON in one line, whatever splits it into lines, without a `<`."""
    return msgspec.json.encode(value).decode().translate(_ESCAPED)
