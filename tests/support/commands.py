"""A command line for every command that the program has, about a store that an agent fills."""

import shlex
from collections.abc import Mapping
from typing import Any

from memory_actors.cli import main

LINES = {
    "add": "'sails a boat'",
    "search": "tea",
    "list": "",
    "count": "",
    "get": "{tea}",
    "update": "{tea} --pin",
    "delete": "{gone}",
    "delete-many": "--filter kind=none",
    "restore": "{deleted}",
    "entity add": "Sugar",
    "entity relate": "Ada likes Coffee",
    "entity end": "{related}",
    "entity get": "Ada",
    "entity neighbours": "Ada",
    "episode start": "'write a report'",
    "episode step": "{episode} 'looked for flights'",
    "episode finish": "'{other episode}' done",
    "episode get": "{episode}",
    "episode list": "",
    "document put": """notes '{{"price": 1}}'""",
    "document get": "one --collection notes",
    "document find": "notes",
    "document delete": "two --collection notes",
    "context add": "'Be kind'",
    "context edit": "{edited} 'Be very kind'",
    "context remove": "{removed}",
    "context touch": "{edited}",
    "context pin": "{pinned}",
    "context archive": "{archived}",
    "context restore": "{restored}",
    "context show": "",
    "context size": "",
    "context list": "",
    "context search": "archived",
    "context documents": "",
    "context sync": "MEMORY.md",
    "import": "lines.jsonl",
    "export": "exported.jsonl",
    "usage": "",
    "users": "",
    "cost": "",
    "tier": "",
    "history": "{tea}",
    "why": "{tea}",
    "log": "",
    "replay": "tea --as-of 20",
    "diff": "1",
    "stats": "",
    "verify": "--against heads.json",
    "backup": "new-backup",
    "copy": "memory copy",
    "repair": "repaired",
    "erase": "--user eve --yes",
    "purge": "--source web",
    "heads": "new-heads.json",
    "heads-key": "private public",
    "model install": "",
    "model path": "",
    "model switch": "default",
    "doctor": "",
    "demo": "",
    "serve": "--port 0",
    "ui": "--port 0 --no-browser",
    "mcp install": "claude-code --project --dry-run",
    "agent install": "codex --dry-run",
    "agent uninstall": "codex --dry-run",
    "agent backfill": "codex --dry-run",
    "agent pause": "",
    "agent resume": "",
    "mcp uninstall": "claude-code --project --dry-run",
    "keys create": "--root",
    "keys list": "",
    "keys revoke": "{key}",
    "compact": "",
    "compaction stats": "",
    "compaction expand": "'{summary of bob}' --user bob",
    "compaction undo": "'{summary of cid}' --user cid",
    "improve": "text.txt --record",
    "extract": "",
    "extractions": "",
    "forget": "{mud}",
    "forgotten": "",
    "unforget": "'likes fog'",
    "grant": "bob --user fay",
    "grants": "--user fay",
    "revoke": "cid --user fay",
    "pending": "",
    "approve": "{waiting}",
    "reject": "{doubtful}",
    "undo": "{extraction}",
    "hold": "'another case' --user dan",
    "release": "{hold} --user dan",
    "holds": "--user dan",
    "retention": "--dry-run",
    "recalls": "",
}
"""The arguments after the name of each command. It is about ada, if it is about anybody."""
SERVES = {"serve", "ui"}
"""Commands that go on until they are interrupted."""


def arguments_of(name: str, ids: Mapping[str, str]) -> list[str]:
    """Return the command line of a command, about ada where it is about somebody."""
    arguments = [*name.split(), *shlex.split(LINES[name].format(**ids))]
    if "--user" in _options_of(name) and "--user" not in arguments and "--root" not in arguments:
        arguments += ["--user", "ada"]
    return arguments


def _options_of(name: str) -> set[str]:
    command: Any = main
    for part in name.split():
        command = command.commands[part]
    return {flag for option in command.params for flag in option.opts}
