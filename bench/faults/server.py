"""Clients of the server that never finish: nothing is sent, half the headers, half a body.

A thousand and more of them are held open. Meanwhile `/health` must answer, and a client that does
finish must be served.
"""

import asyncio
import importlib.util
import resource
import socket
import time
from contextlib import ExitStack
from functools import partial
from http.client import HTTPConnection
from pathlib import Path

from bench.faults import example
from bench.faults.row import Counts, Row
from bench.faults.trials import in_loop
from memory_actors.server import KeyStore

TIMES = {"quick": 1, "middle": 5, "full": 20}
HELD = 1_005
FILES_MIN = 2 * HELD + 500
"""Both ends of a connection are in one process."""
ANSWER_S_MAX = 5.0
USER = "ada"
HEAD = f"POST /v1/users/{USER}/memories HTTP/1.1\r\nHost: x\r\n"
HELD_OPEN = {
    "nothing": b"",
    "half a line": b"GET /hea",
    "half the headers": b"GET /health HTTP/1.1\r\nHost: x\r\nX-Slow: ",
    "half a body, no key": f"{HEAD}Content-Length: 100\r\n\r\n{{".encode(),
    "half a body": b"",  # with a key, which is made with the store
}


def run(counts: Counts, _seed: int, scratch: Path) -> Row:
    """Hold connections open, of each kind."""
    row = Row(fault=f"{HELD:,} connections that never finish a request")
    if importlib.util.find_spec("uvicorn") is None or importlib.util.find_spec("litestar") is None:
        row.skipped = "the extra `server` is not installed"
        return row
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < FILES_MIN:
        row.skipped = f"a process may have {hard:,} files here, and this needs {FILES_MIN:,}"
        return row
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MIN, hard))
    for n in range(TIMES[counts]):
        for name in HELD_OPEN:
            ending = in_loop(partial(_trial, scratch / f"{n} {name}", name))
            if ending.kind == "survived":
                row.survive(name)
            else:
                row.fail(f"{name}: {ending.kind}", ending.detail)
    return row


async def _trial(store: Path, name: str) -> tuple[str, str]:
    from memory_actors.server.serving import listening, new_server  # the extra may be missing

    async with example.opened(store) as memory:
        keys = KeyStore(store)
        token = keys.create(USER)[0]
        with listening("127.0.0.1", 0) as bound:
            server = new_server(memory, keys)
            serving = asyncio.create_task(server.serve([bound]))
            try:
                ending = await asyncio.to_thread(_held, bound.getsockname()[1], token, name)
            finally:
                server.should_exit = True
                await serving
    return ending


def _held(port: int, token: str, name: str) -> tuple[str, str]:
    sent = HELD_OPEN[name]
    if name == "half a body":
        sent = f"{HEAD}Authorization: Bearer {token}\r\nContent-Length: 100\r\n\r\n{{".encode()
    with ExitStack() as held:
        for _ in range(HELD):
            line = socket.create_connection(("127.0.0.1", port), timeout=ANSWER_S_MAX)
            held.enter_context(line)
            line.sendall(sent)
        started = time.perf_counter()
        status = _asked(port, "GET", "/health", token, b"")
        if status != 200:
            return "locked out", f"/health answers {status}"
        if name != "half a body":  # 256 of these are in work: others are told to come again
            status = _asked(
                port, "POST", f"/v1/users/{USER}/memories", token, b'{"content":"likes tea"}'
            )
            if status != 201:
                return "locked out", f"an add is answered {status}"
        took = time.perf_counter() - started
        return ("slow", f"{took:.1f} s") if took > ANSWER_S_MAX else ("survived", "")


def _asked(port: int, method: str, path: str, token: str, body: bytes) -> int:
    connection = HTTPConnection("127.0.0.1", port, timeout=ANSWER_S_MAX)
    try:
        connection.request(method, path, body, {"Authorization": f"Bearer {token}"})
        return connection.getresponse().status
    except OSError as error:
        return -(error.errno or 1)
    finally:
        connection.close()
