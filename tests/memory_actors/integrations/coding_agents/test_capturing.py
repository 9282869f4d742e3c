"""Sessions of coding agents: read from each host's transcripts, stored once, found again."""

import json
import os
import socket
import subprocess
import time
from contextlib import ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from click.testing import CliRunner
from support.coding_agents_transcripts import ASKED, FAILED, FIXED, OTHERS, REPLIED, WRITERS
from support.llm_server import Server

import memory_actors
from memory_actors import (
    CallableSummarizer,
    Cluster,
    InvalidInputError,
    MemorySystem,
    NotOfferedError,
    SummarizerError,
)
from memory_actors import sync as blocking
from memory_actors.cli import main
from memory_actors.integrations.coding_agents import hook, hook_state, storing
from memory_actors.integrations.coding_agents.capturing import (
    Captured,
    HostSession,
    backfill,
    capture,
)
from memory_actors.integrations.coding_agents.hook import HookCommand, at_prompt, at_start, event_of
from memory_actors.integrations.coding_agents.hosts import HOSTS
from memory_actors.integrations.coding_agents.installing import changes_of, plugin_directory
from memory_actors.integrations.coding_agents.private import Cleaner
from memory_actors.integrations.coding_agents.projects import project_of
from memory_actors.integrations.coding_agents.readers import reader_of, transcripts
from memory_actors.integrations.coding_agents.transcripts import (
    EPOCH,
    LINE_BYTES_MAX,
    AgentReply,
    Prompt,
    Ran,
    Turn,
    lines,
    turns,
)
from memory_actors.integrations.mcp.clients import config_path
from memory_actors.search.model.installed import MODEL_DIR_VARIABLE, models_dir
from memory_actors.sharing.stdlib_client import OwnerFailed
from memory_actors.users.handles.episodes import Episodes
from tests.memory_actors.server.helpers import serving, until

HOOK = HookCommand("", "").hook("")[:5]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(MODEL_DIR_VARIABLE, str(models_dir()))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    for name in ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME"):
        monkeypatch.delenv(name, raising=False)
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

    (turn,) = turns(reader_of(host).entries(path))

    assert list(transcripts(host)) == [path]
    assert reader_of(host).working_directory(path) == str(shop)
    assert turn.prompt.text == ASKED
    assert turn.reply is not None
    assert turn.reply.text == REPLIED
    runs = [(run.command, run.file, bool(run.error)) for run in turn.runs]
    assert runs == [(FAILED, "", True), ("", FIXED, False), (FAILED, "", False)]


@pytest.mark.parametrize("host", OTHERS)
def test_transcripts_without_results_or_lines_are_read_as_turns(
    host: str, home: Path, shop: Path
) -> None:
    path = OTHERS[host](home, shop)

    (turn,) = turns(reader_of(host).entries(path))

    assert list(transcripts(host)) == [path]
    assert reader_of(host).session_id(path) == path.stem
    assert reader_of(host).working_directory(path) == (str(shop) if host == "opencode" else None)
    assert (turn.prompt.text, turn.prompt.time.year) == (ASKED, 2026)
    assert turn.reply is not None
    assert turn.reply.text == REPLIED
    runs = [(run.command, run.file, bool(run.error)) for run in turn.runs]
    whole = [(FAILED, "", True), ("", FIXED, False), (FAILED, "", False)]
    assert runs == (whole if host == "opencode" else whole[1:2])


@pytest.mark.parametrize(
    ("host", "variable", "inside"),
    [
        ("claude-code", "CLAUDE_CONFIG_DIR", ".claude"),
        ("codex", "CODEX_HOME", ".codex"),
        ("gemini-cli", "GEMINI_CLI_HOME", ""),
    ],
)
def test_transcripts_are_where_the_host_was_told_to_keep_them(
    home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch, host: str, variable: str, inside: str
) -> None:
    path = WRITERS[host](home / "elsewhere", shop)
    assert not list(transcripts(host))
    monkeypatch.setenv(variable, str(home / "elsewhere" / inside))
    assert list(transcripts(host)) == [path]


def test_a_line_that_cannot_be_read_costs_itself_alone(home: Path, shop: Path) -> None:
    path = WRITERS["claude-code"](home, shop)
    half = path.read_bytes()[:-40]
    path.write_bytes(b'\xff\x00\n[1]\n{"type": "user"}\n' + half + b"\n")

    (turn,) = turns(reader_of("claude-code").entries(path))

    assert turn.prompt.text == ASKED


def test_lines_that_other_programs_have_broken_are_read(home: Path, shop: Path) -> None:
    """Halves of surrogate pairs, missing or giant ids, and impossible times cost no line."""
    path = WRITERS["claude-code"](home, shop)
    odd: list[dict[str, Any]] = [
        {"uuid": None, "timestamp": "0001-01-01T00:00:00+14:00"},
        {"uuid": "x" * 1000, "timestamp": 7},
    ]
    written = [
        json.dumps(one | {"type": "user", "message": {"content": f"cut {number} \ud83d"}})
        for number, one in enumerate(odd)
    ]
    path.write_text("\n".join(written))

    first, second = turns(reader_of("claude-code").entries(path))

    assert (first.prompt.text, second.prompt.text) == ("cut 0 \ufffd", "cut 1 \ufffd")
    assert (first.prompt.id, second.prompt.id) == ("0", "1")
    assert first.prompt.time == second.prompt.time == EPOCH


def test_a_session_of_an_older_gemini_is_read(home: Path, shop: Path) -> None:
    """It is one object over many lines, with the id of the session in it."""
    newer = WRITERS["gemini-cli"](home, shop)
    first, *messages = [json.loads(line) for line in newer.read_text().splitlines()]
    path = newer.with_suffix(".json")
    path.write_text(json.dumps(first | {"messages": messages}, indent=2))

    found = [list(turns(reader_of("gemini-cli").entries(one))) for one in (newer, path)]

    assert found[0] == found[1]
    assert reader_of("gemini-cli").session_id(path) == first["sessionId"]


@pytest.mark.parametrize("host", WRITERS)
def test_an_id_may_be_anything(host: str, home: Path, shop: Path) -> None:
    path = WRITERS[host](home, shop)
    text = path.read_text()
    for known, other in (('"t1"', "{}"), ('"c1"', "[]"), ('"u4"', "5"), ('"m2"', "{}")):
        text = text.replace(known, other)
    path.write_text(text)

    (turn,) = turns(reader_of(host).entries(path))

    assert turn.prompt.text == ASKED


@pytest.mark.anyio
async def test_one_transcript_ends_no_backfill(home: Path, shop: Path, open_memory: Any) -> None:
    """Not one of a directory, or of a session, whose name no memory can have."""
    WRITERS["claude-code"](home, shop)
    WRITERS["claude-code"](home, Path("/" + "x" * 600), "other")
    WRITERS["gemini-cli"](home, shop, "x" * 600)
    async with open_memory() as memory:
        done = await backfill(memory, ["gemini-cli", "claude-code"])

    assert done.projects == ("project:github.com/acme/shop",)
    assert (done.sessions, len(done.skipped)) == (1, 2)


def test_a_line_that_is_too_long_is_left_out(home: Path, shop: Path) -> None:
    path = WRITERS["claude-code"](home, shop)
    with path.open("ab") as file:
        file.write(b'"' + b"x" * (2 * LINE_BYTES_MAX) + b'"\n{"type": "last"}')

    *_, (number, last) = lines(path)

    assert (number, last.value) == (14, {"type": "last"})


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


def said(number: int, reply: str | None = None, *runs: Ran) -> Turn:
    """Return a turn of a session."""
    time = EPOCH + timedelta(minutes=number)
    replied = None if reply is None else AgentReply(reply, time)
    return Turn(Prompt(f"p{number}", f"prompt {number}", time), runs, replied)


@pytest.mark.anyio
async def test_a_session_is_captured_turn_by_turn(shop: Path, open_memory: Any) -> None:
    """The summary follows, and a reply that came late takes the place of the one before."""
    session, project = HostSession("codex", "s"), project_of(str(shop))
    async with open_memory() as memory:
        user = memory.user(project.user_id)

        async def captured(*given: Turn) -> list[tuple[str | None, str]]:
            await capture(memory, project, session, given)
            return [(one.role, one.content) for one in await user.list_memories()]

        await captured(said(1, "let me look"))
        second = await captured(said(1, "done one"), said(2))
        third = await captured(said(1, "done one"), said(2, "done two"))
        (summary,) = await user.list_memories(filters={"kind": "session summary"})
        again = await capture(memory, project, session, [said(1, "done one"), said(2, "done two")])
        working = await user.working.items()

    assert [text for role, text in second if role] == ["prompt 2", "done one", "prompt 1"]
    assert [text for role, text in third if role] == [
        "done two", "prompt 2", "done one", "prompt 1"
    ]  # fmt: skip
    assert summary.content.splitlines() == [
        "user: prompt 1", "agent: done one", "user: prompt 2", "agent: done two"
    ]  # fmt: skip
    assert again == Captured(0, 0, 0)
    assert working == {}


@pytest.mark.anyio
async def test_a_fork_of_a_session_adds_only_what_it_has_more(shop: Path, open_memory: Any) -> None:
    """A host copies the lines into a new transcript, and may give them other ids."""
    project = project_of(str(shop))
    old = [said(1, "done one", Ran("sh", "ls")), said(2, "done two")]
    copied = [turn._replace(prompt=turn.prompt._replace(id=f"f{n}")) for n, turn in enumerate(old)]
    async with open_memory() as memory:
        user = memory.user(project.user_id)
        await capture(memory, project, HostSession("claude-code", "s"), old)
        fork = HostSession("claude-code", "fork")
        none = await capture(memory, project, fork, copied)
        some = await capture(memory, project, fork, [*copied, said(3)])
        more = await capture(memory, project, fork, [*copied, said(3), said(4)])
        facts = await user.list_memories(["long_term"], filters={"kind": {"exists": False}})
        summaries = await user.list_memories(filters={"kind": "session summary"})

    assert (none, some, more) == (Captured(), Captured(1, 1, 0), Captured(1, 1, 0))
    assert [one.content for one in facts] == [
        "prompt 4", "prompt 3", "done two", "prompt 2", "done one", "prompt 1"
    ]  # fmt: skip
    assert summaries[0].content == "user: prompt 3\nuser: prompt 4"


@pytest.mark.anyio
async def test_a_summary_is_rewritten_only_where_it_is_asked_for(
    shop: Path, open_memory: Any
) -> None:
    """Once a session and once at its end: each version is an event of up to 1 KB."""
    session, project = HostSession("codex", "s"), project_of(str(shop))
    async with open_memory() as memory:
        user = memory.user(project.user_id)
        for number in (1, 2, 3):
            told = [said(one, f"done {one}") for one in range(1, number + 1)]
            await capture(memory, project, session, told, summarise=False)
        (first,) = await user.list_memories(filters={"kind": "session summary"})
        kept = len(await user.history(first.memory_id))
        for _ in range(2):
            await capture(memory, project, session, told)
        (last,) = await user.list_memories(filters={"kind": "session summary"})
        events = len(await user.history(first.memory_id))

    assert first.content == "user: prompt 1\nagent: done 1"
    assert last.content.endswith("user: prompt 3\nagent: done 3")
    assert (kept, events) == (1, 2)


@pytest.mark.anyio
@pytest.mark.parametrize("fails", [False, True])
async def test_a_model_that_is_set_writes_a_long_summary(
    shop: Path, open_memory: Any, fails: bool
) -> None:
    """One that fails leaves it to the sentences of the session."""

    async def asked(cluster: Cluster) -> str:
        if fails:
            raise SummarizerError("no summary: 503")
        return f"They counted {len(cluster.texts)} times."

    turns_ = [said(number, "We decided to use one writer. " * 30) for number in range(3)]
    async with open_memory() as memory:
        session, project = HostSession("codex", "s"), project_of(str(shop))
        model = CallableSummarizer(asked)
        await capture(memory, project, session, turns_, summarizer=model)
        user = memory.user(project.user_id)
        (summary,) = await user.list_memories(filters={"kind": "session summary"})

    assert (summary.content == "They counted 6 times.") != fails
    assert ("one writer" in summary.content) == fails


def test_the_end_of_a_session_is_not_waited_for(home: Path, shop: Path) -> None:
    """The host may end meanwhile, and take its own processes with it."""
    event = {
        "session_id": "7f0c",
        "cwd": str(shop),
        "transcript_path": str(WRITERS["claude-code"](home, shop)),
        "hook_event_name": "SessionEnd",
    }
    assert hooked(home, event, home / "memory") is None

    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    until(lambda: REPLIED in json.dumps(hooked(home, start, home / "memory")))
    assert not Path(hook_state.log_path()).exists()


@pytest.mark.parametrize("key", ["none", "a key"])
def test_a_model_of_the_environment_writes_the_summary_at_the_end(
    home: Path, shop: Path, server: Server, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """One that cannot be used is a line in the log, and the session is stored all the same."""
    path = WRITERS["claude-code"](home, shop)
    path.write_text(path.read_text().replace(REPLIED, "We decided to use one writer. " * 60))
    monkeypatch.setenv("MEMORY_ACTORS_LLM_MODEL", "m")
    monkeypatch.setenv("MEMORY_ACTORS_LLM_BASE_URL", server.url if key == "a key" else "")
    event = {"session_id": "7f0c", "cwd": str(shop), "transcript_path": str(path)}
    hooked(home, event | {"hook_event_name": "SessionEnd"}, home / "memory")
    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}

    wanted = "A summary." if key == "a key" else "one writer"
    until(lambda: wanted in json.dumps(hooked(home, start, home / "memory")), 60)

    assert bool(server.bodies) == (key == "a key")
    log = Path(hook_state.log_path())
    assert ("OPENAI_API_KEY" in log.read_text() if log.exists() else False) == (key == "none")


def test_a_team_shares_the_memory_of_a_project(
    home: Path, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The person's own stays on this machine, and so does the key."""
    monkeypatch.delenv("MEMORY_ACTORS_API_KEY", raising=False)
    event = {
        "session_id": "7f0c",
        "cwd": str(shop),
        "transcript_path": str(WRITERS["claude-code"](home, shop)),
        "hook_event_name": "Stop",
    }
    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    own = home / "memory"
    with blocking.MemorySystem.open(own) as memory:
        memory.user("default").context.add("Rules", "Ann likes short answers.")
    with serving(tmp_path / "served") as server:
        key_file = home / ".config" / "memory-actors" / "api-key"
        key_file.parent.mkdir(parents=True)
        key_file.write_text(server.keys.create("project:github.com/acme/shop")[0] + "\n")
        assert hooked(home, event, own, server.url) is None
        until(Path(hook_state.log_path()).exists)
        refused = Path(hook_state.log_path()).read_text()
        key_file.chmod(0o600)
        assert hooked(home, event, own, server.url) is None

        def recalled() -> str:
            answer = hooked(home, start, own, server.url)
            return str(answer["hookSpecificOutput"]["additionalContext"])

        until(lambda: REPLIED in recalled())
        told = recalled()

    assert "run `chmod 600" in refused
    assert "Ann likes short answers." in told
    with blocking.MemorySystem.open(own) as memory:
        assert memory.users() == ["default"]


def test_a_silent_server_costs_one_prompt_a_second_and_the_next_ones_nothing(
    home: Path, shop: Path
) -> None:
    own, told = home / "memory", "Ann likes short answers."
    with blocking.MemorySystem.open(own) as memory:
        memory.user("default").context.add("Rules", told)
    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.setblocking(False)
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        assert told in json.dumps(hooked(home, start, own, url))
        silent.accept()[0].close()
        assert told in json.dumps(hooked(home, start, own, url))
        with pytest.raises(BlockingIOError):
            silent.accept()

    assert "has not answered in 1 s" in Path(hook_state.log_path()).read_text()
    assert hook_state.is_silent(url)
    silence = Path(hook_state.state_directory(), "silent")
    os.utime(silence, (0, time.time() - hook_state.SILENT_S))
    assert not hook_state.is_silent(url)


@pytest.mark.anyio
async def test_a_summary_is_short_in_any_script(shop: Path, open_memory: Any) -> None:
    turns_ = [said(number, "我们决定使用单个写入者。" * 50) for number in range(3)]
    async with open_memory() as memory:
        await capture(memory, project_of(str(shop)), HostSession("codex", "s"), turns_)
        user = memory.user(project_of(str(shop)).user_id)
        (summary,) = await user.list_memories(filters={"kind": "session summary"})

    assert len(summary.content) < 500


@pytest.mark.anyio
async def test_what_was_purged_does_not_come_back(shop: Path, open_memory: Any) -> None:
    session, project = HostSession("codex", "s"), project_of(str(shop))
    async with open_memory() as memory:
        user = memory.user(project.user_id)
        await capture(memory, project, session, [said(1, "my salary", Ran("sh", "ls"))])
        await user.purge(session.source)
        await capture(memory, project, session, [said(1, "my salary", Ran("sh", "ls")), said(2)])
        left = await user.list_memories(["long_term", "episodic"])

    assert {one.content for one in left} == {"prompt 2", "user: prompt 2"}


@pytest.mark.anyio
async def test_a_text_that_is_refused_costs_itself_alone(shop: Path, open_memory: Any) -> None:
    """For example, a prompt changes if `.env` gets a value that has to be removed from it."""
    session, project = HostSession("codex", "s"), project_of(str(shop))
    odd = said(1, "done", Ran("sh", "  "), Ran("", file="a.py"))
    async with open_memory() as memory:
        user = memory.user(project.user_id)
        await capture(memory, project, session, [odd, said(1, "the same id")])
        (shop / ".env").write_text("WORD=prompt 1\n")
        await capture(memory, project, session, [odd, said(2, "done two")])
        facts = await user.list_memories(["long_term"], filters={"kind": {"exists": False}})
        (episode,) = await user.episodes.recent("codex")

    assert [one.content for one in facts] == ["done two", "prompt 2", "done", "prompt 1"]
    assert [step.action for step in episode.steps] == ["used sh", "changed a.py"]


@pytest.mark.anyio
async def test_where_no_episodes_are_taken_turns_are(
    shop: Path, open_memory: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a server."""

    async def refused(*_: object) -> None:
        raise NotOfferedError("the server does not offer episodes.put")

    monkeypatch.setattr(Episodes, "put", refused)
    async with open_memory() as memory:
        turn = said(1, "done", Ran("sh", "ls"))
        done = await capture(memory, project_of(str(shop)), HostSession("codex", "s"), [turn])

    assert done == Captured(turns=1, memories=2, episodes=0)


@pytest.mark.anyio
async def test_an_episode_keeps_the_last_of_many_steps(shop: Path, open_memory: Any) -> None:
    runs = [Ran("sh", f"make {number}") for number in range(1, 71)]
    async with open_memory() as memory:
        await capture(
            memory, project_of(str(shop)), HostSession("codex", "s"), [said(1, "done", *runs)]
        )
        (episode,) = await memory.user(project_of(str(shop)).user_id).episodes.recent("codex")

    assert (episode.steps[0].number, episode.steps[-1].action) == (21, "make 70")
    assert episode.steps_evicted == 20


def test_a_secret_that_is_cut_is_taken_out_too(shop: Path) -> None:
    """An error is the end of an output, where a block may have no beginning."""
    cleaner = Cleaner(shop)

    assert cleaner.clean("MIIEabc\n-----END RSA PRIVATE KEY-----\nrest") == (
        "[secret:private-key]\nrest"
    )
    assert cleaner.clean("my salary</private> rest") == "[private] rest"
    key = "AKIA" + "IOSFODNN7EXAMPL2"
    assert "AKIA" not in cleaner.clean(f"<private>salary</private>{'x ' * 5} {key}", 20)


def test_what_is_private_is_taken_out(shop: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPL2"
    (shop / ".env").write_text('export DB_PASSWORD="hunt"\nMODE=dev\nHOST=db.internal.example\n')
    (shop / "apps" / "web").mkdir(parents=True)
    (shop / "apps" / "web" / ".env.local").write_text("PAY_TOKEN=zebra\n")
    text = (
        f"<private>my salary</private> {key} with zebra, as hunt at db.internal.example, dev, not "
        "me:hunt@db, but hunting <private>open"
    )

    cleaned = Cleaner(shop).clean(text)

    for secret in ("salary", key, "zebra", "hunt ", ":hunt", "db.internal.example", "open"):
        assert secret not in cleaned
    assert "dev" in cleaned
    assert "but hunting" in cleaned
    assert "[secret:DB_PASSWORD]" in cleaned


def test_worktrees_and_folders_of_a_checkout_are_one_project(home: Path, shop: Path) -> None:
    tree = home / "tree"
    tree.mkdir()
    its_own = shop / ".git" / "worktrees" / "tree"
    its_own.mkdir(parents=True)
    (its_own / "commondir").write_text("../..\n")
    (tree / ".git").write_text(f"gitdir: {its_own}\n")
    (shop / "src").mkdir()

    found = {project_of(str(place)).user_id for place in (shop, shop / "src", tree)}

    assert found == {"project:github.com/acme/shop"}
    assert project_of(str(home)).user_id == f"project:{home}"


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("https://me:p@ss@github.com/acme/shop", "github.com/acme/shop"),
        ("ssh://git@git.acme.io:2222/shop.git", "git.acme.io/shop"),
        ("../shop", None),
        ("/srv/git/shop.git", None),
    ],
)
def test_a_project_is_named_by_the_host_and_path_of_its_remote(
    shop: Path, url: str, name: str | None
) -> None:
    (shop / ".git" / "config").write_text(f'[remote "origin"]\n\turl = {url}\n')

    assert project_of(str(shop)).user_id == f"project:{name or shop}"


@pytest.mark.parametrize("host", [name for name in HOSTS if name != "claude-code"])
def test_uninstalling_leaves_the_files_of_a_host_as_they_were(host: str, home: Path) -> None:
    """Also where somebody has hooks, servers and rules of their own in them."""
    command = HookCommand("/data", "ada")
    paths = [change.path for change in files_of(host, command)]
    assert all(path.is_relative_to(home) for path in paths)
    theirs = {
        ".json": '{\n  "version": 1,\n  "theirs": {}\n}\n',
        ".toml": "[theirs]\n",
        ".md": "# Rules\n",
    }

    def installed_and_removed() -> None:
        for change in changes_of(host, command):
            change.write()
        assert all(path.exists() for path in paths)
        assert all(change.is_none for change in changes_of(host, command))
        for change in changes_of(host, None):
            change.write()

    installed_and_removed()
    assert not any(path.exists() for path in paths)
    kept = [path for path in paths if path.suffix in theirs]
    for path in kept:
        path.write_text(theirs[path.suffix])
    installed_and_removed()
    assert [path.read_text() for path in kept] == [theirs[path.suffix] for path in kept]


def files_of(host: str, command: HookCommand | None) -> list[Any]:
    return [*changes_of(host, command)]


@pytest.mark.parametrize("host", ["codex", "gemini-cli"])
def test_hooks_of_others_stay(host: str, home: Path) -> None:
    path = config_path(host).with_name(str(HOSTS[host].hooks_file))
    path.parent.mkdir(parents=True)
    other = {"hooks": [{"type": "command", "command": "theirs"}]}
    path.write_text(json.dumps({"hooks": {"SessionStart": [other]}}, indent=2) + "\n")
    before = path.read_bytes()

    for change in changes_of(host, HookCommand("/data", "ada", "https://team.example")):
        change.write()
    installed = json.loads(path.read_text())["hooks"]
    for change in changes_of(host, None):
        change.write()

    assert installed["SessionStart"][0] == other
    command = installed["SessionStart"][1]["hooks"][0]["command"]
    assert command.endswith("--data /data --user ada --team https://team.example")
    assert json.loads(path.read_text()) == json.loads(before)


def test_each_host_is_configured_in_its_own_form(home: Path) -> None:
    """As its documentation shows it."""
    command = HookCommand("/data", "ada")

    def written(host: str, number: int) -> str:
        change = files_of(host, command)[number]
        return str(change.after.decode())

    cursor, vscode, windsurf = (
        json.loads(written(one, 1)) for one in ("cursor", "vscode", "windsurf")
    )
    assert (cursor["version"], vscode["version"], [*windsurf]) == (1, 1, ["hooks"])
    assert [*cursor["hooks"]["stop"][0]] == ["timeout", "command"]
    assert vscode["hooks"]["Stop"][0]["type"] == "command"
    (hook,) = windsurf["hooks"]["post_cascade_response_with_transcript"]
    assert [*hook] == ["command"]
    assert json.dumps(command.hook("opencode")) in written("opencode", 1)
    assert "Call the tool `recall`" in written("zed", 1)


def test_hooks_that_were_edited_by_hand_keep_what_is_not_ours(home: Path) -> None:
    """Somebody put a hook of their own beside ours; and into a member that holds no list."""
    path = config_path("codex").with_name("hooks.json")
    for change in changes_of("codex", HookCommand("/data", "ada")):
        change.write()
    read = json.loads(path.read_text())
    theirs = {"type": "command", "command": "theirs"}
    read["hooks"]["Stop"][0]["hooks"].append(theirs)
    path.write_text(json.dumps(read))

    for change in changes_of("codex", None):
        change.write()

    assert json.loads(path.read_text()) == {"hooks": {"Stop": [{"hooks": [theirs]}]}}
    path.write_text('{"hooks": {"Stop": {"command": "theirs"}}}')
    for command in (None, HookCommand("/data", "ada")):
        with pytest.raises(InvalidInputError, match="'Stop' of its hooks is no list"):
            changes_of("codex", command)


def test_codex_is_configured_where_it_looks(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CODEX_HOME", str(home / "elsewhere"))

    paths = [change.path for change in files_of("codex", HookCommand("/data", "ada"))]

    assert paths == [home / "elsewhere" / name for name in ("config.toml", "hooks.json")]


def test_a_plugin_that_was_removed_by_hand_can_be_uninstalled(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And one that is installed again is what it is to be: the program keeps a copy."""
    said = home / "said"
    program = home / "bin" / "claude"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$*" >> {said}\n[ "$2" != uninstall ]\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    install = ["agent", "install", "claude-code", "--yes", "--data", str(home / "memory")]

    def agent(*arguments: str) -> Any:
        return CliRunner().invoke(main, arguments)

    first, second = agent(*install), agent(*install)
    removed = agent("agent", "uninstall", "claude-code", "--yes")

    assert (first.exit_code, second.exit_code, removed.exit_code) == (0, 0, 0)
    assert "`claude plugin uninstall memory-actors@memory-actors` failed" in removed.output
    assert not plugin_directory().exists()
    ran = [line.removeprefix("plugin ").split()[0] for line in said.read_text().splitlines()]
    assert ran == [
        "marketplace", "install", "uninstall", "marketplace", "install", "uninstall", "marketplace"
    ]  # fmt: skip


def test_a_password_is_not_written_into_a_configuration(home: Path) -> None:
    url = "postgresql://me:secret@db.example/memory"
    done = CliRunner().invoke(main, ["agent", "install", "codex", "--yes", "--data", url])

    assert done.exit_code != 0
    assert "leave the password out" in done.output
    assert not config_path("codex").exists()


def hooked(home: Path, event: dict[str, Any], data: Path, team: str = "") -> Any:
    """Run a hook as a host does; return what it wrote."""
    shared = ["--team", team] if team else []
    done = subprocess.run(
        [*HOOK, "claude-code", "--data", str(data), *shared],
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
    until(lambda: REPLIED in json.dumps(hooked(home, start, data)))

    told = hooked(home, start, data)
    assert told["hookSpecificOutput"]["hookEventName"] == "SessionStart"
    assert not Path(hook_state.log_path()).exists()
    hook_state.pause([project_of(str(shop)).user_id])
    assert hooked(home, start, data) is None


@pytest.mark.anyio
async def test_the_installed_server_recalls_what_was_captured(home: Path, shop: Path) -> None:
    """The tool `recall` finds captured memories on hosts without a hook for prompts."""
    mcp = pytest.importorskip("mcp", reason="needs mcp, of the extra dev")
    WRITERS["codex"](home, shop)
    async with MemorySystem.open(home / "memory") as memory:
        await backfill(memory, ["codex"])
    server, _ = changes_of("cursor", HookCommand(str(home / "memory")))
    ours = json.loads(server.after or b"")["mcpServers"]["memory-actors"]
    runs = mcp.StdioServerParameters(**ours, cwd=shop, env=dict(os.environ))

    async with mcp.Client(runs) as client:
        found = (await client.call_tool("recall", {"query": ASKED})).structured_content

    assert REPLIED in [one["content"] for one in found["memories"]]


@pytest.mark.anyio
async def test_the_installed_server_asks_the_team_and_masks_secrets(
    home: Path, shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own memory is asked alone where the server of the team does not answer."""
    mcp = pytest.importorskip("mcp", reason="needs mcp, of the extra dev")
    (shop / ".env").write_text("SHOP_TOKEN=wharf-lantern-7\n")
    key = "AKIA" + "Z7Q4M2X9K1B8V5N3"

    async def recalled(client: Any, query: str) -> list[str]:
        found = (await client.call_tool("recall", {"query": query})).structured_content
        return [one["content"] for one in found["memories"]]

    with ExitStack() as stack:
        server = stack.enter_context(serving(tmp_path / "served"))
        monkeypatch.setenv("MEMORY_ACTORS_API_KEY", server.root)
        server.add("project:github.com/acme/shop", "The log has a single writer")
        change, _ = changes_of("cursor", HookCommand(str(home / "memory"), team=server.url))
        ours = json.loads(change.after or b"")["mcpServers"]["memory-actors"]
        runs = mcp.StdioServerParameters(**ours, cwd=shop, env=dict(os.environ))
        async with mcp.Client(runs) as client:
            said = f"The bucket needs {key}, and the shop wharf-lantern-7"
            await client.call_tool("remember", {"content": said})
            both = await recalled(client, "How many writers has the log, and what the bucket?")
            stack.close()
            own = await recalled(client, "What does the bucket need?")

    masked = "The bucket needs [secret:aws-key], and the shop [secret:SHOP_TOKEN]"
    assert sorted(both) == [masked, "The log has a single writer"]
    assert own == [masked]


@pytest.mark.anyio
async def test_a_hook_beside_an_owner_loads_no_installed_package(
    home: Path, shop: Path, open_memory: Any
) -> None:
    WRITERS["claude-code"](home, shop)
    code = (
        f"import sys; sys.path.append({str(Path(memory_actors.__file__).parents[1])!r})\n"
        "from memory_actors.integrations.coding_agents.hook import main; main(sys.argv[1:])\n"
        "heavy = {'asyncio', 'ast', 'socket', 'inspect', 'pathlib', 'numpy', 'msgspec', 'site'}\n"
        "sys.exit(repr(heavy & set(sys.modules)))"
    )
    start = {"session_id": "next", "cwd": str(shop), "hook_event_name": "SessionStart"}
    async with open_memory() as memory:
        await backfill(memory, ["claude-code"])
        done = await anyio.run_process(
            [*HOOK[:4], "-c", code, "claude-code", "--data", str(home / "memory")],
            input=json.dumps(start).encode(),
            check=False,
        )

    assert REPLIED in json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    assert done.stderr == b"set()\n"


def test_a_session_belongs_to_the_project_in_which_it_began(
    home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The agent may be in another directory by now; and in the middle of a turn."""
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", str(shop))
    sent = {"session_id": "s", "cwd": "/elsewhere", "hook_event_name": "PreCompact"}

    event = event_of("claude-code", json.dumps(sent).encode())

    assert event is not None
    assert (event.directory, event.moment) == (str(shop), "compaction")


@pytest.mark.parametrize(
    ("host", "sent", "moment", "session"),
    [
        ("cursor", {"hook_event_name": "sessionStart", "conversation_id": "c"}, "start", "c"),
        ("vscode", {"hookEventName": "Stop", "sessionId": "v"}, "turn", "v"),
        (
            "windsurf",
            {
                "agent_action_name": "post_cascade_response_with_transcript",
                "trajectory_id": "w",
                "tool_info": {"transcript_path": "/t.jsonl"},
            },
            "turn",
            "w",
        ),
    ],
)
def test_events_of_each_host_are_understood(
    host: str, sent: dict[str, Any], moment: str, session: str, shop: Path
) -> None:
    roots = {"workspace_roots": [str(shop)], "transcript_path": "/t.jsonl"} | sent
    event = event_of(host, json.dumps(roots).encode())

    assert event is not None
    assert (event.moment, event.session_id, event.directory) == (moment, session, str(shop))
    assert event.transcript == "/t.jsonl"


def test_a_damaged_list_of_paused_projects_pauses_all(home: Path, shop: Path) -> None:
    hook_state.pause(["project:other"])
    Path(hook_state.state_directory(), "paused.json").write_bytes(b"[")
    event = {"session_id": "s", "cwd": str(shop), "hook_event_name": "SessionStart"}

    assert hooked(home, event, home / "memory") is None
    assert not (home / "memory").exists()
    assert "resume --everywhere" in Path(hook_state.log_path()).read_text()


def test_a_hook_that_is_called_wrongly_does_not_refuse_the_prompt(home: Path) -> None:
    """Some hosts take the exit code 2 for a refusal."""
    subprocess.run([*HOOK, "no host", "--data", "x"], capture_output=True, check=True)


@pytest.mark.anyio
async def test_what_does_not_fit_makes_room_for_what_does(shop: Path, open_memory: Any) -> None:
    """A long entry does not keep out others and summaries, nor a pasted file what answers."""
    project = project_of(str(shop))
    async with open_memory() as memory:
        user = memory.user(project.user_id)
        await user.context.add("Rules", "Another rule. " * 400)
        await user.context.add("Rules", "Be brief.")
        await capture(memory, project, HostSession("codex", "s"), [said(1, "done one")])
        started = await at_start([user])
        told = await at_prompt([user], "done one " * 20_000, "other", 0.0)

    assert "Another rule." not in started
    assert "Be brief." in started
    assert "## Last sessions in this project\n- 1970-01-01: user: prompt 1" in started
    assert "done one" in told


def test_a_hook_opens_the_store_if_its_owner_is_about_to_close(
    home: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closing(_: object) -> None:
        raise OwnerFailed("SystemClosedError: the memory system is closing: try again")

    monkeypatch.setattr(hook, "OwnerConnection", closing)
    monkeypatch.setattr(storing, "work", lambda *_: "from the store")
    sent = {"session_id": "s", "cwd": str(shop), "hook_event_name": "SessionStart"}
    event = event_of("claude-code", json.dumps(sent).encode())
    assert event is not None

    told = hook.answer(event, HookCommand(str(home / "memory")))

    assert told is not None
    assert told["hookSpecificOutput"]["additionalContext"] == "from the store"


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
    assert "claude-code: CorruptLog" in Path(hook_state.log_path()).read_text()
