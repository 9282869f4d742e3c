"""The clients that are told of our MCP server: where their configuration is, and what goes into it.

A change is shown as a diff, and written only if the file still is what was shown. All else in
the file stays, byte for byte (`config_text.py`); a damaged file is refused.
"""

import codecs
import difflib
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from eventlog.files.datafile import make_directory, written_whole
from memory_actors.base.errors import InvalidInputError
from memory_actors.integrations.mcp.config_text import syntax_of

NAME: Final = "memory-actors"
BYTES_MAX: Final = 64 << 20  # one of them also keeps the history of its projects


def _plain(command: Sequence[str]) -> dict[str, object]:
    return {"command": command[0], "args": list(command[1:])}


class McpClient(NamedTuple):
    """A program that starts MCP servers."""

    title: str
    key: str
    """The object of its configuration that has a member for each server."""
    of_user: str | Mapping[str, str]
    """The file of a user's configuration, if need be by platform: in the home directory, or in the
    directory of a variable.
    """
    of_project: str | None
    """The file of a project's configuration, relative to its directory."""
    next_step: str
    entry: Callable[[Sequence[str]], dict[str, object]] = lambda command: {
        "type": "stdio",
        **_plain(command),
    }
    """From the command line of our server to what the client is told."""
    comments: bool = True
    """True if its configuration may have comments, where it is JSON."""


DIRECTORIES: Final = {
    "$APPDATA": "AppData/Roaming", "$CLAUDE_CONFIG_DIR": "", "$CODEX_HOME": ".codex",
    "$GEMINI_CLI_HOME": "", "$XDG_CONFIG_HOME": ".config",
}  # fmt: skip
"""Variables that move the files of clients, and where those are in the home directory without."""


def _application(directory: str, file: str) -> Mapping[str, str]:
    return {
        "linux": f"$XDG_CONFIG_HOME/{directory}/{file}",
        "darwin": f"Library/Application Support/{directory}/{file}",
        "win32": f"$APPDATA/{directory}/{file}",
    }


CLIENTS: Final[Mapping[str, McpClient]] = {
        "claude-code": McpClient(
            "Claude Code", "mcpServers", "$CLAUDE_CONFIG_DIR/.claude.json", ".mcp.json",
            "Start a new session: `claude`", comments=False,
        ),
        "claude-desktop": McpClient(
            "Claude Desktop", "mcpServers", _application("Claude", "claude_desktop_config.json"),
            None, "Quit Claude Desktop and start it again", comments=False,
        ),
        "codex": McpClient(
            "Codex", "mcp_servers", "$CODEX_HOME/config.toml", ".codex/config.toml",
            "Start Codex again. It reads a project's file if the project is trusted", _plain,
        ),
        "cursor": McpClient(
            "Cursor", "mcpServers", ".cursor/mcp.json", ".cursor/mcp.json",
            "Cursor sees it by itself; if not, restart it",
        ),
        "gemini-cli": McpClient(
            "Gemini CLI", "mcpServers", "$GEMINI_CLI_HOME/.gemini/settings.json",
            ".gemini/settings.json", "Start Gemini CLI again: `/mcp` lists the server", _plain,
        ),
        "opencode": McpClient(
            "opencode", "mcp", "$XDG_CONFIG_HOME/opencode/opencode.json", "opencode.json",
            "Start opencode again",
            lambda command: {"type": "local", "command": list(command), "enabled": True},
        ),
        "vscode": McpClient(
            "VS Code", "servers", _application("Code/User", "mcp.json"), ".vscode/mcp.json",
            "Run `MCP: List Servers` in VS Code and start it",
        ),
        "windsurf": McpClient(
            "Windsurf", "mcpServers", ".codeium/windsurf/mcp_config.json", None,
            "Refresh the MCP servers in Windsurf's Cascade panel", _plain, comments=False,
        ),
        "zed": McpClient(
            "Zed", "context_servers",
            {
                "linux": "$XDG_CONFIG_HOME/zed/settings.json",
                "darwin": ".config/zed/settings.json",
                "win32": "$APPDATA/Zed/settings.json",
            },
            ".zed/settings.json", "Zed sees it by itself",
            lambda command: {"source": "custom", **_plain(command), "env": {}},
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

    def write(self) -> Sequence[str]:
        """Make the change: all of it or nothing. Return no failures.

        :raises InvalidInputError: the file is another by now, or cannot be written.
        """
        if _read(self.path) != self.before:
            raise InvalidInputError(f"{self.path} was changed meanwhile: try again")
        path = self.path.resolve()
        try:
            if self.after is None:
                path.unlink()
                return ()
            make_directory(path.parent)
            with written_whole(path, contested=True) as file:
                if path.exists():
                    os.fchmod(file.fileno(), path.stat().st_mode & 0o7777)
                file.write(self.after)
        except OSError as error:
            raise InvalidInputError(f"{self.path} cannot be written: {error.strerror}") from error
        return ()


def program() -> list[str]:
    """Return the command line of `memory-actors` on this machine, wherever it is run."""
    installed = Path(sys.executable).parent / NAME
    return [str(installed)] if installed.exists() else [sys.executable, "-m", "memory_actors.cli"]


def config_path(client: str, project: Path | None = None) -> Path:
    """Return the file of a client's configuration: the user's, or a project's.

    For opencode it is the `.jsonc` file if that exists and `.json` does not.

    :raises InvalidInputError: the client has none for projects.
    """
    it = CLIENTS[client]
    if project is None:
        of_user = it.of_user
        plain = of_user if isinstance(of_user, str) else of_user.get(sys.platform, of_user["linux"])
        variable, _, rest = plain.partition("/")
        moved = os.environ.get(variable.removeprefix("$")) if variable in DIRECTORIES else None
        path = (
            Path(moved) / rest
            if moved
            else Path.home() / DIRECTORIES.get(variable, variable) / rest
        )
    elif it.of_project is None:
        raise InvalidInputError(f"{it.title} has no configuration for projects: leave it out")
    else:
        path = project / it.of_project
    commented = path.with_suffix(".jsonc")
    is_commented = client == "opencode" and commented.exists() and not path.exists()
    return commented if is_commented else path


def installing(
    client: str, path: Path, command: Sequence[str], *, replace: bool
) -> ConfigurationChange:
    """Return the change that tells a client how to start our server.

    :raises InvalidInputError: the file is damaged, or has another server of this name, and not
        `replace`.
    """
    it, before = CLIENTS[client], _read(path)
    data, syntax, known = it.entry(command), syntax_of(path, comments=it.comments), None
    text = _text(path, before or b"")
    with _telling(path):
        whole = syntax.parsed(text) if text.strip() else {}
        servers = whole.get(it.key) if isinstance(whole, dict) else None
        known = servers.get(NAME) if isinstance(servers, dict) else None
    if known == data:
        return ConfigurationChange(path, before, before)
    if known is not None and not replace:
        raise InvalidInputError(
            f"{path} has a server {NAME!r} already, started otherwise: say --replace to change it"
        )
    return changing(
        path,
        lambda text: syntax.with_member(
            None if before is None and not text else text, (it.key, NAME), data
        ),
    )


def removing(client: str, path: Path) -> ConfigurationChange:
    """Return the change that makes a client forget our server, or raise `InvalidInputError`."""
    it = CLIENTS[client]
    syntax = syntax_of(path, comments=it.comments)
    alone = "" if path.suffix == ".toml" else "\n"
    return changing(
        path,
        lambda text: syntax.without_member(text, (it.key, NAME)),
        # `installing` made such a file for our server
        goes=lambda had, left: had.startswith(("{", "[")) and left == alone,
    )


def changing(
    path: Path,
    change: Callable[[str], str],
    onto: ConfigurationChange | None = None,
    *,
    goes: Callable[[str, str], bool] = lambda _had, left: left.strip() in ("", "{}"),
) -> ConfigurationChange:
    """Return a change to a file that a function of its text makes, on top of another one.

    `goes` tells from the text before and after whether nothing is left, so that the file goes.

    :raises InvalidInputError: the file is damaged.
    """
    before = _read(path) if onto is None else onto.before
    now = before if onto is None else onto.after
    given = _text(path, now or b"")
    with _telling(path):
        text = change(given)
    if text == given:
        return ConfigurationChange(path, before, now)
    if goes(given, text):
        return ConfigurationChange(path, before, None)
    ended = text if text.endswith("\n") or before is not None else f"{text}\n"
    marked = before is not None and before.startswith(codecs.BOM_UTF8)
    return ConfigurationChange(path, before, ended.encode("utf-8-sig" if marked else "utf-8"))


@contextmanager
def _telling(path: Path) -> Iterator[None]:
    try:
        yield
    except InvalidInputError as error:
        raise InvalidInputError(
            f"{path} is damaged and was left as it is: {error}. Mend it, or move it away, and try "
            "again"
        ) from error


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
