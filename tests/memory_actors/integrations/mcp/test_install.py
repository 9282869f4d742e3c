"""`memory-actors mcp install` and `uninstall`: one entry in somebody else's configuration."""

import json
import shlex
import stat
import sys
import tomllib
from pathlib import Path
from typing import Any

import platformdirs
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st
from support.fakes import FakeEmbedder

from memory_actors import InvalidInputError
from memory_actors.cli import App, main
from memory_actors.integrations.mcp.clients import (
    CLIENTS,
    DIRECTORIES,
    NAME,
    config_path,
    installing,
    removing,
)
from memory_actors.integrations.mcp.config_text import parsed, with_member, without_member

PATH = ("servers", NAME)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("$XDG_DATA_HOME", *DIRECTORIES):
        monkeypatch.delenv(name.removeprefix("$"), raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*arguments: str, answer: str | None = None) -> Result:
    app = App(embedder=FakeEmbedder())
    return CliRunner().invoke(main, ["mcp", *arguments], answer, obj=app)


def command_of(client: str, path: Path) -> list[str]:
    """Return the command line that a client is told, in the shape that its documentation has."""
    read = tomllib.loads if path.suffix == ".toml" else json.loads
    it = read(path.read_text())[CLIENTS[client].key][NAME]
    assert it.keys() == SHAPES.get(client, {"type", "command", "args"})
    return it["command"] if client == "opencode" else [it["command"], *it["args"]]


SHAPES = {
    "codex": {"command", "args"},
    "gemini-cli": {"command", "args"},
    "windsurf": {"command", "args"},
    "opencode": {"type", "command", "enabled"},
    "zed": {"source", "command", "args", "env"},
}


@pytest.mark.parametrize("data", [[], ["--data", "m"]])
def test_without_a_home_it_says_what_to_set(
    data: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in a container, whose user nobody knows; the first place asked for is another one."""

    def unknown(*_: object) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setattr("platformdirs.user_data_path", unknown)
    done = run("install", "codex", *data)
    assert done.exit_code == 1
    assert "set HOME to a directory that you may write to" in done.output
    assert "unexpected" not in done.output


@pytest.mark.parametrize("client", list(CLIENTS))
def test_it_is_shown_written_and_undone(client: str) -> None:
    path = config_path(client)
    done = run("install", client, "--data", "m", answer="y\n")
    assert done.exit_code == 0, done.output
    shown, _, _ = done.output.partition("Write this?")
    assert f"+++ {path}" in shown
    program, *args = command_of(client, path)
    assert Path(program).is_absolute()
    assert args[:3] == ["mcp", "--data", str(Path.cwd() / "m")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    again = run("install", client, "--data", "m")
    assert "is so already" in again.output
    assert run("install", client, "--data", "n", "--replace", "--yes").exit_code == 0
    done = run("uninstall", client, answer="y\n")
    assert done.exit_code == 0, done.output
    assert not path.exists()
    assert "is so already" in run("uninstall", client).output


@pytest.mark.parametrize(
    ("client", "variable", "file"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude.json"),
        ("claude-desktop", "XDG_CONFIG_HOME", "Claude/claude_desktop_config.json"),
        ("codex", "CODEX_HOME", "config.toml"),
        ("gemini-cli", "GEMINI_CLI_HOME", ".gemini/settings.json"),
        ("opencode", "XDG_CONFIG_HOME", "opencode/opencode.json"),
        ("vscode", "XDG_CONFIG_HOME", "Code/User/mcp.json"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
    ],
)
def test_a_configuration_is_where_the_client_was_told_to_keep_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, client: str, variable: str, file: str
) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    usual = config_path(client)
    monkeypatch.setenv(variable, str(home / "elsewhere"))
    assert run("install", client, "--yes").exit_code == 0
    assert command_of(client, home / "elsewhere" / file)[1:2] == ["mcp"]
    assert not usual.exists()
    monkeypatch.setenv(variable, "")
    assert config_path(client) == usual


@pytest.mark.parametrize("client", [one for one in CLIENTS if one not in ("codex", "opencode")])
def test_a_file_that_the_client_does_not_read_is_not_written(client: str) -> None:
    path = config_path(client)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".jsonc").write_text("{}")
    assert config_path(client) == path


PROJECTS = [name for name, it in CLIENTS.items() if it.of_project is not None]


def test_the_store_is_in_the_users_data_directory(home: Path) -> None:
    done = run("install", "cursor", "--yes")
    _, *args = command_of("cursor", config_path("cursor"))
    place = Path(args[args.index("--data") + 1])
    assert place == platformdirs.user_data_path("memory-actors") / "memory"
    assert place.is_relative_to(home)
    assert str(place) in done.output
    assert [one.name for one in home.iterdir()] == [".cursor"]  # nothing in the current directory


@pytest.mark.parametrize("client", PROJECTS)
def test_a_project_is_told_no_absolute_path(client: str, home: Path) -> None:
    assert run("install", client, "--project", "--yes").exit_code == 0
    path = config_path(client, home)
    assert command_of(client, path) == ["memory-actors", "mcp"]
    assert str(home) not in path.read_text()
    options = "--data ./notes/m --key-file m.keys --user ada --project --yes --replace"
    assert run("install", client, *shlex.split(options)).exit_code == 0
    assert command_of(client, path)[2:] == [
        "--data", "notes/m", "--user", "ada", "--key-file", "m.keys",
    ]  # fmt: skip


TOML = (
    "", "\n", "model = 'x'", "model = 'x'\n", "# none yet\n", "a = 1\r\n\r\n[b]\r\nc = 2\r\n",
    '[mcp_servers.other]\ncommand = "x"\n', '[mcp_servers]\n# [mcp_servers.memory-actors]\n',
    "[a]\n\n\n", 'text = """\n[mcp_servers.memory-actors]\n"""\n',
)  # fmt: skip


@pytest.mark.parametrize("text", TOML)
def test_a_toml_file_keeps_every_other_byte(home: Path, text: str) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    done = run("install", "codex", "--yes", "--user", "é")
    if '"""' in text:  # the table cannot be told from a text
        assert done.exit_code == 1
    else:
        assert done.exit_code == 0, done.output
        assert command_of("codex", path)[-1] == "é"
        assert path.read_bytes().startswith(text.encode())
        assert run("install", "codex", "--yes", "--replace", "--user", "bob").exit_code == 0
        more = b'\n[mcp_servers.memory-actors.env]\nA = "b"\n\n# mine\n[z]\n'
        with path.open("ab") as file:
            file.write(more)
        assert run("uninstall", "codex", "--yes").exit_code == 0
        assert path.read_bytes() == text.encode() + b"\n# mine\n[z]\n"
        path.write_bytes(text.encode())
        assert run("install", "codex", "--yes").exit_code == 0
        assert run("uninstall", "codex", "--yes").exit_code == 0
    assert path.read_bytes() == text.encode()


@pytest.mark.parametrize(
    "text", [b"a = ", b"mcp_servers = 1", b'mcp_servers = {a = {command = "x"}}', b"a = 1\na = 2"]
)
def test_a_toml_file_that_has_no_place_for_a_table_is_left(home: Path, text: bytes) -> None:
    path = home / ".codex" / "config.toml"
    path.parent.mkdir()
    path.write_bytes(text)
    refused = run("install", "codex", "--yes")
    assert refused.exit_code == 1
    assert "was left as it is" in refused.output
    assert path.read_bytes() == text


@pytest.mark.parametrize("client", ["opencode", "zed", "vscode", "gemini-cli"])
def test_comments_and_trailing_commas_stay(home: Path, client: str) -> None:
    text = '// mine, "a"\n{\n  "theme": "dark", /* x */\n}\n'
    path = config_path(client).with_suffix(".jsonc" if client == "opencode" else ".json")
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert config_path(client) == path
    assert run("install", client, "--yes").exit_code == 0
    assert path.read_text().startswith('// mine, "a"\n{\n  "')
    assert path.read_text().endswith('\n  },\n  "theme": "dark", /* x */\n}\n')
    assert run("uninstall", client, "--yes").exit_code == 0
    assert path.read_text() == text


def test_another_server_of_the_name_is_changed_only_if_asked(home: Path) -> None:
    path = home / ".claude.json"
    path.write_text(json.dumps({"mcpServers": {NAME: {"command": "old"}}, "numStartups": 7}))
    before = path.read_bytes()
    refused = run("install", "claude-code", "--yes")
    assert "--replace" in refused.output
    assert path.read_bytes() == before
    assert run("install", "claude-code", "--yes", "--replace").exit_code == 0
    now = json.loads(path.read_text())
    assert now["mcpServers"][NAME]["command"] != "old"
    assert now["numStartups"] == 7


@pytest.mark.parametrize(
    "damaged",
    [
        b"{", b"[]", b"hello", b'{"a": 1,}', b"{'a': 1}", b'{"a": NaN}', b'{"a": 1} x', b'{"a" 1}',
        b'{"a": "\n"}', b"\xff", b'{"mcpServers": []}', b'{"mcpServers": {}, "mcpServers": {}}',
        b'{"a": // no comment here\n1}', b"[" * 100_000, b'{"a": [1 2]}', b"null", b'{1: 2}',
    ],
)  # fmt: skip
def test_a_damaged_file_is_refused_and_left(home: Path, damaged: bytes) -> None:
    path = home / ".claude.json"
    path.write_bytes(damaged)
    for command in ("install", "uninstall"):
        refused = run(command, "claude-code", "--yes")
        assert refused.exit_code == 1, refused.output
        assert "damaged and was left as it is" in refused.output
        assert path.read_bytes() == damaged


def test_mode_link_and_mark_stay(home: Path) -> None:
    real = home / "dotfiles" / "claude.json"
    real.parent.mkdir()
    real.write_bytes(b'\xef\xbb\xbf{\r\n\t"a": 1\r\n}\r\n')
    real.chmod(0o640)
    path = home / ".claude.json"
    path.symlink_to(real)
    before = real.read_bytes()
    assert run("install", "claude-code", "--yes").exit_code == 0
    assert path.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    changed = real.read_bytes()
    assert changed.startswith(b'\xef\xbb\xbf{\r\n\t"mcpServers": {\r\n\t\t')
    assert changed.endswith(b'\r\n\t},\r\n\t"a": 1\r\n}\r\n')
    assert changed.count(b"\n") == changed.count(b"\r\n")
    assert run("uninstall", "claude-code", "--yes").exit_code == 0
    assert real.read_bytes() == before
    assert [one.name for one in real.parent.iterdir()] == ["claude.json"]


@pytest.mark.parametrize("client", ["claude-code", "cursor"])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize(
    "text",
    [
        "{}", "{}\n", "{ }", "{\n}\n", "{\r\n}\r\n", "", "\n", " \n\n", '{"a":1,"mcpServers":{}}',
        '{"mcpServers": {}}\n', '{\n  "mcpServers": {},\n  "a": 1\n}\n',
        '{\n  "mcpServers": {\n  }\n}\n', '{"mcpServers":{"b":{}}}', '{"a": {"mcpServers": {}}}',
        '{"mcpServers": {"b": {"url": "https://b.example"}}}', '{"home": "http://b.example"}',
    ],
)  # fmt: skip
def test_uninstalling_restores_what_was_there(
    home: Path, client: str, linked: bool, text: str
) -> None:
    path = config_path(client)
    real = home / "dotfiles" / "file.json" if linked else path
    real.parent.mkdir(exist_ok=True)
    path.parent.mkdir(exist_ok=True)
    real.write_bytes(text.encode())
    if linked:
        path.symlink_to(real)
    assert run("install", client, "--yes").exit_code == 0
    assert NAME in json.loads(path.read_text())["mcpServers"]
    assert run("install", client, "--yes", "--replace", "--user", "bob").exit_code == 0
    assert run("uninstall", client, "--yes").exit_code == 0
    assert real.read_bytes() == text.encode()
    assert path.is_symlink() == linked


def test_a_file_that_changed_since_it_was_shown_is_left(home: Path) -> None:
    path = home / ".claude.json"
    change = installing("claude-code", path, ["x"], replace=False)
    path.write_text("{}")
    with pytest.raises(InvalidInputError, match="changed meanwhile"):
        change.write()
    assert path.read_text() == "{}"


def test_what_is_no_file_is_refused_before_anything_is_written(home: Path) -> None:
    """A device in the place of a configuration, often /dev/null, would be replaced by a file."""
    path = home / ".claude.json"
    path.symlink_to("/dev/null")
    for told in (path, home):
        with pytest.raises(InvalidInputError, match="is no file"):
            installing("claude-code", told, ["x"], replace=False)
        with pytest.raises(InvalidInputError, match="is no file"):
            removing("claude-code", told)


# --- the editing of a text

BLANKS = st.sampled_from(["", " ", "\n", "\n  ", "\n\t", "\r\n    "])
COMMENTS = st.sampled_from(["", "", " // a, comment {\n", " /* another } */ ", "\n"])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.text(max_size=5), st.floats(-1e9, 1e9)
)  # fmt: skip


@st.composite
def texts(draw: Any, comments: bool, depth: int = 0) -> str:
    """A JSON object as somebody may have written it."""

    def gap() -> str:
        return draw(BLANKS) + (draw(COMMENTS) if comments else "")

    keys = draw(st.lists(st.sampled_from("abcdef") | st.text(max_size=3), max_size=3, unique=True))
    if depth == 0 and draw(st.booleans()):
        keys.insert(draw(st.integers(0, len(keys))), "servers")
    keys = [key for key in dict.fromkeys(keys) if depth or key != NAME]
    members = []
    for key in keys:
        nested = (key == "servers" and depth == 0) or (depth < 2 and draw(st.booleans()))
        value = draw(texts(comments, depth + 1)) if nested else json.dumps(draw(SCALARS))
        members.append(f"{gap()}{json.dumps(key)}{gap()}:{gap()}{value}{gap()}")
    end = "," if comments and members and draw(st.booleans()) else ""
    return "{" + ",".join(members) + end + gap() + "}"


@pytest.mark.parametrize("comments", [False, True])
@given(data=st.data())
def test_what_was_there_stays_byte_for_byte(comments: bool, data: Any) -> None:
    text = data.draw(texts(comments))
    was = parsed(text, comments=comments)
    server = {"command": "x", "args": ["a b", "é"]}
    changed = with_member(text, PATH, server, comments=comments)
    now = parsed(changed, comments=comments)
    assert now == {**was, "servers": {**was.get("servers", {}), NAME: server}}
    other = with_member(changed, PATH, {"command": "y"}, comments=comments)
    now["servers"][NAME] = {"command": "y"}
    assert parsed(other, comments=comments) == now
    undone = without_member(other, PATH, comments=comments)
    assert undone == text


def test_the_program_that_is_started_is_this_one() -> None:
    run("install", "cursor", "--yes")
    command = json.loads(config_path("cursor").read_text())["mcpServers"][NAME]["command"]
    assert Path(command).parent == Path(sys.executable).parent
