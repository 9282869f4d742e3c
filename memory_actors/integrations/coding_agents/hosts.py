"""The hosts: where each keeps its transcripts, how they are read, and how its hooks are named."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from memory_actors.integrations.coding_agents import claude_code, codex, gemini_cli
from memory_actors.integrations.coding_agents.transcripts import Entry


class Host(NamedTuple):
    """A program in which coding agents run."""

    title: str
    entries: Callable[[Path], Iterator[Entry]]
    transcripts: Callable[[], Iterator[Path]]
    working_directory: Callable[[Path], str | None]
    session_id: Callable[[Path], str]
    """From a transcript to the session as hooks name it."""
    hooks_file: str | None
    """The file that configures its hooks, beside that of its MCP servers; None: a plugin does."""
    next_step: str


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host(
        "Claude Code",
        claude_code.entries,
        claude_code.transcripts,
        claude_code.working_directory,
        claude_code.session_id,
        None,
        "Start a new session: `claude`",
    ),
    "codex": Host(
        "Codex",
        codex.entries,
        codex.transcripts,
        codex.working_directory,
        codex.session_id,
        "hooks.json",
        "Start Codex and trust the hooks: `/hooks` lists them",
    ),
    "gemini-cli": Host(
        "Gemini CLI",
        gemini_cli.entries,
        gemini_cli.transcripts,
        gemini_cli.working_directory,
        gemini_cli.session_id,
        "settings.json",
        "Start Gemini CLI again: `/hooks panel` lists the hooks",
    ),
}
