"""The clients that are told of our MCP server: where their configuration is, and what goes into it.

A change is made first and shown (`Change.diff`), and written only if the file still is what was
shown. Everything else in the file stays, byte for byte (`jsonc.py`); a damaged file is refused.
"""

import difflib
import os
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from eventlog.files.datafile import make_directory, written_whole
from memory_actors.base.errors import InvalidInputError
from memory_actors.integrations.mcp.jsonc import parsed, with_member, without_member

NAME: Final = "memory-actors"
BYTES_MAX: Final = 64 << 20  # one of them also keeps the history of its projects


class McpClient(NamedTuple):
    """A program that starts MCP servers."""

    title: str
    key: str
    """The object of its configuration that has a member for each server."""
    comments: bool
    """True if its configuration may have comments."""
    of_user: Mapping[str, str]
    """The file of a user's configuration, by platform; relative to the home directory."""
    of_project: str | None
    """The file of a project's configuration, relative to its directory."""
    next_step: str


def _everywhere(path: str) -> Mapping[str, str]:
    return {"linux": path, "darwin": path, "win32": path}


CLIENTS: Final[Mapping[str, McpClient]] = {
        "claude-code": McpClient(
            "Claude Code", "mcpServers", False, _everywhere(".claude.json"), ".mcp.json",
            "Start a new session: `claude`",
        ),
        "claude-desktop": McpClient(
            "Claude Desktop", "mcpServers", False,
            {
                "linux": ".config/Claude/claude_desktop_config.json",
                "darwin": "Library/Application Support/Claude/claude_desktop_config.json",
                "win32": "AppData/Roaming/Claude/claude_desktop_config.json",
            },
            None, "Quit Claude Desktop and start it again",
        ),
        "cursor": McpClient(
            "Cursor", "mcpServers", True, _everywhere(".cursor/mcp.json"), ".cursor/mcp.json",
            "Cursor sees it by itself; if not, restart it",
        ),
        "vscode": McpClient(
            "VS Code", "servers", True,
            {
                "linux": ".config/Code/User/mcp.json",
                "darwin": "Library/Application Support/Code/User/mcp.json",
                "win32": "AppData/Roaming/Code/User/mcp.json",
            },
            ".vscode/mcp.json", "Run `MCP: List Servers` in VS Code and start it",
        ),
    }  # fmt: skip


class ConfigurationChange(NamedTuple):
    """A change to a file that is not written yet."""

    path: Path
    before: bytes | None
    """None: there is no such file."""
    after: bytes | None
    """None: the file goes, as nothing else is in it."""

    @property
    def is_none(self) -> bool:
        """True if there is nothing to do."""
        return self.before == self.after

    @property
    def diff(self) -> str:
        """The change as a unified diff."""
        old, new = (_text(self.path, one or b"").splitlines() for one in (self.before, self.after))
        path = str(self.path)
        return "\n".join(difflib.unified_diff(old, new, path, path, lineterm=""))

    def write(self) -> None:
        """Make the change: all of it or nothing.

        :raises InvalidInputError: the file is another by now, or cannot be written.
        """
        if _read(self.path) != self.before:
            raise InvalidInputError(f"{self.path} was changed meanwhile: try again")
        try:
            _write(self.path.resolve(), self.after)
        except OSError as error:
            raise InvalidInputError(f"{self.path} cannot be written: {error.strerror}") from error


def _write(path: Path, data: bytes | None) -> None:
    if data is None:
        path.unlink()
        return
    make_directory(path.parent)
    with written_whole(path, contested=True) as file:
        if path.exists():
            os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
        file.write(data)


def config_path(client: str, project: Path | None = None) -> Path:
    """Return the file of a client's configuration: the user's, or a project's.

    :raises InvalidInputError: the client has none for projects.
    """
    it = CLIENTS[client]
    if project is None:
        return Path.home() / it.of_user.get(sys.platform, it.of_user["linux"])
    if it.of_project is None:
        raise InvalidInputError(f"{it.title} has no configuration for projects: leave it out")
    return project / it.of_project


def entry(command: Sequence[str]) -> dict[str, Any]:
    """Return what a client is told of our server: how to start it."""
    return {"type": "stdio", "command": command[0], "args": list(command[1:])}


def installing(
    client: str, path: Path, data: Mapping[str, Any], *, replace: bool
) -> ConfigurationChange:
    """Return the change that tells a client of our server.

    :raises InvalidInputError: the file is damaged, or has another server of this name, and not
        `replace`.
    """
    it, before = CLIENTS[client], _read(path)
    text, where = _text(path, before or b""), (it.key, NAME)
    known = _known(path, text, it)
    if known == data:
        return ConfigurationChange(path, before, before)
    if known is not None and not replace:
        raise InvalidInputError(
            f"{path} has a server {NAME!r} already, started otherwise: say --replace to change it"
        )
    after = _changed(path, with_member, text, where, it, data)
    return ConfigurationChange(
        path, before, f"{after}\n".encode() if before is None else _as(after, before)
    )


def removing(client: str, path: Path) -> ConfigurationChange:
    """Return the change that makes a client forget our server.

    :raises InvalidInputError: the file is damaged.
    """
    it, before = CLIENTS[client], _read(path)
    if before is None:
        return ConfigurationChange(path, None, None)
    had = _text(path, before)
    left = _changed(path, without_member, had, (it.key, NAME), it)
    if had.startswith("{") and left == "\n":  # `installing` made the file for our server
        return ConfigurationChange(path, before, None)
    return ConfigurationChange(path, before, _as(left, before))


def _known(path: Path, text: str, it: McpClient) -> Any:
    """Return the server of our name that is there, or None."""
    if not text.strip():
        return None
    try:
        whole = parsed(text, comments=it.comments).plain
    except InvalidInputError as error:
        raise _damaged(path, error) from error
    servers = whole.get(it.key) if isinstance(whole, dict) else None
    return servers.get(NAME) if isinstance(servers, dict) else None


def _changed(path: Path, change: Any, text: str, where: Any, it: McpClient, *data: Any) -> str:
    try:
        made: str = change(text, where, *data, comments=it.comments)
    except InvalidInputError as error:
        raise _damaged(path, error) from error
    return made


def _damaged(path: Path, error: InvalidInputError) -> InvalidInputError:
    return InvalidInputError(
        f"{path} is damaged and was left as it is: {error}. Mend it, or move it away, and try again"
    )


def _read(path: Path) -> bytes | None:
    try:
        # A device such as /dev/null would be replaced by a file, and a pipe be waited for.
        if not stat.S_ISREG(path.stat().st_mode):
            raise InvalidInputError(f"{path} is no file: move it away, and try again")
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInputError(f"{path} cannot be read: {error.strerror}") from error
    if len(data) > BYTES_MAX:
        raise InvalidInputError(f"{path} is over {BYTES_MAX >> 20} MiB: that is no configuration")
    return data


def _text(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInputError(f"{path} is damaged and was left as it is: no UTF-8") from error


def _as(text: str, before: bytes | None) -> bytes:
    """Return a text as bytes, with the mark at the beginning that the file had."""
    marked = before is not None and before.startswith(b"\xef\xbb\xbf")
    return text.encode("utf-8-sig" if marked else "utf-8")
