"""ONNX Runtime keeps no device id, records no events and looks no collector up."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from memory_actors.search.model.installed import MODEL_DIR_VARIABLE

EMBEDDING = """
import memory_actors.sync, sys, time
with memory_actors.sync.MemorySystem.open(sys.argv[1]) as memory:
    memory.user("ada").add("She drinks green tea")
    assert memory.user("ada").retrieve("tea")
    time.sleep(float(sys.argv[2]))
"""
LOOKED_UP_S = 8  # by then 1.29 to 1.32 have asked for the collector, some 5 s after they are loaded
MAIN = "from memory_actors.cli import main; main()"
TOOL_CALLS: list[dict[str, object]] = [
    {"id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "0"},
    }},
    {"method": "notifications/initialized"},
    {"id": 2, "method": "tools/call", "params": {
        "name": "remember", "arguments": {"content": "She drinks green tea"},
    }},
]  # fmt: skip
TOOL_INPUT = "".join(json.dumps({"jsonrpc": "2.0", **one}) + "\n" for one in TOOL_CALLS)

pytestmark = pytest.mark.skipif(shutil.which("strace") is None, reason="there is no strace")


def traced(tmp_path: Path, model: Path, *arguments: str, said: str = "") -> str:
    """Run Python under strace in an empty home; return the calls that name files and addresses."""
    home, trace = tmp_path / "home", tmp_path / "trace"
    home.mkdir()
    kept = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    kept |= {"HOME": str(home), "XDG_CACHE_HOME": str(home / ".cache")}
    kept |= {MODEL_DIR_VARIABLE: str(model.parent)}
    calls = "trace=connect,sendto,sendmmsg,openat,mkdir,mkdirat"
    strace = ["strace", "-f", "-qq", "-s", "200", "-e", calls, "-o", str(trace)]
    process = subprocess.Popen(
        [*strace, sys.executable, *arguments],
        env=kept, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(said)
    process.stdin.flush()
    for _ in range(said.count('"id"')):
        process.stdout.readline()
    _, told = process.communicate(timeout=120)
    if "ptrace" in told.lower():
        pytest.skip(f"strace may not trace here: {told:.80}")
    seen = trace.read_text(errors="replace")
    assert "onnxruntime_pybind11_state" in seen, told
    return seen


def check_quiet(seen: str) -> None:
    assert not re.findall(r"(?i).*(?:deviceid|onnxruntime\.db|events.{1,4}data.{1,4}micro).*", seen)
    assert not re.findall(r".*sin6?_port=htons\((?:53|80|443)\).*", seen)


@pytest.mark.slow
def test_embedding_keeps_no_device_id_and_looks_no_collector_up(
    tmp_path: Path, model_folder: Path
) -> None:
    check_quiet(
        traced(tmp_path, model_folder, "-c", EMBEDDING, str(tmp_path / "store"), str(LOOKED_UP_S))
    )


def test_doctor_keeps_no_device_id(tmp_path: Path, model_folder: Path) -> None:
    check_quiet(
        traced(tmp_path, model_folder, "-c", MAIN, "--data", str(tmp_path / "store"), "doctor")
    )


def test_mcp_keeps_no_device_id(tmp_path: Path, model_folder: Path) -> None:
    arguments = ["-c", MAIN, "--data", str(tmp_path / "store"), "--user", "ada", "mcp"]
    check_quiet(traced(tmp_path, model_folder, *arguments, said=TOOL_INPUT))


def test_telemetry_is_off_before_any_of_our_modules_can_load_the_library() -> None:
    code = "import os, memory_actors; print(os.environ['ORT_DISABLE_TELEMETRY'])"
    inherited = {**os.environ, "ORT_DISABLE_TELEMETRY": ""}
    said = subprocess.check_output([sys.executable, "-c", code], env=inherited, text=True)
    assert said == "1\n"
