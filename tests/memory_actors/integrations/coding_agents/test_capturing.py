"""Sessions of coding agents: read from each host's transcripts, stored once, found again."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from support.coding_agents_transcripts import ASKED, FAILED, FIXED, REPLIED, WRITERS

from memory_actors.integrations.coding_agents import pausing
from memory_actors.integrations.coding_agents.backfill import backfill
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.installing import Command, hooks_change
from memory_actors.integrations.coding_agents.private import Cleaner
from memory_actors.integrations.coding_agents.projects import project_of
from memory_actors.integrations.coding_agents.recalling import at_prompt, at_start
from memory_actors.integrations.coding_agents.transcripts import turns

HOOK = [sys.executable, "-P", "-m", "memory_actors.integrations.coding_agents.hook"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delenv("CODEX_HOME", raising=False)
    return tmp_path


@pytest.fixture
def shop(home: Path) -> Path:
    """A checkout of a project."""
    git = home / "shop" / ".git"
    git.mkdir(parents=True)
    url = "git@GitHub.com:acme/shop.git"
    (git / "config").write_text(f'[core]\n\tbare = false\n[remote "origin"]\n\turl = {url}\n')
    return git.parent


@pytest.mark.parametrize("host", WRITERS)
def test_transcripts_of_each_host_are_read_as_turns(host: str, home: Path, shop: Path) -> None:
    path = WRITERS[host](home, shop)

    (turn,) = turns(HOSTS[host].entries(path))

    assert list(HOSTS[host].transcripts()) == [path]
    assert HOSTS[host].working_directory(path) == str(shop)
    assert turn.prompt.text == ASKED
    assert turn.reply is not None
    assert turn.reply.text == REPLIED
    runs = [(run.command, run.file, bool(run.error)) for run in turn.runs]
    assert runs == [(FAILED, "", True), ("", FIXED, False), (FAILED, "", False)]


def test_a_line_that_cannot_be_read_costs_itself_alone(home: Path, shop: Path) -> None:
    path = WRITERS["claude-code"](home, shop)
    half = path.read_bytes()[:-40]
    path.write_bytes(b'\xff\x00\n[1]\n{"type": "user"}\n' + half + b"\n")

    (turn,) = turns(HOSTS["claude-code"].entries(path))

    assert turn.prompt.text == ASKED


@pytest.mark.anyio
@pytest.mark.parametrize("host", WRITERS)
async def test_a_backfill_stores_each_message_once(
    host: str, home: Path, shop: Path, open_memory: Any
) -> None:
    WRITERS[host](home, shop)
    looked = await backfill(None, [host])
    assert (looked.sessions, looked.turns, looked.memories) == (1, 1, 0)

    async with open_memory() as memory:
        first = await backfill(memory, [host])
        second = await backfill(memory, [host])
        user = memory.user(*first.projects)
        facts = await user.list_memories(["long_term"])
        (episode,) = await user.episodes.recent(host)
        started = await at_start([user])
        in_session = await at_prompt([user], ASKED, str(facts[0].session_id), 0.0)
        source = f"{host}:{facts[0].session_id}"
        await user.purge(source)
        left = await user.list_memories(["long_term", "episodic"])

    assert first.projects == ("project:github.com/acme/shop",)
    assert (first.turns, first.episodes, second.turns) == (1, 1, 0)
    assert (second.memories, second.episodes, second.skipped) == (0, 0, ())
    said = {fact.role: fact.content for fact in facts if fact.role}
    assert said == {"user": ASKED, "assistant": REPLIED}
    (fix,) = [fact.content for fact in facts if fact.metadata == {"kind": "fix"}]
    assert fix.startswith(f"`{FAILED}` failed: ")
    assert fix.endswith(f"It worked after changes to {FIXED}.")
    assert (episode.goal, episode.result, episode.status) == (ASKED, REPLIED, "done")
    assert [step.action for step in episode.steps] == [FAILED, f"changed {FIXED}", FAILED]
    assert REPLIED in started
    assert in_session == ""
    assert left == []


def test_what_is_private_is_taken_out(shop: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPL2"
    (shop / ".env").write_text('export DB_PASSWORD="hunt"\nMODE=dev\nHOST=db.internal.example\n')
    text = f"<private>my salary</private> {key} as hunt at db.internal.example, dev <private>open"

    cleaned = Cleaner(shop).clean(text)

    for secret in ("salary", key, "hunt", "db.internal.example", "open"):
        assert secret not in cleaned
    assert "dev" in cleaned
    assert "[secret: DB_PASSWORD]" in cleaned


def test_worktrees_and_folders_of_a_checkout_are_one_project(home: Path, shop: Path) -> None:
    tree = home / "tree"
    tree.mkdir()
    its_own = shop / ".git" / "worktrees" / "tree"
    its_own.mkdir(parents=True)
    (its_own / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {its_own}\n")
    (shop / "src").mkdir()

    found = {project_of(place).user_id for place in (shop, shop / "src", tree)}

    assert found == {"project:github.com/acme/shop"}
    assert project_of(home).user_id == f"project:{home}"


@pytest.mark.parametrize("host", ["codex", "gemini-cli"])
def test_uninstalling_leaves_a_configuration_as_it_was(host: str, home: Path) -> None:
    path = home / str(HOSTS[host].hooks_file)
    path.parent.mkdir(parents=True)
    other = {"hooks": [{"type": "command", "command": "theirs"}]}
    path.write_text(json.dumps({"hooks": {"SessionStart": [other]}}, indent=2) + "\n")
    before = path.read_bytes()
    command = Command("/data", "ada")

    for change in hooks_change(host, command):
        change.write()
    installed = json.loads(path.read_text())["hooks"]
    again = hooks_change(host, command)
    for change in hooks_change(host, None):
        change.write()

    assert installed["SessionStart"][0] == other
    assert "--data /data --user ada" in installed["SessionStart"][1]["hooks"][0]["command"]
    assert all(change.is_none for change in again)
    assert json.loads(path.read_text()) == json.loads(before)


def hooked(home: Path, event: dict[str, Any], data: Path) -> Any:
    """Run a hook as a host does; return what it wrote."""
    done = subprocess.run(
        [*HOOK, "claude-code", "--data", str(data)],
        input=json.dumps(event).encode(),
        capture_output=True,
        check=True,
    )
    return json.loads(done.stdout) if done.stdout else None


def test_a_session_is_captured_and_told_to_the_next_one(home: Path, shop: Path) -> None:
    event = {
        "session_id": "7f0c",
        "cwd": str(shop),
        "transcript_path": str(WRITERS["claude-code"](home, shop)),
    }
    data = home / "memory"
    assert hooked(home, event | {"hook_event_name": "Stop"}, data) is None

    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    told = hooked(home, start, data)

    assert told["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert REPLIED in told["hookSpecificOutput"]["additionalContext"]
    assert not pausing.log_path().exists()
    pausing.pause([project_of(shop).user_id])
    assert hooked(home, start, data) is None


@pytest.mark.anyio
async def test_a_hook_beside_an_owner_loads_no_event_loop_and_no_engine(
    home: Path, shop: Path, open_memory: Any
) -> None:
    WRITERS["claude-code"](home, shop)
    code = (
        "import sys; from memory_actors.integrations.coding_agents.hook import main; main()\n"
        "sys.exit(repr({'asyncio', 'anyio', 'lmdb', 'numpy', 'structlog'} & set(sys.modules)))"
    )
    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    async with open_memory() as memory:
        await backfill(memory, ["claude-code"])
        done = await anyio.run_process(
            [sys.executable, "-c", code, "claude-code", "--data", str(home / "memory")],
            input=json.dumps(start).encode(),
            check=False,
        )

    assert REPLIED in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert done.stderr == b"set()\n"


@pytest.mark.parametrize("sent", [b"", b"[]", b"\xff", b'{"hook_event_name": 3}'])
def test_a_hook_never_fails_its_host(home: Path, sent: bytes) -> None:
    done = subprocess.run(
        [*HOOK, "codex", "--data", str(home / "memory")],
        input=sent,
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"", b"")
    assert not (home / "memory").exists()


def test_a_damaged_store_is_a_line_in_the_log(home: Path, shop: Path) -> None:
    data = home / "memory"
    data.mkdir()
    (data / "log.mdb").write_bytes(b"no log")
    event = {"session_id": "s", "cwd": str(shop), "hook_event_name": "SessionStart"}

    assert hooked(home, event, data) is None
    assert "claude-code: CorruptLog" in pausing.log_path().read_text()
