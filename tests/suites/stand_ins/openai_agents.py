"""`agents.SQLiteSession`: a session of ours, of the user that stands for the file."""

from itertools import count
from pathlib import Path
from typing import Any

import agents

from memory_actors.integrations.openai_agents import MemoryActorsSession
from suites.stand_ins.memories import user_of

_IN_MEMORY = ":memory:"
_numbers = count()


class SQLiteSession(MemoryActorsSession):
    """Ours, made as theirs is."""

    def __init__(
        self, session_id: str, db_path: str | Path = _IN_MEMORY, session_settings: Any = None
    ):
        path = f"{_IN_MEMORY}{next(_numbers)}" if db_path == _IN_MEMORY else db_path
        super().__init__(session_id, user_of(path), session_settings=session_settings)

    def close(self) -> None:
        """Keep the memory open: a session of ours holds nothing."""


def install() -> None:
    """Put it there."""
    agents.SQLiteSession = SQLiteSession
