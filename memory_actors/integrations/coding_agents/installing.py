"""Telling a host of the hooks and of the MCP server: changes that are shown first, then made.

Claude Code gets a plugin, which its own commands add and remove; other hosts have files edited.
"""

import json
import re
import shlex
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

import platformdirs

from eventlog.files.datafile import make_directory, written_whole
from memory_actors.base.errors import InvalidInputError
from memory_actors.base.package import version
from memory_actors.base.processes import ended
from memory_actors.base.records import JsonObject
from memory_actors.integrations.coding_agents.hook import HookCommand
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.mcp import clients, config_text

OURS: Final = re.compile(r"memory_actors.integrations.coding_agents")
CLAUDE_S_MAX: Final = 60.0
DESCRIPTION: Final = "Long-term memory: captures sessions and brings back what answers a prompt."
RULES: Final = """<!-- memory-actors -->
Earlier sessions are in long-term memory. Call the tool `recall` of the MCP server memory-actors
before you begin a task, and `remember` when something is decided.
<!-- /memory-actors -->

"""
RECALL: Final = """---
description: Recall what is known about a topic
argument-hint: <topic>
---
Call the tool `recall` of the MCP server memory-actors with this query, and answer from what it
returns: $ARGUMENTS
"""
REMEMBER: Final = """---
description: Remember a fact for later sessions
argument-hint: <fact>
---
Call the tool `remember` of the MCP server memory-actors with this fact, in words that make sense
alone: $ARGUMENTS
"""


def changes_of(host: str, command: HookCommand | None) -> "list[Change]":
    """Return the changes that add our hooks and our server to a host, or remove them (None).

    :raises InvalidInputError: a file is damaged.
    """
    it = HOSTS[host]
    if it.events and it.hooks_file is None:
        return [plugin_change(command)]
    path = clients.config_path(host)
    if command is None:
        server = clients.removing(host, path)
    else:
        server = clients.installing(host, path, _server(command), replace=True)
    changes = {path: server}
    if it.hooks_file is not None:
        place = path.parent / Path(it.hooks_file).expanduser()
        edit = partial(_with_plugin if place.suffix == ".js" else _with_hooks, host, command)
        changes[place] = clients.changing(place, edit, changes.get(place))
    if it.rules_file is not None:
        place = path.parent / it.rules_file
        rules = "" if command is None else RULES
        changes[place] = clients.changing(place, lambda text: rules + text.replace(RULES, ""))
    return [*changes.values()]


def _server(command: HookCommand) -> list[str]:
    named = ["--data", command.data, "--user", command.user]
    team = ["--team", command.team] if command.team else []
    return [*clients.program(), "mcp", *named, "--reads-project", *team]


def hooks_of(host: str, command: HookCommand) -> dict[str, list[JsonObject]]:
    """Return the hooks of a host as its configuration has them."""
    entry, hooks = HOSTS[host].entry, {}
    for event, moment in HOSTS[host].events.items():
        hook = {**entry, "command": shlex.join(command.hook(host))}
        if moment == "end" and "timeout" in hook:  # Codex allows 3 s
            hook["timeout"] //= 10
        hooks[event] = [{"hooks": [hook]} if HOSTS[host].grouped else hook]
    return hooks


# --- hosts with files


def _with_hooks(host: str, command: HookCommand | None, text: str) -> str:
    hooks, empty = {} if command is None else hooks_of(host, command), HOSTS[host].empty
    text = text if text.strip() or command is None else empty
    read = config_text.parsed(text, comments=True) if text.strip() else {}
    there = read.get("hooks", {}) if isinstance(read, dict) else {}
    for event in HOSTS[host].events:
        known = there.get(event, []) if isinstance(there, dict) else []
        if not isinstance(known, list):
            raise InvalidInputError(f"{event!r} of its hooks is no list")
        wanted = [one for entry in known for one in _without_ours(entry)] + hooks.get(event, [])
        if wanted != known and wanted:
            text = config_text.with_member(text, ("hooks", event), wanted, comments=True)
        elif wanted != known:
            text = config_text.without_member(text, ("hooks", event), comments=True)
    return "" if command is None and text == empty else text


def _without_ours(entry: object) -> list[object]:
    """Return a hook, or a group without our hooks, or nothing if it is ours or had no others."""
    if not OURS.search(json.dumps(entry)):
        return [entry]
    if not isinstance(entry, dict):
        return []
    theirs = [one for one in entry.get("hooks") or () if not OURS.search(json.dumps(one))]
    return [{**entry, "hooks": theirs}] if theirs else []


def _with_plugin(host: str, command: HookCommand | None, _text: str) -> str:
    if command is None:
        return ""
    plugin = Path(__file__).with_name(f"{host}.js").read_text("utf-8")
    return plugin.replace("COMMAND = []", f"COMMAND = {json.dumps(command.hook(host))}")


# --- the plugin of Claude Code


def plugin_directory() -> Path:
    """Return where the plugin is: a marketplace with this plugin alone."""
    return platformdirs.user_data_path(clients.NAME) / "claude-code"


def plugin_files(command: HookCommand) -> dict[str, str]:
    """Return the files of the plugin, by their path."""
    server = _server(command)
    shown: dict[str, object] = {
        ".claude-plugin/marketplace.json": {
            "name": clients.NAME,
            "owner": {"name": "Memory Actors"},
            "description": DESCRIPTION,
            "plugins": [{"name": clients.NAME, "source": "./plugin", "description": DESCRIPTION}],
        },
        "plugin/.claude-plugin/plugin.json": {
            "name": clients.NAME,
            "version": version(),
            "description": DESCRIPTION,
            "author": {"name": "Memory Actors"},
            "license": "Apache-2.0",
        },
        "plugin/hooks/hooks.json": {"hooks": hooks_of("claude-code", command)},
        "plugin/.mcp.json": {
            "mcpServers": {
                clients.NAME: {"type": "stdio", "command": server[0], "args": server[1:]}
            }
        },
    }
    files = {path: json.dumps(data, indent=2) + "\n" for path, data in shown.items()}
    return files | {"plugin/commands/recall.md": RECALL, "plugin/commands/remember.md": REMEMBER}


class PluginChange(NamedTuple):
    """The change that adds the plugin, or removes it."""

    command: HookCommand | None
    """None: it is removed."""
    commands: Sequence[Sequence[str]]

    @property
    def is_none(self) -> bool:
        """False: it is not known what Claude Code has."""
        return False

    @property
    def diff(self) -> str:
        """The change, as text for people."""
        runs = ["Runs:", *(f"  {shlex.join(one)}" for one in self.commands)]
        if self.command is None:
            return "\n".join([*runs, f"Removes {plugin_directory()}"])
        files = [f"  {path}" for path in plugin_files(self.command)]
        return "\n".join([f"Writes the plugin {plugin_directory()}:", *files, *runs])

    def write(self) -> list[str]:
        """Make the change; return what failed and is the user's to do.

        If the user has already removed a part by hand, that is no error.

        :raises InvalidInputError: a file cannot be written, or a command that adds something fails.
        """
        try:
            for path, text in plugin_files(self.command).items() if self.command else ():
                place = plugin_directory() / path
                make_directory(place.parent)
                with written_whole(place, contested=True) as file:
                    file.write(text.encode())
        except OSError as error:
            wrong = f"{error.filename} cannot be written: {error.strerror}"
            raise InvalidInputError(wrong) from error
        failures = ["`claude` is not on the PATH: run these commands where it is."]
        if shutil.which("claude") is not None:
            failures = [*filter(None, map(_failure, self.commands))]
        if self.command is None:
            shutil.rmtree(plugin_directory(), ignore_errors=True)
        return failures


Change: TypeAlias = clients.ConfigurationChange | PluginChange


def plugin_change(command: HookCommand | None) -> PluginChange:
    """Return the change that adds the plugin, or removes it (None)."""
    plugin = f"{clients.NAME}@{clients.NAME}"
    uninstall = ["claude", "plugin", "uninstall", plugin]
    if command is None:
        return PluginChange(
            None, [uninstall, ["claude", "plugin", "marketplace", "remove", clients.NAME]]
        )
    commands = [
        *([uninstall] if plugin_directory().exists() else []),  # it keeps a copy of the former
        ["claude", "plugin", "marketplace", "add", str(plugin_directory())],
        ["claude", "plugin", "install", plugin],
    ]
    return PluginChange(command, commands)


def _failure(command: Sequence[str]) -> str:
    """Run a command of Claude Code; return its failure if it removes something, or nothing."""
    try:
        code, said = ended(command, Path.cwd(), CLAUDE_S_MAX, {})
    except TimeoutError:
        code, said = 1, f"no answer in {CLAUDE_S_MAX:.0f} s"
    if code == 0:
        return ""
    failure = f"`{shlex.join(command)}` failed: {said.strip()}"
    if "uninstall" not in command and "remove" not in command:
        raise InvalidInputError(failure)
    return failure
