"""Regular expressions that are compiled at first use.

The rules about dates, facts and words have 60 of them: compiling them took a tenth of the time of
an import, and a process that only writes, or asks an owner, needs none.
"""

import re
from typing import Any, cast


class _Pattern:
    """Stands for a pattern; what is asked of it first is then its own."""

    def __init__(self, text: str, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        value = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, value)
        return value


def pattern(text: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first asked for anything."""
    return cast("re.Pattern[str]", _Pattern(text, flags))
