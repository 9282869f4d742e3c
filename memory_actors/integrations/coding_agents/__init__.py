"""Memory for coding agents that need no "remember this": their hooks capture it and bring it back.

A host (`hosts.py` has a row for each) runs `hook.py` at moments of a session. At the start of one
and at each prompt, it says what is known; at the end of a turn, `capturing.py` stores
what its transcript has that is new. A project is a user of its own (`projects.py`), beside the
person who works on it.
"""

from typing import Final

FIX: Final = "fix"
SUMMARY: Final = "session summary"
"""Values of the metadata `kind` of what is captured."""
