"""A model that is prepared for the first search says so on a terminal."""

import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from support.llm_server import Server


def test_the_first_search_with_another_model_shows_how_far_it_is(
    tmp_path: Path, server: Server
) -> None:
    program = [
        sys.executable, "-m", "memory_actors.cli", "--data", str(tmp_path / "m"),
        "--embedder", f"{server.url}/embeddings#mine",
    ]  # fmt: skip
    subprocess.run([*program, "add", "Ada plays the cello."], check=True, capture_output=True)
    mine, theirs = pty.openpty()
    search = [*program, "search", "Who plays the cello?"]
    try:
        done = subprocess.run(search, check=True, stdout=subprocess.PIPE, stderr=theirs)
        os.set_blocking(mine, False)
        told = b""
        with suppress(BlockingIOError):
            while some := os.read(mine, 65_536):
                told += some
    finally:
        os.close(mine)
        os.close(theirs)

    assert b"Ada plays the cello." in done.stdout
    assert b"Preparing the model" in told
    again = subprocess.run(search, check=True, capture_output=True)
    assert b"Preparing" not in again.stderr
