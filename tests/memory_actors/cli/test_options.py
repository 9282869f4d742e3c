"""Rules for every command: options, errors, exit codes, streams."""

import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from support.fakes import FakeEmbedder
from support.programs import INTERRUPTIBLE

from memory_actors import EmbedderError
from memory_actors.cli import App, main, running
from memory_actors.cli.options import Count, a_moment, local_time

ROOT = Path(__file__).parents[3]


def commands() -> list[list[str]]:
    """Return the path of every command."""
    found = []
    for name, command in main.commands.items():
        below = getattr(command, "commands", None)
        found += [[name, one] for one in below] if below else [[name]]
    return found


WITHOUT_STORE = {
    "model install", "model path", "heads-key", "mcp uninstall", "copy",
    "agent uninstall", "agent pause", "agent resume",
}  # fmt: skip
OF_ALL_USERS = {
    "stats", "verify", "backup", "repair",
    "users", "heads", "doctor", "serve", "ui", "keys list", "keys revoke", "model switch",
}  # fmt: skip
MAKES_A_STORE = {
    "add", "import", "tier", "grant", "improve", "entity add", "document put", "episode start",
    "context add", "context sync", "serve", "mcp install", "hold",
}  # fmt: skip


def test_these_are_the_commands() -> None:
    assert {" ".join(path) for path in commands()} == {
        "add", "search", "list", "get", "delete", "restore", "import", "export", "usage", "cost",
        "tier", "history", "why", "log", "replay", "diff", "stats", "verify",
        "backup", "copy", "repair", "erase", "purge",
        "heads", "heads-key",
        "model install", "model path", "model switch", "doctor", "demo", "ui",
        "users", "update", "grant", "revoke", "grants",
        "entity add", "entity relate", "entity end", "entity get", "entity neighbours",
        "count", "delete-many", "document put", "document get", "document find", "document delete",
        "episode start", "episode step", "episode finish", "episode get", "episode list",
        "extract", "extractions", "undo", "forget", "forgotten", "unforget",
        "pending", "approve", "reject",
        "hold", "release", "holds", "retention", "recalls",
        "compact", "improve", "compaction stats", "compaction expand", "compaction undo",
        "context show", "context add", "context edit", "context remove", "context touch",
        "context pin", "context size", "context list", "context documents", "context archive",
        "context restore", "context search", "context sync",
        "serve", "keys create", "keys list", "keys revoke", "mcp install", "mcp uninstall",
        "agent install", "agent uninstall", "agent backfill", "agent pause", "agent resume",
    }  # fmt: skip


def parameters() -> list[click.Parameter]:
    """Return what every command takes."""
    found = []
    for path in commands():
        command = main
        for name in path:
            command = command.commands[name]
        found += command.params
    return found


def test_every_count_has_a_limit() -> None:
    counts = [one.type for one in parameters() if isinstance(one.type, click.IntRange)]
    assert sum(isinstance(one, Count) for one in counts) > 10
    assert all(isinstance(one, Count) or one.max is not None for one in counts)


def test_every_time_says_which_zone_it_is_in() -> None:
    times = [
        one for one in parameters()
        if getattr(one.type, "func", None) in (local_time, a_moment) and one.name not in ("a", "b")
    ]  # fmt: skip
    assert len(times) > 6
    for one in times:
        assert "without a zone in local time" in one.help, one.name


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_every_command_explains_itself_and_its_options(
    path: list[str],
) -> None:
    result, name = CliRunner().invoke(main, [*path, "--help"]), " ".join(path)
    assert result.exit_code == 0
    for option in ("--json", "--debug"):
        assert option in result.stdout
    assert ("--data DIR" in result.stdout) == (name not in WITHOUT_STORE)
    assert ("--user ID" in result.stdout) == (name not in {*WITHOUT_STORE, *OF_ALL_USERS})
    command = main.commands[path[0]]
    command = command.commands[path[1]] if path[1:] else command  # type: ignore[attr-defined]
    taken = {option.opts[0] for option in command.params}
    assert ("--encrypt" in taken) == (name in MAKES_A_STORE)
    for rare in ("--encrypt", "--key-file", "--embedder", "postgresql"):
        assert rare not in result.stdout
    assert ("--node-host" in result.stdout) == (name in ("serve", "ui", "mcp install"))
    assert max(map(len, result.stdout.splitlines())) <= 80
    summary = result.stdout.split("\n\n")[1].strip()
    assert summary


def test_the_help_of_the_program_has_every_command_once_in_sections() -> None:
    said = CliRunner().invoke(main, ["--help"]).stdout
    below = said.partition("Memories:")[2]
    named = [line.split()[0] for line in below.splitlines() if re.match(r"  \S", line)]
    assert sorted(named) == sorted(main.commands)
    assert len(re.findall(r"^\S.*:$", below, re.MULTILINE)) >= 5
    assert "--key-file" in said
    assert max(map(len, said.splitlines())) <= 80


@pytest.mark.parametrize("before", [True, False])
def test_options_go_before_or_behind_the_command(tmp_path: Path, before: bool) -> None:
    shared = ["--data", str(tmp_path / "m"), "--user", "ada", "--json"]
    line = [*shared, "list"] if before else ["list", *shared]
    added = CliRunner().invoke(main, ["add", "x", *shared], obj=App(embedder=FakeEmbedder()))
    listed = CliRunner().invoke(main, line, obj=App(embedder=FakeEmbedder()))
    other = CliRunner().invoke(main, [*line, "--user", "bob"], obj=App(embedder=FakeEmbedder()))
    assert added.exit_code == listed.exit_code == 0
    assert [m["content"] for m in json.loads(listed.stdout)] == ["x"]
    assert json.loads(other.stdout) == []


def test_the_data_directory_has_three_sources(tmp_path: Path, monkeypatch) -> None:
    """The data directory comes from the option, from the variable, or is `memory` here."""

    def add(*options: str) -> None:
        result = CliRunner().invoke(main, ["add", "x", *options], obj=App(embedder=FakeEmbedder()))
        assert result.exit_code == 0

    add()
    assert (tmp_path / "memory" / "log.mdb").exists()
    monkeypatch.setenv("MEMORY_ACTORS_DATA", str(tmp_path / "variable"))
    add()
    assert (tmp_path / "variable" / "log.mdb").exists()
    add("--data", str(tmp_path / "option"))
    assert (tmp_path / "option" / "log.mdb").exists()


@pytest.mark.parametrize(
    "line",
    [
        ["search", "x"], ["list"], ["get", "m"], ["delete", "m"], ["export"], ["usage"],
        ["history", "m"], ["verify"], ["restore", "m"], ["cost"], ["tier"], ["usage", "--all"],
        ["entity", "get", "m"], ["entity", "neighbours", "m"], ["entity", "end", "m"],
        ["entity", "relate", "a", "b", "c"], ["document", "get", "k"], ["document", "find", "c"],
        ["document", "delete", "k"], ["episode", "step", "e", "a"], ["episode", "finish", "e"],
        ["episode", "get", "e"], ["episode", "list"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_mistyped_directory_is_no_empty_store(program, line: list[str]) -> None:
    error = program.refused(*line)
    assert error["type"] == "NotFoundError"
    assert "--data" in error["message"]
    assert not program.data.exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (["fly"], "No such command 'fly'"),
        (["add"], "Missing argument 'CONTENT'"),
        (["list", "--limit", "0"], "--limit"),
        (["list", "--offset", "9" * 20], "is more than 9223372036854775807"),
        (["log", "--limit", "9" * 20], "is more than 9223372036854775807"),
        (["list", "--bogus"], "--bogus"),
        (["add", "x", "--type", "dream"], "'dream' is not one of"),
        (["add", "x", "--metadata", "[1]"], "no JSON object"),
        (["add", "x", "--metadata", "{"], "not JSON"),
        (["add", "x", "--at", "noon"], "ISO 8601"),
        (["add", "x", "--key", "k"], "--key does not go with --type long_term"),
        (["add", "x", "--type", "entity", "--session", "s"], "--session does not go"),
        (["add", "x", "--type", "short_term", "--pin"], "--pin does not go"),
        (["tier", "gold"], "'gold' is not one of"),
        (["entity", "relate", "Ada", "knows"], "Missing argument 'TARGET'"),
        (["entity", "neighbours", "Ada", "--as-of", "then"], "ISO 8601"),
        (["document", "put", "c", "[1]"], "no JSON object"),
        (["document", "find", "c", "--filter", "{"], "not JSON"),
        (["add", "x", "--type", "working", "--role", "r"], "--role does not go"),
        (["search", "x", "--filter", "novalue"], "not key=value"),
        (["import", "f", "--from", "xml"], "'xml' is not one of"),
        (["model", "install", "--precision", "int4"], "'int4' is not one of"),
        ([], "Missing command"),
    ],
)
def test_a_wrong_command_line_exits_with_2(program, line: list[str], said: str) -> None:
    error = program.refused(*line, code=2)
    assert error["type"] == "UsageError"
    result = program(*line)
    assert result.exit_code == 2
    assert said in result.stderr + result.stdout
    assert said in error["message"]
    assert not program.data.exists()


def test_a_refusal_is_one_line_and_exits_with_1(program) -> None:
    program.ok("add", "x")
    result = program("get", "nosuch")
    assert (result.exit_code, result.stdout) == (1, "")
    user, error = result.stderr.splitlines()
    assert user == "User default, as --user names nobody."
    assert error.startswith("Error: no memory 'nosuch'")


def test_an_unexpected_error_shows_no_traceback_unless_asked_to(program, monkeypatch) -> None:
    def crash(*_: object, **__: object) -> None:
        raise RuntimeError("kaboom")

    program.ok("add", "x")
    monkeypatch.setattr(running, "open_or_join", crash)
    plain, debugged = program("list"), program("list", "--debug")
    assert plain.exit_code == debugged.exit_code == 1
    assert "kaboom" in plain.stderr
    assert "--debug" in plain.stderr
    assert "Traceback" not in plain.stderr
    assert "Traceback" in debugged.stderr
    assert program.refused("list")["type"] == "RuntimeError"


def test_a_command_that_cannot_be_imported_is_no_unknown_command(program, monkeypatch) -> None:
    def crash(name: str) -> None:
        raise KeyError(name)

    monkeypatch.setattr("memory_actors.cli.import_module", crash)
    assert program.refused("list")["type"] == "KeyError"


def test_an_open_store_is_refused_with_its_process(program) -> None:
    program.ok("add", "x")
    code = (
        "import sys, anyio\nfrom eventlog import Environment\nfrom pathlib import Path\n"
        "held = Environment(Path(sys.argv[1]), ['x'])\nprint('held', flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(program.data / "log.mdb")],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT,
    ) as holder:  # fmt: skip
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        error = program.refused("list")
        doctor = program("doctor", "--json")
        holder.communicate()
    assert error["type"] == "LogLocked"
    assert str(holder.pid) in error["message"]
    lock = {check["name"]: check for check in json.loads(doctor.stdout)["checks"]}["log lock"]
    assert (lock["status"], str(holder.pid) in lock["found"]) == ("warning", True)


def test_warnings_of_the_library_go_to_stderr_only(program) -> None:
    program.embedder.failure = EmbedderError("no model today")
    result = program("add", "x", "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout)["indexed"] is False
    assert "memory kept, not indexed" in result.stderr
    assert "not searchable" in program("add", "y").stdout


# --- the real program, in a process of its own


@pytest.fixture(scope="module")
def filled(tmp_path_factory, spawn) -> Path:
    """A store made by the real program with the real model."""
    data = tmp_path_factory.mktemp("real") / "memory"
    lines = "".join(f'{{"content": "note {n} about tea", "id": "n{n}"}}\n' for n in range(150))
    result = spawn("import", "-", "--data", str(data), "--json", stdin=lines)
    assert (result.returncode, result.stderr) == (0, "")
    assert json.loads(result.stdout)["added"] == 150
    return data


def test_the_real_program_finds_by_meaning(filled: Path, spawn) -> None:
    for text in ("User enjoys skiing", "The printer is out of paper"):
        assert spawn("add", text, "--data", str(filled)).returncode == 0
    result = spawn("search", "winter sports", "--data", str(filled), "--json", "--top-k", "1")
    assert (result.returncode, result.stderr) == (0, "")
    assert [hit["content"] for hit in json.loads(result.stdout)] == ["User enjoys skiing"]


def test_the_output_has_no_colours_or_bars_when_nobody_looks(
    filled: Path, spawn, tmp_path: Path
) -> None:
    of_user = ["--user", "default"]
    for line in (
        ["list", *of_user], ["verify"], ["export", str(tmp_path / "out.jsonl"), *of_user],
    ):  # fmt: skip
        result = spawn(*line, "--data", str(filled))
        assert (result.returncode, result.stderr) == (0, "")
        assert "\x1b" not in result.stdout


def test_a_reader_who_leaves_early_gets_no_traceback(filled: Path) -> None:
    export = [sys.executable, "-m", "memory_actors.cli", "export", "--user", "default"]
    export += ["--data", str(filled)]
    line = f"{shlex.join(export)} | head -n 1"
    shell = subprocess.run(
        ["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    assert json.loads(shell.stdout)["content"].startswith("note")
    assert shell.stderr == ""


def test_an_interrupted_program_says_so_and_exits_with_130(filled: Path) -> None:
    with subprocess.Popen(
        [*INTERRUPTIBLE, "import", "-", "--data", str(filled)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    ) as child:  # fmt: skip
        assert child.stdin is not None
        lock = filled / "log.mdb.lock"
        while lock.read_text().split()[:1] != [str(child.pid)]:  # until the store is open
            assert child.poll() is None
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        child.stdin.close()
        child.wait(30)
        assert child.stderr is not None
        said = child.stderr.read().decode()
    assert child.returncode == 130
    assert "interrupted" in said
    assert "Traceback" not in said


def test_the_embedder_has_three_sources(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The embedder is that of the option, of the environment, or the store's own."""
    assert App().model is None
    monkeypatch.setenv("MEMORY_ACTORS_EMBEDDER", "multilingual")
    assert App().model == "multilingual"
    assert App(embedder="default").model == "default"
    own = FakeEmbedder()
    assert App(embedder=own).model is own


def test_an_embedder_that_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = ["--data", str(tmp_path / "memory")]
    wrong = CliRunner().invoke(main, [*data, "--embedder", "klingon", "add", "tea"])
    assert wrong.exit_code == 2
    assert "'multilingual'" in wrong.stderr
    monkeypatch.setenv("MEMORY_ACTORS_EMBEDDER", "klingon")
    told = CliRunner().invoke(main, [*data, "add", "tea", "--json"])
    assert told.exit_code == 1
    assert json.loads(told.stdout)["error"]["type"] == "InvalidInputError"
    assert not (tmp_path / "memory").exists()
