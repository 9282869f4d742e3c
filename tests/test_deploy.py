"""What docs/deploy.md says to run is run: real workers, real processes, a notebook's loop."""

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

ROOT = Path(__file__).parents[1]
APP, PROCESSES, NOTEBOOK = re.findall(
    r"```python\n(.*?)```", (ROOT / "docs/deploy.md").read_text("utf-8"), re.DOTALL
)
ENV = {**os.environ, "PYTHONPATH": str(ROOT)}
STARTED_S_MAX = 60.0


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """The web app with four workers: the address."""
    said = "\n\n@app.get('/pid')\ndef pid() -> int:\n    import os\n    return os.getpid()\n"
    (tmp_path / "app.py").write_text(APP + said)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", "app:app", "--workers", "4", "--port", str(port)]
    with subprocess.Popen(
        command, cwd=tmp_path, env=ENV, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
    assert not (tmp_path / "memory/owner.sock").exists()


def _answered(url: str) -> int:
    """Return the process of whoever answers, as soon as somebody does."""
    until_s = time.monotonic() + STARTED_S_MAX
    while True:
        try:
            return int(httpx.get(f"{url}/pid", timeout=10).text)
        except httpx.TransportError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.1)


def test_four_workers_of_a_web_app_have_one_memory(served: str) -> None:
    """Whoever answers has what the others wrote, also when the owner has been killed."""
    _answered(served)
    for n in range(12):
        added = httpx.post(
            f"{served}/users/ada/memories", params={"content": f"fact {n}"}, timeout=60
        )
        assert added.status_code == 200, added.text
    pids = {_answered(served) for _ in range(40)}
    assert len(pids) > 1
    for _ in range(8):
        found = httpx.get(f"{served}/users/ada/memories", params={"query": "fact"}, timeout=60)
        assert len(found.json()) == 5


def test_worker_processes_write_to_one_memory(tmp_path: Path) -> None:
    (tmp_path / "work.py").write_text(PROCESSES)
    ran = subprocess.run(
        [sys.executable, "work.py"], cwd=tmp_path, env=ENV, timeout=100,
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ran.stdout == "6\n", ran.stderr


def test_a_notebook_has_a_loop_that_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    async def cell() -> None:
        exec(NOTEBOOK, {})

    asyncio.run(cell())
    assert capsys.readouterr().out == "1\n"
