"""The hosts: where each keeps its transcripts, how they are read, and how its hooks are named."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from memory_actors.integrations.coding_agents import claude_code, codex, gemini_cli
from memory_actors.integrations.coding_agents.transcripts import Entry


class Reader(Protocol):
    """The module that reads the transcripts of a host."""

    def transcripts(self) -> Iterator[Path]:
        """Yield all transcripts."""

    def working_directory(self, path: Path, /) -> str | None:
        """Return the directory in which a session was held, if it is known."""

    def session_id(self, path: Path, /) -> str:
        """Return the id of a session as hooks name it."""

    def entries(self, path: Path, /) -> Iterator[Entry]:
        """Yield what was said and done."""


class Host(NamedTuple):
    """A program in which coding agents run."""

    title: str
    reader: Reader
    hooks_file: str | None
    """The file that configures its hooks, beside that of its MCP servers; None: a plugin does."""
    next_step: str


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host("Claude Code", claude_code, None, "Start a new session: `claude`"),
    "codex": Host(
        "Codex", codex, "hooks.json", "Start Codex and trust the hooks: `/hooks` lists them"
    ),
    "gemini-cli": Host(
        "Gemini CLI",
        gemini_cli,
        "settings.json",
        "Start Gemini CLI again: `/hooks panel` lists the hooks",
    ),
}
