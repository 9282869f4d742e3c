"""A model that is prepared for the first search says so on a terminal."""

import os
import pty
import subprocess
import sys
import threading
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
    told: list[bytes] = []
    reading = threading.Thread(target=_read, args=(mine, told))
    reading.start()
    try:
        done = subprocess.run(search, check=True, stdout=subprocess.PIPE, stderr=theirs)
    finally:
        os.close(theirs)
        reading.join()
        os.close(mine)

    assert b"Ada plays the cello." in done.stdout
    assert b"Preparing the model" in b"".join(told)
    again = subprocess.run(search, check=True, capture_output=True)
    assert b"Preparing" not in again.stderr


def _read(terminal: int, told: list[bytes]) -> None:
    """Read all that is shown: a terminal that nobody reads stops its program when it is full."""
    with suppress(OSError):  # the program has closed its side
        while some := os.read(terminal, 65_536):
            told.append(some)
