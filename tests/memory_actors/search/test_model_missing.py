"""A model that cannot be had: no home, nothing writable, an index that is silent."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from memory_actors.base.errors import ModelInstallError
from memory_actors.search.model import install
from memory_actors.search.model.install import install_model
from memory_actors.search.model.installed import MODEL_DIR_VARIABLE, models_dir

NO_HOME = """
import pwd, sys

def nobody(_uid):
    raise KeyError("this user has no entry")

pwd.getpwuid = nobody
"""
COMMAND = NO_HOME + "from memory_actors.cli import main; main()"
LIBRARY = """
import sys, time
from memory_actors.sync import MemorySystem

with MemorySystem.open(sys.argv[1]) as memory:
    for ask in ("add", "retrieve", "add", "retrieve"):
        begun_s = time.monotonic()
        try:
            said = getattr(memory.user("ada"), ask)("She drinks tea")
            said = said.indexed if ask == "add" else len(said)
        except Exception as error:
            said = type(error).__name__
        print(ask, said, round(time.monotonic() - begun_s, 2), flush=True)
"""
HOMES: list[dict[str, str]] = [{}, {"HOME": "/", "XDG_CACHE_HOME": "/proc/x"}]
SILENCE_S = 20.0  # what a busy machine makes of 5


def child(code: str, *arguments: str, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run Python with this environment alone."""
    kept = {"PATH": os.environ["PATH"], "PYTHONPATH": os.environ.get("PYTHONPATH", ""), **env}
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=kept, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.fixture
def silent_index() -> Iterator[str]:
    """Listen, and never say anything."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        held: list[object] = []

        def swallow() -> None:
            try:
                while True:
                    held.append(found.accept())
            except OSError:
                pass

        threading.Thread(target=swallow, daemon=True).start()
        yield f"http://127.0.0.1:{found.getsockname()[1]}/simple"
        found.shutdown(socket.SHUT_RDWR)
        for connection, _ in held:  # type: ignore[misc]
            connection.close()


@pytest.mark.parametrize("home", HOMES, ids=str)
def test_the_command_line_keeps_a_memory_without_a_home_and_says_what_is_missing(
    home: Mapping[str, str], tmp_path: Path
) -> None:
    store = ["--data", str(tmp_path / "memory"), "--user", "ada"]
    added = child(COMMAND, *store, "add", "She drinks tea", env=home)
    assert added.returncode == 0, added.stderr
    assert MODEL_DIR_VARIABLE in added.stderr
    assert "She drinks tea" in child(COMMAND, *store, "list", env=home).stdout
    for command in (["search", "tea"], ["doctor"], ["model", "path"], ["model", "install"]):
        failed = child(COMMAND, *store, *command, env=home)
        assert failed.returncode != 0, command
        assert "unexpected" not in failed.stdout + failed.stderr
        if command[0] == "search" or command[-1] == "install":
            assert MODEL_DIR_VARIABLE in failed.stderr


def test_the_library_keeps_a_memory_without_a_home(tmp_path: Path) -> None:
    said = child(NO_HOME + LIBRARY, str(tmp_path / "memory"), env={}).stdout.split("\n")
    assert [line.split()[:2] for line in said if line] == [
        ["add", "False"], ["retrieve", "ModelInstallError"],
    ] * 2  # fmt: skip


def test_without_a_home_the_error_names_the_variable_to_set(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def nobody(*_: object) -> str:
        raise RuntimeError("could not determine the home directory")

    monkeypatch.delenv(MODEL_DIR_VARIABLE, raising=False)
    monkeypatch.setattr("platformdirs.user_cache_dir", nobody)
    with pytest.raises(ModelInstallError, match=f"set {MODEL_DIR_VARIABLE}"):
        models_dir()


def test_an_index_that_says_nothing_holds_up_one_call_for_seconds_and_no_other(
    silent_index: str, tmp_path: Path
) -> None:
    env = {MODEL_DIR_VARIABLE: str(tmp_path / "models"), "PIP_INDEX_URL": silent_index}
    said = [
        line.split() for line in child(LIBRARY, str(tmp_path / "m"), env=env).stdout.split("\n")
    ]
    assert [line[:2] for line in said if line] == [
        ["add", "False"], ["retrieve", "ModelInstallError"],
    ] * 2  # fmt: skip
    assert float(said[0][2]) < SILENCE_S
    assert all(float(line[2]) < 1.0 for line in said[1:4])


def test_an_index_that_says_nothing_is_asked_once_an_hour_by_all_processes(
    silent_index: str, tmp_path: Path
) -> None:
    env = {MODEL_DIR_VARIABLE: str(tmp_path / "models"), "PIP_INDEX_URL": silent_index}
    child(LIBRARY, str(tmp_path / "m"), env=env)
    again = child(LIBRARY, str(tmp_path / "m"), env=env)
    assert all(float(line.split()[2]) < 1.0 for line in again.stdout.split("\n") if line)


def test_a_client_is_given_up_when_next_to_nothing_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index may say a byte now and then; a slow one that goes on is waited for."""
    monkeypatch.setattr(install, "_STALLED_S", 0.5)
    code = (
        "import sys, time\nfor _ in range(int(sys.argv[1])):\n"
        " open('part', 'ab').write(b' ' * int(sys.argv[2])); time.sleep(0.1)"
    )
    client = [sys.executable, "-c", code]
    reason = install._refused([*client, "600", "1"], tmp_path)
    assert reason == "under 128 KB came within 0.5 s"
    assert install._refused([*client, "12", "500_000"], tmp_path) is None


def test_a_failed_installation_is_tried_again_after_an_hour_or_when_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[float] = []

    def fails(*_: object) -> None:
        tries.append(time.time())
        raise ModelInstallError("The index says nothing.")

    monkeypatch.setattr(install, "_from_index", fails)
    for when_due in (True, True, False):
        with pytest.raises(ModelInstallError, match="The index says nothing"):
            install_model(cache_dir=tmp_path, when_due=when_due)
    assert len(tries) == 2
    [failed] = tmp_path.glob(".*.failed")
    os.utime(failed, (time.time() - 3601, time.time() - 3601))
    with pytest.raises(ModelInstallError):
        install_model(cache_dir=tmp_path, when_due=True)
    assert len(tries) == 3
