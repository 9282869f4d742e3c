"""Opening a file of a store: regular files alone, without a wait, by one function."""

import ast
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from contracts.stores import Noted, registry

from bench.faults.impostors import KINDS, put
from bench.faults.trials import in_child, in_loop
from eventlog import EventLog, EventLogError, repair
from eventlog.files.datafile import (
    ANEW,
    MADE,
    NotARegularFile,
    open_regular,
    read_bytes,
    write_whole,
)
from eventlog.keys import keyfile

ROOT = Path(__file__).parents[3]
DEADLINE_S = 20.0


def refused(work: Callable[[], object]) -> tuple[str, str]:
    try:
        work()
    except (OSError, EventLogError) as error:
        return type(error).__name__, str(error)
    return "taken", ""


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_RDWR | MADE, ANEW], ids=["read", "made", "new"]
)
def test_what_is_no_regular_file_is_refused_at_once(tmp_path: Path, kind: str, flags: int) -> None:
    put(kind, tmp_path / "file")

    ending = in_child(lambda: refused(lambda: open_regular(tmp_path / "file", flags)), DEADLINE_S)

    assert ending.kind in ("NotARegularFile", "OSError"), ending
    if kind != "loop" or flags != os.O_RDONLY:
        assert "and not a file: move it away" in ending.detail


def test_links_are_read_through_and_never_written_through(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to(tmp_path / "secret")

    assert read_bytes(tmp_path / "link") == b"secret"
    for flags in (os.O_RDWR | MADE, ANEW):
        with pytest.raises(NotARegularFile, match="a symbolic link"):
            open_regular(tmp_path / "link", flags)
    assert (tmp_path / "secret").read_bytes() == b"secret"


def test_a_link_for_a_temporary_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "somebody's").write_bytes(b"precious")
    (tmp_path / "file.tmp").symlink_to(tmp_path / "somebody's")

    with pytest.raises(NotARegularFile):
        write_whole(tmp_path / "file", b"data")

    assert (tmp_path / "somebody's").read_bytes() == b"precious"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "name", ["log.mdb", "log.mdb-lock", "log.mdb.lock", "log.anchor", "segment", "log.keys"]
)
def test_a_log_over_another_file_type_is_refused(tmp_path: Path, name: str, kind: str) -> None:
    """A log that finds something else in the place of a file raises a typed error."""
    path = tmp_path / "log"

    async def made() -> tuple[str, str]:
        with keyfile.opened(tmp_path / "log.keys") as keys:
            async with EventLog.open(path, registry, keys=keys) as log:
                await log.append("s", [Noted("a")] * 9, 0)
                await log.archive("s", range(1, 6))
        return "made", ""

    async def used() -> tuple[str, str]:
        try:
            with keyfile.opened(tmp_path / "log.keys") as keys:
                async with EventLog.open(path, registry, keys=keys) as log:
                    await log.verify()
                    await log.read_stream("s")
                    await log.backup(tmp_path / "backup")
        except EventLogError as error:
            return "typed", str(error)
        return "taken", ""

    assert in_loop(made, DEADLINE_S).kind == "made"
    file = next(path.glob("archive/*")) if name == "segment" else path / name
    put(kind, tmp_path / name if name == "log.keys" else file)

    assert in_loop(used, DEADLINE_S).kind == "typed"


@pytest.mark.parametrize("name", ["log.mdb", "log.anchor"])
def test_a_pipe_does_not_keep_a_repair_waiting(tmp_path: Path, name: str) -> None:
    (tmp_path / "log").mkdir()
    for each in ("log.mdb", "log.anchor"):
        (tmp_path / "log" / each).write_bytes(b"")
    put("pipe", tmp_path / "log" / name)

    work = lambda: repair(tmp_path / "log", tmp_path / "new", registry, 0)  # noqa: E731
    ending = in_child(lambda: refused(work), DEADLINE_S)

    assert ending.kind == "LogUnavailable", ending
    assert "a pipe" in ending.detail


NAMED_BY_USERS = {
    "eventlog/keys/heads.py": "a file of heads may come down a pipe",
    "eventlog/keys/cryptography.py": "so may a key to sign with",
    "memory_actors/base/package.py": "part of the package",
    "memory_actors/sharing/stdlib_client.py": "looks at a file itself: hooks load little",
    "memory_actors/integrations/coding_agents/hook.py": "/dev/null",
    "memory_actors/integrations/coding_agents/installing.py": "part of the package",
    "memory_actors/integrations/coding_agents/hook_state.py": "files of its own name and mode",
    "memory_actors/cli/doctor.py": "/proc/mounts",
    "memory_actors/observing/monitor.py": "/proc/self/statm",
    "memory_actors/cli/improve.py": "a text that a user names",
    "memory_actors/interchange/files.py": "a file that a user names",
    "memory_actors/integrations/langgraph/store.py": "opens a memory, and no file",
    "memory_actors/integrations/mcp/clients.py": "the configuration of another program",
    "memory_actors/server/dashboard.py": "part of the package",
    "memory_actors/cli/demo/": "part of the package",
    "memory_actors/search/embedding/": "beside the model, or part of the package",
    "memory_actors/search/model/": "beside the model",
    "memory_actors/sharing/address.py": "directories, and a file that it makes",
    "eventlog/postgres/": "connections, and a file of the package",
    "memory_actors/base/text_files.py": "makes files of its own name and mode",
}
OPENERS = {"open", "read_bytes", "read_text", "write_bytes", "write_text", "copyfile"}


def openings(path: Path) -> Iterator[int]:
    """Yield the lines in which a module opens a file by other means than `open_regular`."""
    tree = ast.parse(path.read_text())
    for each in tree.body:
        if isinstance(each, ast.FunctionDef) and each.name in ("open_regular", "sync_to_disk"):
            each.body = []  # the second opens directories
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name | ast.Attribute):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        on = node.func.value if isinstance(node.func, ast.Attribute) else None
        of = on.id if isinstance(on, ast.Name) else ""
        takes_path = isinstance(on, ast.Attribute) or of in ("os", "shutil", "path", "")
        if called in OPENERS and takes_path and not (of == "" and on is None and called != "open"):
            yield node.lineno


def test_no_file_of_a_store_is_opened_by_other_means() -> None:
    """A file that users name may be a pipe, and is listed here with the reason."""
    found = {
        str(path.relative_to(ROOT)): list(openings(path))
        for package in ("eventlog", "memory_actors")
        for path in (ROOT / package).rglob("*.py")
    }
    left = {
        name: lines
        for name, lines in found.items()
        if lines and not any(name.startswith(known) for known in NAMED_BY_USERS)
    }
    assert left == {}
