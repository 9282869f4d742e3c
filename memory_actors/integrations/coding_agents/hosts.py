"""The hosts: one row for each, with the events of its hooks and the places of its files.

Every prompt reads this, so it imports little.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple, TypeAlias

Moment: TypeAlias = Literal["start", "prompt", "turn", "compaction", "end"]
"""The meaning of an event. A compaction may come in the middle of a turn, which is stored when it
has ended."""
HOOK_S_MAX: Final = 30
_COMMAND: Final = {"type": "command", "timeout": HOOK_S_MAX}
_CODE: Final = (
    "Library/Application Support/Code" if sys.platform == "darwin" else ".config/Code"
)  # of VS Code, in the home directory


class Host(NamedTuple):
    """A program in which coding agents run."""

    events: Mapping[str, Moment] = {}
    """Its events that hooks answer; none: it has no hooks."""
    hooks_file: str | None = None
    """The file of its hooks, from the directory of its MCP configuration; None: a plugin."""
    entry: Mapping[str, Any] = _COMMAND
    """The fields of a hook besides its command."""
    grouped: bool = True
    """True if each event has groups of hooks, and not hooks."""
    empty: str = ""
    """The file of hooks without hooks."""
    rules_file: str | None = None
    """A file of instructions for the model, for what hooks cannot bring back."""
    next_step: str = ""
    """The next step of its user; none: that of its MCP server."""
    answer: Literal["hookSpecificOutput", "additional_context"] = "hookSpecificOutput"
    """The member of a hook's output that holds what is brought back."""
    began_in: str = ""
    """The variable that says where a session began: the agent may be elsewhere by now."""
    reader: str = ""
    """The name in `readers.py` of what reads its transcripts; none: they are not captured."""
    home: tuple[str, str] = ("", "")
    """The variable that moves its files, and their directory in the home directory otherwise."""
    transcripts: str = ""

    def place(self) -> str:
        """Return the directory below which its transcripts are."""
        variable, usual = self.home
        return os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual)


HOSTS: Final[Mapping[str, Host]] = {
    "claude-code": Host(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "turn",
         "PreCompact": "compaction", "SessionEnd": "end"},
        began_in="CLAUDE_PROJECT_DIR", reader="claude_code",
        home=("CLAUDE_CONFIG_DIR", ".claude"), transcripts="projects/*/*.jsonl",
    ),
    "codex": Host(
        {"SessionStart": "start", "UserPromptSubmit": "prompt", "Stop": "turn",
         "PreCompact": "compaction", "SessionEnd": "end"},
        "hooks.json", next_step="Start Codex and trust the hooks: `/hooks` lists them",
        reader="codex", home=("CODEX_HOME", ".codex"), transcripts="sessions/*/*/*/rollout-*.jsonl",
    ),
    "cursor": Host(
        {"sessionStart": "start", "stop": "turn", "preCompact": "compaction", "sessionEnd": "end"},
        "hooks.json", {"timeout": HOOK_S_MAX}, grouped=False, empty='{\n  "version": 1\n}\n',
        answer="additional_context", began_in="CURSOR_PROJECT_DIR", reader="claude_code",
        home=("", ".cursor"), transcripts="projects/*/agent-transcripts/**/*.jsonl",
    ),
    "gemini-cli": Host(
        {"SessionStart": "start", "BeforeAgent": "prompt", "AfterAgent": "turn",
         "PreCompress": "compaction", "SessionEnd": "end"},
        "settings.json",
        {"type": "command", "timeout": HOOK_S_MAX * 1000, "name": "memory-actors"},
        began_in="GEMINI_PROJECT_DIR", reader="gemini_cli",
        home=("GEMINI_CLI_HOME", ""), transcripts=".gemini/tmp/*/chats/session-*.json*",
    ),
    "opencode": Host(
        {"session.created": "start", "chat.message": "prompt", "session.idle": "turn",
         "experimental.session.compacting": "compaction"},
        "plugins/memory-actors.js", reader="opencode",
        home=("XDG_DATA_HOME", ".local/share"), transcripts="opencode/opencode.db",
    ),
    "vscode": Host(
        {"SessionStart": "start", "Stop": "turn", "PreCompact": "compaction"},
        "~/.copilot/hooks/memory-actors.json", grouped=False, empty='{\n  "version": 1\n}\n',
        reader="event_lines", home=("", _CODE),
        transcripts="User/workspaceStorage/*/GitHub.copilot-chat/transcripts/*.jsonl",
    ),
    "windsurf": Host(
        {"post_cascade_response_with_transcript": "turn"},
        "hooks.json", {}, grouped=False, rules_file="memories/global_rules.md",
        reader="event_lines", home=("", ".windsurf"), transcripts="transcripts/*.jsonl",
    ),
    "zed": Host(rules_file="AGENTS.md"),
}  # fmt: skip
